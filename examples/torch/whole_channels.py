"""Whole channels of a PyTorch network removed, and the smaller network exported.

Clients see mostly one kind of picture. A group penalty on the output channels of a convolution, in
Algorithm 1, makes whole channels exactly zero; since the convolution has no bias, what is zero can
be left out, and the smaller module gives the same scores. Its rival is FedAvg, of whose network the
smallest channels are removed until as many are left.

`python examples/torch/whole_channels.py` writes results/examples/whole-channels.json and .png, and
into results/examples/whole-channels/ the smaller networks, by seed and weight.
"""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from safetensors.torch import load_file, save_file
from torch import nn

import proxfl as px
from proxfl.drawing import plots
from proxfl.prox import GroupL2, SumOverLeaves
from proxfl.research.styles import style

OUT = Path("results/examples")
CHANNELS, KINDS, SIDE, ETA, TAU = 16, 4, 8, 0.2, 5
WEIGHTS, SEEDS = (0.01, 0.02, 0.03, 0.05, 0.1), (0, 1, 2)
OURS, RIVAL, UNSEEN = "Algorithm 1", "FedAvg, smallest removed", "correct of unseen"
LOOKS = {OURS: style(OURS), RIVAL: style("FedAvg")}


def pictures(rng: np.random.Generator, labels: np.ndarray) -> np.ndarray:
    """Stripes in one of four directions, shifted at random, under noise."""
    across, down = np.meshgrid(np.arange(SIDE), np.arange(SIDE))
    along = np.stack([across, down, across + down, across - down])[labels]
    shift = rng.uniform(0, 2 * np.pi, (len(labels), 1, 1))
    waves = np.sin(np.pi / 2 * along + shift)
    return (waves + rng.normal(size=waves.shape)).astype(np.float32)[:, None]


def clients(rows: int, seed: int, count: int = KINDS) -> list[tuple[np.ndarray, np.ndarray]]:
    """Seven of ten pictures of client k are of kind k."""
    rng, found = np.random.default_rng([seed, 0]), []
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


def norms(module: nn.Sequential) -> torch.Tensor:
    return module[0].weight.detach().flatten(1).norm(dim=1)


def smaller(module: nn.Sequential, kept: torch.Tensor) -> nn.Sequential:
    """The module with these channels alone: the same function, if all others are exactly zero."""
    first, last = module[0].weight.detach(), module[4].weight.detach()
    made = network(int(kept.sum())).to(first.dtype)
    with torch.no_grad():
        made[0].weight.copy_(first[kept])
        made[4].weight.copy_(last.unflatten(1, (-1, 4))[:, kept].flatten(1))
        made[4].bias.copy_(module[4].bias)
    return made


def trained(algorithm: px.Algorithm, weight: float, seed: int, rows: int, rounds: int):
    torch.manual_seed(seed)
    module = network(CHANNELS)
    loss = px.torch.TorchLoss(module, nn.CrossEntropyLoss(reduction="none"))
    labels = np.broadcast_to(np.arange(CHANNELS)[:, None, None, None], (CHANNELS, 1, 3, 3))
    penalty = GroupL2(labels, np.ones(CHANNELS, np.float32), weight)
    of_channels = SumOverLeaves.of({"0.weight": penalty})
    problem = px.Problem(of_channels, px.torch.parameters(module), loss)
    about = dict(rounds=rounds, observe={}, progress=False)
    return px.simulate(algorithm, problem, clients(rows, seed), **about).to(module)


def exported(module: nn.Sequential, path: Path) -> nn.Sequential:
    """The module as it is read again from its file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file(module.state_dict(), path)
    again = network(module[0].out_channels)
    again.load_state_dict(load_file(path))
    return again


def scores(module: nn.Module, images: np.ndarray) -> torch.Tensor:
    with torch.no_grad():
        return module(torch.tensor(images))


def of_one_seed(seed: int, weights, rows: int, rounds: int, out: Path) -> list[dict]:
    rng, found = np.random.default_rng([seed, 1]), []
    labels = rng.integers(0, KINDS, 1000)
    unseen = pictures(rng, labels)
    whole = trained(px.FedAvg(ETA, tau=TAU), 0.0, seed, rows, rounds)
    for weight in (0.0, *weights):
        module = trained(px.Decoupled(ETA, tau=TAU), weight, seed, rows, rounds)
        kept = norms(module) > 0
        small = exported(smaller(module, kept), out / str(seed) / f"{weight:g}.safetensors")
        apart = (scores(small, unseen) - scores(module, unseen)).abs().max().item()
        largest = norms(whole).argsort(descending=True)[: int(kept.sum())]
        cut = smaller(whole, torch.zeros_like(kept).scatter(0, largest, True))
        for method, one in {OURS: small, RIVAL: cut}.items():
            told = {"method": method, "seed": seed, "weight": weight}
            told["channels"] = one[0].out_channels
            told["parameters"] = sum(p.numel() for p in one.parameters())
            told[UNSEEN] = float((scores(one, unseen).argmax(dim=1).numpy() == labels).mean())
            found.append(told | ({"largest difference of a score": apart} if one is small else {}))
            print(found[-1], flush=True)
    return found


def main(weights=WEIGHTS, seeds=SEEDS, rows: int = 60, rounds: int = 100, out=OUT) -> list[dict]:
    parts = [of_one_seed(seed, weights, rows, rounds, out / "whole-channels") for seed in seeds]
    found = [row for part in parts for row in part]
    told = {"command": "python examples/torch/whole_channels.py", "rounds": rounds}
    (out / "whole-channels.json").write_text(json.dumps(told | {"found": found}, indent=1) + "\n")
    figure, (axes,) = plots.panels(1, width=5.0)
    table = pd.DataFrame(found)
    for method, look in LOOKS.items():
        rows_of = table[table["method"] == method]
        axes.plot(
            rows_of["channels"], rows_of[UNSEEN], look["marker"], color=look["color"], alpha=0.35
        )
        mean = rows_of.groupby("weight")[["channels", UNSEEN]].mean()
        axes.plot(mean["channels"], mean[UNSEEN], label=method, **look)
    title = f"Each of {len(seeds)} seeds, and the mean at each weight"
    plots.label(axes, title, f"channels left of {CHANNELS}", UNSEEN, log="")
    plots.save_figures({"whole-channels": figure}, out)
    return found


if __name__ == "__main__":
    main()
