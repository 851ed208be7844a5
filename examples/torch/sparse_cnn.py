"""A sparse convolutional network on MNIST: an l1 norm while it trains, against pruning.

Ten clients hold 500 pictures each, half of them of one digit. Algorithm 1 has an l1 norm on all
weights. Its rivals are FedAvg whose smallest weights are set to zero, when training is over or
half-way, the rest being trained on. They keep as many weights as Algorithm 1 has left, and all have
the same rounds, local steps and batches. Each method has the step of ETAS that is best on pictures
set aside.

`python examples/torch/sparse_cnn.py` writes results/examples/sparse-cnn.json and .png.
"""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import nn

import proxfl as px
from proxfl.data.mnist import mnist
from proxfl.data.partition import hand_out, paper_mnist
from proxfl.drawing import plots
from proxfl.prox import L1, Box, OnLeaves, SumOverLeaves
from proxfl.research.styles import style

OUT = Path("results/examples")
CLIENTS, TAU, BATCH, ROUNDS, ROWS = 10, 5, 20, 400, 500
WEIGHTS, ETAS, SEEDS = (1e-3, 2e-3, 5e-3, 1e-2), (0.02, 0.05), (0, 1, 2)
ASIDE, UNSEEN = "correct of those set aside", "correct of unseen"
OURS, PRUNED, HALFWAY = "Algorithm 1", "FedAvg, then pruned", "FedAvg, pruned half-way"
WHOLE = "FedAvg, all weights"
LOOKS = {
    OURS: style(OURS),
    PRUNED: style("FedAvg"),
    HALFWAY: style("FedAvg") | {"marker": "^", "linestyle": "--"},
}


def pictures(rows: int, seed: int) -> tuple[list, dict[str, tuple]]:
    """What the clients hold, what decides on the step, and what nobody has seen."""
    data = mnist()
    order = np.random.default_rng(seed).permutation(len(data.train.labels))
    own, aside = order[: rows * CLIENTS], order[-2000:]
    scaled = lambda images: (images / np.float32(255))[:, None]
    images, labels = scaled(data.train.images[own]), data.train.labels[own]
    sites = hand_out(images, labels, paper_mnist(labels, CLIENTS, seed=seed))
    judges = {
        ASIDE: (scaled(data.train.images[aside]), data.train.labels[aside]),
        UNSEEN: (scaled(data.test.images), data.test.labels),
    }
    return sites, judges


def network(seed: int) -> nn.Sequential:
    torch.manual_seed(seed)
    convolutions = nn.Conv2d(1, 8, 5, stride=2), nn.ReLU(), nn.Conv2d(8, 16, 5, stride=2)
    dense = nn.Flatten(), nn.Linear(256, 64), nn.ReLU(), nn.Linear(64, 10)
    module = nn.Sequential(*convolutions, nn.ReLU(), *dense)
    for p in module.parameters():
        nn.init.kaiming_normal_(p) if p.ndim > 1 else nn.init.zeros_(p)
    return module


def trainer(module: nn.Module, sites: list, seed: int) -> Callable[..., px.Tree]:
    """Trains from the module's parameters, or from others."""
    loss = px.torch.TorchLoss(module, nn.CrossEntropyLoss(reduction="none"))
    start, shards = px.torch.parameters(module), px.shards_of(sites, dtype=np.float32)

    def train(algorithm, g, rounds, start=start, seed=seed):
        problem = px.Problem(g, start, loss, BATCH)
        about = dict(rounds=rounds, seed=seed, observe={}, progress=False)
        return px.simulate(algorithm, problem, shards, **about).model

    return train


def weights(model: px.Tree) -> dict[str, np.ndarray]:
    return {name: a for name, a in model.params.items() if name.endswith("weight")}


def nonzeros(model: px.Tree) -> int:
    return sum(int(np.count_nonzero(a)) for a in weights(model).values())


def pruned(model: px.Tree, kept: int) -> px.Tree:
    """The model with this number of its weights, the largest ones."""
    sizes = np.sort(np.concatenate([np.abs(a).ravel() for a in weights(model).values()]))
    few = {name: np.where(np.abs(a) < sizes[-kept], 0, a) for name, a in weights(model).items()}
    return px.Tree(dict(model.params) | few)


def only_where(model: px.Tree) -> SumOverLeaves:
    """The constraint that what is zero in a model stays so."""
    room = {name: np.where(a == 0, 0, np.float32(np.inf)) for name, a in weights(model).items()}
    return SumOverLeaves.of({name: Box(-free, free) for name, free in room.items()})


