"""Whole channels of a PyTorch network removed, and the smaller network exported.

Clients see mostly one kind of picture. A group penalty on the output channels of a convolution, in
Algorithm 1, makes whole channels exactly zero; since the convolution has no bias, what is zero can
be left out, and the smaller module gives the same scores.

`python examples/torch/whole_channels.py` writes results/examples/whole-channels.json and .png.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import nn

import proxfl as px
from proxfl.drawing import plots
from proxfl.prox import GroupL2, SumOverLeaves

OUT = Path("results/examples")
CHANNELS, KINDS, SIDE, SEED = 16, 4, 8, 0
WEIGHTS = (0.0, 0.01, 0.03, 0.1)


def pictures(rng: np.random.Generator, labels: np.ndarray) -> np.ndarray:
    """Stripes in one of four directions, shifted at random, under noise."""
    across, down = np.meshgrid(np.arange(SIDE), np.arange(SIDE))
    along = np.stack([across, down, across + down, across - down])[labels]
    shift = rng.uniform(0, 2 * np.pi, (len(labels), 1, 1))
    waves = np.sin(np.pi / 2 * along + shift)
    return (waves + rng.normal(size=waves.shape)).astype(np.float32)[:, None]


def clients(rows: int, count: int = KINDS) -> list[tuple[np.ndarray, np.ndarray]]:
    """Seven of ten pictures of client k are of kind k."""
    rng, found = np.random.default_rng(SEED), []
    for k in range(count):
        own = rng.random(rows) < 0.7
        labels = np.where(own, k % KINDS, rng.integers(0, KINDS, rows))
        found.append((pictures(rng, labels), labels))
    return found


def network(channels: int) -> nn.Sequential:
    convolution = nn.Conv2d(1, channels, 3, bias=False)
    return nn.Sequential(
        convolution,
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(4 * channels, KINDS),
    )


def smaller(module: nn.Sequential) -> nn.Sequential:
    """The same function without the channels that are exactly zero."""
    first, last = module[0].weight.detach(), module[4].weight.detach()
    kept = first.flatten(1).any(dim=1)
    made = network(int(kept.sum()))
    with torch.no_grad():
        made[0].weight.copy_(first[kept])
        made[4].weight.copy_(last.unflatten(1, (-1, 4))[:, kept].flatten(1))
        made[4].bias.copy_(module[4].bias)
    return made


def trained(weights: Sequence[float], sites: list, rounds: int) -> Iterator[nn.Sequential]:
    """The network trained with each weight, from the same start and by one compiled program."""
    torch.manual_seed(SEED)
    module = network(CHANNELS)
    loss = px.torch.TorchLoss(module, nn.CrossEntropyLoss(reduction="none"))
    start = px.torch.parameters(module)
    labels = np.broadcast_to(np.arange(CHANNELS)[:, None, None, None], (CHANNELS, 1, 3, 3))
    for weight in weights:
        penalty = GroupL2(labels, np.ones(CHANNELS, np.float32), weight)
        problem = px.Problem(SumOverLeaves.of({"0.weight": penalty}), start, loss)
        algorithm = px.Decoupled(eta=0.2, tau=5)
        result = px.simulate(algorithm, problem, sites, rounds=rounds, observe={})
        yield result.to(module)


def accuracy(module: nn.Module, images: np.ndarray, labels: np.ndarray) -> float:
    with torch.no_grad():
        found = module(torch.tensor(images)).argmax(dim=1).numpy()
    return float((found == labels).mean())


def main(weights=WEIGHTS, rows: int = 60, rounds: int = 100, out: Path | None = None) -> list[dict]:
    sites, found = clients(rows), []
    rng = np.random.default_rng(SEED + 1)
    labels = rng.integers(0, KINDS, 1000)
    unseen = pictures(rng, labels)
    for weight, module in zip(weights, trained(weights, sites, rounds), strict=True):
        small, given = smaller(module), torch.tensor(unseen)
        with torch.no_grad():
            apart = (small(given) - module(given)).abs().max().item()
        count = lambda module: sum(p.numel() for p in module.parameters())
        found.append(
            {
                "weight": weight,
                "channels": small[0].out_channels,
                "parameters": count(small),
                "correct of unseen": accuracy(small, unseen, labels),
                "largest difference of a score": apart,
            }
        )
        print(found[-1], flush=True)
    if out is not None:
        write(out, found, rounds)
    return found


def write(out: Path, found: list[dict], rounds: int) -> None:
    out.mkdir(parents=True, exist_ok=True)
    told = {"command": "python examples/torch/whole_channels.py", "seed": SEED, "rounds": rounds}
    (out / "whole-channels.json").write_text(json.dumps(told | {"found": found}, indent=2) + "\n")
    figure, (axes,) = plots.panels(1, width=5.0)
    places = [row["channels"] for row in found], [row["correct of unseen"] for row in found]
    axes.plot(*places, "o-", color=plots.COLOURS[1])
    for row, x, y in zip(found, *places, strict=True):
        beside = {"textcoords": "offset points", "xytext": (0, 5), "ha": "center"}
        axes.annotate(f"{row['weight']:g}", (x, y), **beside)
    axes.margins(0.1)
    title = "The weight of the penalty beside each network"
    plots.label(axes, title, "channels left", "correct of unseen", log="", legend=False)
    plots.save_figures({"whole-channels": figure}, out)


if __name__ == "__main__":
    main(out=OUT)
