"""The module where it runs: outside the compiled program, asked for numbers from within.

Clients come as a leading axis. `torch.func.vmap` takes them together where the module allows it; a
module that it cannot run, such as an LSTM, gets them one after the other.

All calls come from one thread of their own. The program calls from any of its threads, and for
each of them PyTorch would start another team of workers; besides, XLA's threads flush denormal
numbers to zero, and PyTorch's results should be its own.
"""

import copy
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch  # pyright: ignore[reportMissingImports]
from torch.func import functional_call, grad, vmap  # pyright: ignore[reportMissingImports]

from proxfl.torch.module import KINDS, trained

THREAD = ThreadPoolExecutor(1, "proxfl-torch")


class Host:
    """A module and the loss of its rows; the module is a copy, which nobody else can change."""

    def __init__(self, module: torch.nn.Module, loss: Callable[[Any, Any], Any]):
        self.module, self.loss = copy.deepcopy(module), loss
        self.parameters = trained(self.module)
        first = next(iter(self.parameters.values()))
        self.device, self.kind = first.device, KINDS[first.dtype]
        self.together = True  # until the module is seen not to allow it

    def each(self, params: dict[str, Any], batch: Any) -> torch.Tensor:
        """The loss of every row."""
        inputs, target = batch
        inputs = tuple(inputs) if isinstance(inputs, tuple | list) else (inputs,)
        return self.loss(functional_call(self.module, params, inputs), target)

    def total(self, params: dict[str, Any], batch: Any, weights: torch.Tensor) -> torch.Tensor:
        return weights @ self.each(params, batch)

    def value(self, params: Any, batch: Any, weights: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            return self.total(params, batch, weights)

    def gradient(self, params: Any, batch: Any, weights: torch.Tensor) -> dict[str, torch.Tensor]:
        leaves = {name: p.detach().requires_grad_() for name, p in params.items()}
        total = self.total(leaves, batch, weights)
        found = torch.autograd.grad(total, list(leaves.values()), materialize_grads=True)
        return dict(zip(leaves, found, strict=True))

    def curved(self, params: Any, batch: Any, weights: torch.Tensor, along: Any) -> Any:
        """The product of the Hessian and a vector, by differentiating twice."""
        leaves = {name: p.detach().requires_grad_() for name, p in params.items()}
        total = self.total(leaves, batch, weights)
        every = list(leaves.values())
        slopes = torch.autograd.grad(total, every, create_graph=True, materialize_grads=True)
        slope: Any = sum((a * along[name]).sum() for name, a in zip(leaves, slopes, strict=True))
        if not slope.requires_grad:  # a loss without any curvature
            return {name: torch.zeros_like(p) for name, p in params.items()}
        found = torch.autograd.grad(slope, every, materialize_grads=True)
        return dict(zip(leaves, found, strict=True))

    def ask(self, what: str, found: Any, *args: Any) -> Any:
        """`what` of the arguments, in the program; one answer per client where it is vmapped."""
        leaves, structure = jax.tree.flatten(args)
        shapes = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), found)
        kinds, axes = tuple(leaf.dtype for leaf in leaves), tuple(leaf.ndim for leaf in leaves)
        answer = partial(self.answer, what, structure, kinds, axes)
        words = jax.tree.map(lambda a: jax.eval_shape(as_words, a), shapes)
        told = jax.pure_callback(answer, words, *map(as_words, leaves), vmap_method="expand_dims")
        return jax.tree.map(lambda a, b: from_words(a, b.dtype), told, shapes)

    def answer(self, what: str, structure: Any, kinds: Any, axes: Any, *words: Any) -> Any:
        return THREAD.submit(self.answer_here, what, structure, kinds, axes, words).result()

    def answer_here(self, what: str, structure: Any, kinds: Any, axes: Any, words: Any) -> Any:
        tensors = [as_tensor(a, k, self.device) for a, k in zip(words, kinds, strict=True)]
        clients = tensors[0].ndim - axes[0]  # axes before those of a single client
        found = self.over_clients(what, structure, tensors, clients)
        return jax.tree.map(as_numpy_words, found)

    def over_clients(self, what: str, structure: Any, tensors: Sequence[Any], axes: int) -> Any:
        call = lambda f: lambda *some: f(*structure.unflatten(some))
        beside = {"each": self.each, "value": self.total, "gradient": grad(self.total)}
        if self.together and axes and what in beside:
            try:
                return stacked(call(beside[what]), tensors, axes, vmap)
            except (RuntimeError, ValueError, NotImplementedError):
                self.together = False  # if the module itself is at fault, the next line says so
        return stacked(call(getattr(self, what)), tensors, axes, one_by_one)


def stacked(f: Callable, tensors: Sequence[Any], axes: int, over: Callable) -> Any:
    """f for every place on the first axes; a tensor that has one place there serves all."""
    if axes == 0:
        return f(*tensors)
    places = max(tensor.shape[0] for tensor in tensors)
    shared = [tensor.shape[0] == 1 for tensor in tensors]
    inner = lambda *some: stacked(f, some, axes - 1, over)
    given = [t[0] if alike else t for t, alike in zip(tensors, shared, strict=True)]
    if places == 1:
        return jax.tree.map(lambda a: a[None], inner(*given))
    return over(inner, in_dims=tuple(None if alike else 0 for alike in shared))(*given)


def one_by_one(f: Callable, in_dims: tuple[int | None, ...]) -> Callable:
    """What `vmap` gives, by a loop."""

    def loop(*args: Any) -> Any:
        places = next(len(a) for a, axis in zip(args, in_dims, strict=True) if axis == 0)
        at = lambda k: [a if axis is None else a[k] for a, axis in zip(args, in_dims, strict=True)]
        return jax.tree.map(lambda *parts: torch.stack(parts), *[f(*at(k)) for k in range(places)])

    return loop


# On their way JAX would round numbers of 64 bits: what it takes for double precision is a setting
# of the thread, and that of the callback is another one. So they travel as pairs of words.


def as_words(a: Any) -> Any:
    return jax.lax.bitcast_convert_type(a, jnp.uint32) if a.dtype.itemsize == 8 else a


def from_words(words: Any, kind: Any) -> Any:
    return jax.lax.bitcast_convert_type(words, kind) if kind.itemsize == 8 else words


def as_tensor(words: Any, kind: np.dtype, device: torch.device) -> torch.Tensor:
    """The same memory as PyTorch sees it; whole numbers as its own, of 64 bits."""
    tensor = torch.from_dlpack(words)
    if kind.itemsize == 8:
        wide = torch.float64 if kind.kind == "f" else torch.int64
        tensor = tensor.view(wide).squeeze(-1)
    elif kind.kind in "iu" and kind.itemsize > 1:
        tensor = tensor.long()
    return tensor.to(device)


def as_numpy_words(tensor: torch.Tensor) -> np.ndarray:
    array = tensor.detach().cpu().contiguous().numpy()
    return array[..., None].view(np.uint32) if array.dtype.itemsize == 8 else array
