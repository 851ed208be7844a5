"""What a PyTorch module costs inside ProxFL: a round of Algorithm 1 against its gradients alone.

The paper's network as a module, 10 clients with ten pictures each, tau = 5, float32. The peers
compute the round's gradients and nothing else, in PyTorch, from tensors that are there already: all
clients by `torch.func.vmap`, or one after the other. What is over is the way from JAX to PyTorch
and back, and the algorithm itself. Both must agree on the gradients before they are timed.
"""

import os
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
from torch.func import functional_call, grad, vmap

import proxfl as px
from benchmarks.cnn import BATCH, ETA, ETA_G, TAU, THETA, pictures
from benchmarks.side import interleaved
from benchmarks.torch_cnn import waits
from proxfl.engine.round import simulated_round
from proxfl.prox import L1, OnLeaves

CLIENTS = 10


def network(device: str) -> torch.nn.Module:
    nn = torch.nn
    torch.manual_seed(0)
    convolution = lambda inputs: (nn.Conv2d(inputs, 32, 3, padding=1), nn.MaxPool2d(2), nn.ReLU())
    dense = nn.Linear(1568, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)
    return nn.Sequential(*convolution(1), *convolution(32), nn.Flatten(), *dense).to(device)


def entropy(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.cross_entropy(scores, labels, reduction="none")


class Ours:
    """Rounds of Algorithm 1 in one compiled program, gradients asked for from within."""

    def __init__(self, module: torch.nn.Module, images: np.ndarray, labels: np.ndarray):
        sites = list(zip(images, labels, strict=True))
        shards = px.shards_of(sites, dtype=np.float32)
        problem = px.Problem(
            OnLeaves(L1(THETA)), px.torch.parameters(module), px.torch.TorchLoss(module, entropy)
        )
        algorithm = px.Decoupled(ETA, ETA_G, TAU)
        problem, algorithm = jax.tree.map(jnp.asarray, (problem, algorithm))
        self.run = px.start(algorithm, problem, shards)
        one = lambda shard: problem.objective(shard).full_grad(problem.x0).params
        self.gradients = jax.jit(lambda: jax.vmap(one)(shards))

        def rounds(run, count):
            step = lambda _, run: simulated_round(algorithm, problem, shards, run)[0]
            return jax.lax.fori_loop(0, count, step, run)

        self.rounds = jax.jit(rounds, donate_argnums=0)

    def go(self, count: int) -> None:
        self.run = jax.block_until_ready(self.rounds(self.run, count))


class Alone:
    """A round's gradients by PyTorch, each from a point of its own."""

    def __init__(self, module: torch.nn.Module, images: np.ndarray, labels: np.ndarray):
        device = next(module.parameters()).device
        own = {name: p.detach() for name, p in module.named_parameters()}
        self.params = {name: p.repeat(CLIENTS, *[1] * p.ndim) for name, p in own.items()}
        self.data = torch.tensor(images).to(device), torch.tensor(labels).long().to(device)

        def loss(params, images, labels):
            return entropy(functional_call(module, params, (images,)), labels).mean()

        self.loss, self.all = loss, vmap(grad(loss))

    def together(self) -> dict[str, torch.Tensor]:
        return self.all(self.params, *self.data)

    def one_by_one(self) -> dict[str, torch.Tensor]:
        found = []
        for k in range(CLIENTS):
            leaves = {name: p[k].detach().requires_grad_() for name, p in self.params.items()}
            total = self.loss(leaves, *(part[k] for part in self.data))
            found.append(torch.autograd.grad(total, list(leaves.values())))
        stacked = map(torch.stack, zip(*found, strict=True))
        return dict(zip(self.params, stacked, strict=True))


def run(repeats: int = 21) -> dict[str, Any]:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    many, wait = (2, waits(device)) if device == "cpu" else (10, waits(device))
    images, labels = pictures(CLIENTS)
    images = (images / np.float32(255))[:, :, None]
    module = network(device)
    ours, alone = Ours(module, images, labels), Alone(module, images, labels)
    found, close = ours.gradients(), 1e-3 if device == "cuda" else 1e-5
    for gradients in (alone.together(), alone.one_by_one()):
        for name, value in gradients.items():
            np.testing.assert_allclose(found[name], value.cpu(), atol=close)
    ours.go(2)

    def several(gradients):
        for _ in range(many * TAU):
            gradients()
        wait()

    calls = {
        "proxfl": lambda: ours.go(many),
        "PyTorch's gradients, vmap": lambda: several(alone.together),
        "PyTorch's gradients, loop": lambda: several(alone.one_by_one),
    }
    times = interleaved(calls, repeats, many)
    found = {
        "what": f"a round of a PyTorch network, {CLIENTS} clients, batches of {BATCH}",
        "times": times,
        "over PyTorch's gradients": over(times),
        "torch": {
            "version": torch.__version__,
            "device": device,
            "threads": torch.get_num_threads(),
        },
        "load": os.getloadavg()[0],
    }
    if device == "cpu":
        spent = interleaved(calls, repeats, many, time.process_time)
        found |= {"processor": spent, "over PyTorch's gradients, processor": over(spent)}
    return found


def over(times: dict[str, Any]) -> dict[str, float]:
    """Our round as a multiple of each peer's gradients."""
    return {name: 1 / told["times_ours"] for name, told in times.items() if name != "proxfl"}