def accuracy(module: nn.Module, images: np.ndarray, labels: np.ndarray) -> float:
    with torch.no_grad():
        found = module(torch.tensor(images)).argmax(dim=1).numpy()
    return float((found == labels).mean())


def stable(etas, train: Callable[[float], px.Tree]) -> dict[float, px.Tree]:
    """The models by the steps that are not too long."""
    found = {}
    for eta in etas:
        try:
            found[eta] = train(eta)
        except px.DivergenceError:
            continue
    return found


def of_one_seed(seed: int, levels, etas, rounds: int, rows: int) -> list[dict]:
    """The best of each method at each level of sparsity, which is that of Algorithm 1."""
    (sites, judges), module = pictures(rows, seed), network(seed)
    train = trainer(module, sites, seed)

    def best(method: str, level: float, models: dict[float, px.Tree]) -> tuple[dict, px.Tree]:
        found = []
        for eta, model in models.items():
            px.torch.write(module, model)
            told = {"method": method, "seed": seed, "weight": level, "eta": eta}
            told |= {name: accuracy(module, *given) for name, given in judges.items()}
            found.append((told | {"weights left": nonzeros(model)}, model))
        return max(found, key=lambda pair: pair[0][ASIDE])

    free = OnLeaves(L1(0.0), ("*.weight",))
    whole = stable(etas, lambda eta: train(px.FedAvg(eta, tau=TAU), free, rounds))
    half = stable(etas, lambda eta: train(px.FedAvg(eta, tau=TAU), free, rounds // 2))
    go_on = lambda eta, m: train(px.FedMid(eta, tau=TAU), only_where(m), rounds - rounds // 2, m)
    rows_found = [best(WHOLE, 0.0, whole)[0]]
    for level in levels:
        sparse = OnLeaves(L1(level), ("*.weight",))
        ours = stable(etas, lambda eta, g=sparse: train(px.Decoupled(eta, tau=TAU), g, rounds))
        told, model = best(OURS, level, ours)
        kept = nonzeros(model)
        cut = {eta: pruned(m, kept) for eta, m in whole.items()}
        early = {eta: pruned(m, kept) for eta, m in half.items()}
        further = stable(early, lambda eta, early=early: go_on(eta, early[eta]))
        rows_found += [told, best(PRUNED, level, cut)[0], best(HALFWAY, level, further)[0]]
        print(*rows_found[-3:], sep="\n", flush=True)
    return rows_found


def main(
    levels=WEIGHTS, etas=ETAS, seeds=SEEDS, rounds=ROUNDS, rows=ROWS, out: Path | None = None
) -> list[dict]:
    found = [row for seed in seeds for row in of_one_seed(seed, levels, etas, rounds, rows)]
    if out is not None:
        write(out, found, rounds)
    return found


def write(out: Path, found: list[dict], rounds: int) -> None:
    out.mkdir(parents=True, exist_ok=True)
    total = sum(p.numel() for p in network(0).parameters() if p.ndim > 1)
    told = {"command": "python examples/torch/sparse_cnn.py", "rounds": rounds, "weights": total}
    (out / "sparse-cnn.json").write_text(json.dumps(told | {"found": found}, indent=1) + "\n")
    figure, (axes,) = plots.panels(1, width=5.5)
    table = pd.DataFrame(found)
    table["share"] = table["weights left"] / total
    for method, look in LOOKS.items():
        rows = table[table["method"] == method]
        axes.plot(rows["share"], rows[UNSEEN], look["marker"], color=look["color"], alpha=0.35)
        mean = rows.groupby("weight")[["share", UNSEEN]].mean()
        axes.plot(mean["share"], mean[UNSEEN], label=method, **look)
    everything = table[table["method"] == WHOLE][UNSEEN].mean()
    axes.axhline(everything, color=style("FedAvg")["color"], label=WHOLE, zorder=0)
    title = f"MNIST, {CLIENTS} clients: each of {table['seed'].nunique()} seeds, and their mean"
    plots.label(axes, title, "share of weights left", UNSEEN, log="x")
    axes.set_xticks([0.03, 0.1, 0.3, 1.0], ["3 %", "10 %", "30 %", "100 %"])
    axes.minorticks_off()
    plots.save_figures({"sparse-cnn": figure}, out)


if __name__ == "__main__":
    main(out=OUT)
