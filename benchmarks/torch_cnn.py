"""Algorithm 1 on the paper's network in PyTorch, by hand: a loop over clients, `vmap` over them,
and that `vmap` in a CUDA graph, as it is or compiled.

Images come as floats, channels last; parameters are lists of tensors in the order of `flat`.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

LAYERS = ("conv1", "conv2", "dense1", "dense2", "dense3")


def flat(params: dict[str, Any], device: str) -> list[torch.Tensor]:
    """Our parameters in PyTorch's layouts."""
    tensors = []
    for name in LAYERS:
        kernel = np.asarray(params[name]["kernel"])
        if name.startswith("conv"):
            kernel = kernel.transpose(3, 2, 0, 1)
        elif name == "dense1":  # PyTorch flattens channels first
            kernel = kernel.reshape(7, 7, 32, 64).transpose(2, 0, 1, 3).reshape(-1, 64).T
        else:
            kernel = kernel.T
        tensors += [torch.tensor(kernel.copy()), torch.tensor(np.asarray(params[name]["bias"]))]
    return [t.to(device) for t in tensors]


def loss(params: Any, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    w1, b1, w2, b2, w3, b3, w4, b4, w5, b5 = params
    x = F.relu(F.max_pool2d(F.conv2d(images, w1, b1, padding=1), 2))
    x = F.relu(F.max_pool2d(F.conv2d(x, w2, b2, padding=1), 2))
    x = F.relu(F.linear(x.flatten(1), w3, b3))
    x = F.relu(F.linear(x, w4, b4))
    return F.cross_entropy(F.linear(x, w5, b5), labels)


class Loop:
    """One client after the other, with fused list operations for the vectors."""

    def __init__(self, start, images, labels, eta, eta_g, tau, theta):
        self.x, self.images, self.labels = [p.clone() for p in start], images, labels
        self.c = [[torch.zeros_like(p) for p in start] for _ in labels]
        self.eta, self.eta_g, self.tau, self.theta = eta, eta_g, tau, theta
        self.long = eta * eta_g * tau

    def prox(self, params, step):
        shrunk = torch._foreach_abs(params)
        torch._foreach_sub_(shrunk, step * self.theta)
        torch._foreach_clamp_min_(shrunk, 0.0)
        torch._foreach_mul_(shrunk, torch._foreach_sign(params))
        return shrunk

    def round(self):
        p, sums = self.prox(self.x, self.long), []
        for images, labels, c in zip(self.images, self.labels, self.c, strict=True):
            z, total = p, [torch.zeros_like(a) for a in p]
            for t in range(self.tau):
                leaves = [a.detach().requires_grad_() for a in z]
                torch._foreach_add_(
                    total, torch.autograd.grad(loss(leaves, images, labels), leaves)
                )
                pull = torch._foreach_add(total, c, alpha=t + 1)
                z = self.prox(torch._foreach_add(p, pull, alpha=-self.eta), (t + 1) * self.eta)
            sums.append(torch._foreach_div(total, self.tau))
        mean = [torch.stack(parts).mean(dim=0) for parts in zip(*sums, strict=True)]
        self.x = torch._foreach_add(p, mean, alpha=-self.long)
        self.c = [torch._foreach_sub(mean, own) for own in sums]

    def model(self):
        return self.prox(self.x, self.long)


class Together(Loop):
    """All clients at once by `torch.func.vmap`."""

    def __init__(self, *args):
        super().__init__(*args)
        self.images, self.labels = torch.stack(self.images), torch.stack(self.labels)
        self.c = [torch.stack(parts) for parts in zip(*self.c, strict=True)]
        self.grad = self.gradients()

    def gradients(self):
        return torch.func.vmap(torch.func.grad(loss), in_dims=(0, 0, 0))

    def round(self):
        n, p = len(self.labels), self.prox(self.x, self.long)
        wide = [a.expand(n, *a.shape) for a in p]
        z, total = wide, [torch.zeros_like(a) for a in self.c]
        for t in range(self.tau):
            torch._foreach_add_(total, self.grad(z, self.images, self.labels))
            pull = torch._foreach_add(total, self.c, alpha=t + 1)
            z = self.prox(torch._foreach_add(wide, pull, alpha=-self.eta), (t + 1) * self.eta)
        own = torch._foreach_div(total, self.tau)
        mean = [a.mean(dim=0) for a in own]
        self.x = torch._foreach_add(p, mean, alpha=-self.long)
        self.c = [m - a for m, a in zip(mean, own, strict=True)]


class Captured(Together):
    """The same, with the launches of a round recorded once in a CUDA graph and replayed."""

    def __init__(self, *args):
        super().__init__(*args)
        x, c = self.x, self.c  # the graph reads and writes these tensors
        begun = [a.clone() for a in (*x, *c)]

        def advance():
            Together.round(self)
            torch._foreach_copy_([*x, *c], [*self.x, *self.c])
            self.x, self.c = x, c

        aside = torch.cuda.Stream()  # nothing may be set up for the first time while recording
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(3):
                advance()
        torch.cuda.current_stream().wait_stream(aside)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            advance()
        torch._foreach_copy_([*x, *c], begun)

    def round(self):
        self.graph.replay()


class Compiled(Captured):
    """The same once more, with the gradients' kernels fused by PyTorch's compiler."""

    def gradients(self):
        return torch.compile(super().gradients(), dynamic=False)


def prepared(images: np.ndarray, labels: np.ndarray, device: str) -> tuple[list, list]:
    torch.set_float32_matmul_precision("high")  # TF32, which JAX takes on a GPU by default too
    pixels = torch.tensor(images.astype(np.float32) / 255)[:, :, None].to(device)
    kept = [a.contiguous(memory_format=torch.channels_last) for a in pixels]
    return kept, list(torch.tensor(labels.astype(np.int64)).to(device))


def waits(device: str) -> Callable[[], None]:
    return torch.cuda.synchronize if device == "cuda" else lambda: None
