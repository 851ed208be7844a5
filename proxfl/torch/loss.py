"""A loss whose numbers come from PyTorch."""

import dataclasses
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np
import torch  # pyright: ignore[reportMissingImports]

from proxfl.errors import first_line
from proxfl.losses import RowLoss
from proxfl.points import Tree, dot, dtype
from proxfl.problem.sparse import is_sparse
from proxfl.torch.host import Host, own
from proxfl.torch.module import misfit


@dataclasses.dataclass(frozen=True, eq=False)
class TorchLoss(RowLoss):
    """What a PyTorch module loses on each row: `loss(module(inputs), target)`.

    `loss` gives one number per row, as PyTorch's do with `reduction="none"`. The rows of a site are
    a pair (inputs, target); inputs that are a tuple become several arguments of the module. Whole
    numbers reach the module as int64, bytes as uint8, everything on the module's device.

    The module is copied, in the mode it is in: `module.eval()` first, if it has layers that draw
    random numbers or count along, such as dropout and BatchNorm, since such layers are refused.
    Start from `px.torch.parameters(module)`. Equal runs give equal bits on a CPU, as long as the
    number of PyTorch's threads stays; on a GPU if `torch.use_deterministic_algorithms(True)`.
    """

    module: torch.nn.Module
    loss: Callable[[Any, Any], torch.Tensor]
    host: Host = dataclasses.field(init=False, repr=False)
    curvature = math.inf
    convex = False
    ignores_padding = False

    def __post_init__(self):
        if not isinstance(self.module, torch.nn.Module) or not callable(self.loss):
            raise ValueError(
                "A TorchLoss needs a torch.nn.Module and a function of what it returns and of the "
                f"target, got {type(self.module).__name__} and {type(self.loss).__name__}."
            )
        object.__setattr__(self, "host", Host(self.module, self.loss))

    def __call__(self, x, batch):
        rows = jax.ShapeDtypeStruct(jax.tree.leaves(batch)[0].shape[:1], dtype(x))
        return self.host.ask("each", rows, x.params, batch)

    def total(self, x, batch, weights):
        return value(self.host, x, batch, weights)

    def gradient(self, x, batch, weights):
        return slope(self.host, x, batch, weights)

    def complaint(self, x, examples):
        if wrong := misfit(self.host.parameters, x.params if isinstance(x, Tree) else None):
            return f"x0 is not a point of the module: {wrong}; use px.torch.parameters(module)."
        if dtype(x) != self.host.kind:
            return f"x0 is {dtype(x)} and the module {self.host.kind}; make them the same."
        if not (isinstance(examples, tuple | list) and len(examples) == 2):
            return "A module needs rows as a pair, inputs and target, since its loss compares them."
        if any(map(is_sparse, jax.tree.leaves(examples, is_leaf=is_sparse))):
            return "A module cannot have sparse features; give dense arrays, as by toarray()."
        if jax.default_backend() != "cpu" and not torch.cuda.is_available():
            return (
                f"JAX computes on {jax.devices()[0].device_kind}, which this PyTorch cannot reach; "
                "install PyTorch for CUDA, or set JAX_PLATFORMS=cpu."
            )
        tensor = lambda a: own(torch.from_dlpack(np.array(a[0, :2])), self.host.device)
        return trouble(self.host, jax.tree.map(tensor, examples))


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def value(host: Host, x: Any, batch: Any, weights: Any) -> Any:
    return host.ask("value", jax.ShapeDtypeStruct((), host.kind), x.params, batch, weights)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def slope(host: Host, x: Any, batch: Any, weights: Any) -> Any:
    return Tree(host.ask("gradient", x.params, x.params, batch, weights))


# Derivatives are those in x; rows and their weights are data.


@value.defjvp
def value_jvp(host: Host, primals: Any, tangents: Any) -> Any:
    return value(host, *primals), dot(slope(host, *primals), tangents[0])


@slope.defjvp
def slope_jvp(host: Host, primals: Any, tangents: Any) -> Any:
    x, along = primals[0], tangents[0]
    curved = host.ask("curved", x.params, *(x.params, *primals[1:]), along.params)
    return slope(host, *primals), Tree(curved)


def trouble(host: Host, rows: Any) -> str | None:
    """What is wrong with the module as a loss of rows, seen on at most two of them."""
    params = {name: p.detach() for name, p in host.parameters.items()}
    buffers = dict(host.module.named_buffers())
    copies = {name: buffer.clone() for name, buffer in buffers.items()}
    count, drawn = len(jax.tree.leaves(rows)[0]), random_state(host.device)
    try:
        with torch.no_grad():
            each = host.each(params | copies, rows)
    except Exception as error:  # whatever the code of others may raise
        return f"The module does not take these rows: {first_line(error)}"
    if tuple(each.shape) != (count,):
        return (
            f"The loss must be one number per row, and for {count} rows it has the shape "
            f'{tuple(each.shape)}; give it reduction="none", or take the mean over what a row has.'
        )
    if not torch.equal(drawn, random_state(host.device)):
        return (
            "The module draws random numbers, as dropout does, so that its loss is no function of "
            "the model; call module.eval() before TorchLoss, or leave dropout out."
        )
    for name, buffer in buffers.items():
        if not torch.equal(buffer, copies[name]):
            return (
                f"The module's buffer {name!r} changes as it runs, as those of BatchNorm do, and "
                "no method carries it; call module.eval() before TorchLoss, or use GroupNorm."
            )
    return None


def random_state(device: torch.device) -> torch.Tensor:
    return torch.cuda.get_rng_state(device) if device.type == "cuda" else torch.get_rng_state()
