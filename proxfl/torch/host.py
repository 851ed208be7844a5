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
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import jax
import torch  # pyright: ignore[reportMissingImports]
from jax.experimental.buffer_callback import buffer_callback
from torch.func import functional_call, grad, vmap  # pyright: ignore[reportMissingImports]
from torch.utils.dlpack import DLDeviceType  # pyright: ignore[reportMissingImports]

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
        answer = partial(self.answer, what, structure, leaves[0].ndim)
        return buffer_callback(answer, found, vmap_method="expand_dims")(*leaves)

    def answer(self, *asked: Any) -> None:
        THREAD.submit(self.answer_here, *asked).result()

    def answer_here(
        self, what: str, structure: Any, axes: int, context: Any, places: Any, *buffers: Any
    ) -> None:
        """Into the program's own memory, in the order of its work on the device."""
        with stream_of(context, buffers[0]):
            tensors = [torch.from_dlpack(buffer) for buffer in buffers]
            clients = tensors[0].ndim - axes  # axes before those of a single client
            found = self.over_clients(what, structure, tensors, clients)
            jax.tree.map(lambda place, a: torch.from_dlpack(place).copy_(a), places, found)

    def over_clients(self, what: str, structure: Any, tensors: Sequence[Any], axes: int) -> Any:
        call = lambda f: lambda *some: f(*structure.unflatten(some))
        copies = lambda: [own(tensor, self.device) for tensor in tensors]
        beside = {"each": self.each, "value": self.total, "gradient": grad(self.total)}
        if self.together and axes and what in beside:
            try:
                return stacked(call(beside[what]), copies(), axes, vmap)
            except (RuntimeError, ValueError, NotImplementedError):
                self.together = False  # if the module itself is at fault, the next line says so
        return stacked(call(getattr(self, what)), copies(), axes, one_by_one)


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


def stream_of(context: Any, buffer: Any) -> AbstractContextManager:
    """On a GPU, PyTorch's work in one line with the program's: nobody waits for the other."""
    kind, number = buffer.__dlpack_device__()
    if kind == DLDeviceType.kDLCPU:
        return nullcontext()
    return torch.cuda.stream(torch.cuda.ExternalStream(context.stream, number))


def own(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """A copy, since a module may change what it is given; whole numbers are of 64 bits."""
    whole = not (tensor.is_floating_point() or tensor.is_complex())
    kind = torch.int64 if whole and tensor.itemsize > 1 else tensor.dtype
    return tensor.to(device, kind, copy=True)
