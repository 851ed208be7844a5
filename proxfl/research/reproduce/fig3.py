"""The paper's third experiment: a convolutional network on MNIST, Algorithm 1 against FedDA.

Settings of the paper: ten clients, half of their examples drawn evenly and half by label;
g = theta |x|_1 on all parameters, biases included; theta = 1e-4, eta = 0.005, eta_g = 1, batches of
10, tau 5 and 10. It leaves open, and we choose: pixels scaled to 0..1, He's start, 150,000 local
steps at the paper's theta and 2,400 rounds at others, ten seeds; a seed fixes the partition, the
start and the batches, the same for both methods. Larger theta are added, where the l1 norm removes
most of the network.

All is computed in float32 (on a GPU too, where the default would be TF32). The seeds of a case run
side by side in one program. Each case is one CSV file, written when it ends; a case whose file
exists is not repeated. What computes needs only JAX and NumPy:

    python -m proxfl.research.reproduce.fig3 --compute OUT --data FOLDER
"""

import argparse
import csv
import dataclasses
import io
import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from proxfl import __version__
from proxfl.algorithms.decoupled import Decoupled
from proxfl.algorithms.fedda import FedDA
from proxfl.core import Algorithm
from proxfl.data.mnist import Mnist, Pictures, mnist
from proxfl.data.partition import hand_out, paper_mnist
from proxfl.engine.measure import Accuracy, Nonzeros, Observer
from proxfl.engine.sweep import Swept, sweep
from proxfl.points import Tree
from proxfl.problem import Problem, Shard, shards_of
from proxfl.prox.leaves import OnLeaves
from proxfl.prox.norms import L1
from proxfl.pytree import pytree
from proxfl.research import cnn
from proxfl.research.reproduce.settings import keep
from proxfl.storage.files import write_text

METHODS: dict[str, Callable[..., Algorithm]] = {"Algorithm 1": Decoupled, "FedDA": FedDA}
PAPER_THETA = 1e-4
TAUS = (5, 10)


@dataclasses.dataclass(frozen=True)
class Settings:
    """What all runs of one folder have in common; `None` examples are all of them."""

    steps: int = 150_000  # of a client in all rounds together, at the paper's theta
    fewer: int = 2_400  # rounds, at others
    every: int = 1_000  # local steps are observed
    seeds: int = 10
    eta: float = 0.005
    eta_g: float = 1.0
    batch: int = 10
    clients: int = 10
    train: int | None = None
    test: int | None = None


class Case(NamedTuple):
    """What tells one file of a folder from the others."""

    method: str
    tau: int
    theta: float

    @property
    def file(self) -> str:
        name = self.method.lower().replace(" ", "")
        return f"{name}-tau{self.tau}-theta{self.theta}.csv"


# The two forms of the experiment, as arguments of `compute`.
PAPER = {"settings": Settings(), "taus": TAUS, "thetas": (PAPER_THETA, 3e-4, 1e-3, 3e-3)}
QUICK = {
    "settings": Settings(steps=200, fewer=40, every=25, seeds=2, train=1500, test=500),
    "taus": TAUS[:1],
    "thetas": (PAPER_THETA, 3e-3),
}


@pytree
class TrainingLoss(Observer):
    """f, the mean over clients of their mean loss."""

    def __call__(self, seen):
        return seen.loss


@pytree
class Penalty(Observer):
    """g."""

    def __call__(self, seen):
        return seen.problem.g.value(seen.x)


def predict(x: Tree, images: Any) -> Any:
    return cnn.predict(x.params, images)


def compute(
    out: Path,
    settings: Settings,
    *,
    taus: Sequence[int],
    thetas: Sequence[float],
    data: Path | None = None,
) -> Iterator[Path]:
    """Run every case whose file is not in `out` yet, and yield all the files."""
    keep(out / "settings.json", dataclasses.asdict(settings))
    digits, shards = None, None
    for theta, tau, method in itertools.product(thetas, taus, METHODS):
        case = Case(method, tau, theta)
        path = out / case.file
        if not path.is_file():
            digits = digits or subset(mnist(data), settings)
            shards = shards or federate(digits.train, settings.clients, settings.seeds)
            write_text(path, as_csv(case, run_case(case, settings, shards, digits.test)))
        yield path


def subset(digits: Mnist, settings: Settings) -> Mnist:
    """The first examples, which MNIST has in random order."""
    cut = lambda pictures, rows: Pictures(pictures.images[:rows], pictures.labels[:rows])
    return Mnist(cut(digits.train, settings.train), cut(digits.test, settings.test))


def federate(pictures: Pictures, clients: int, seeds: int) -> list[Shard]:
    """The paper's partition by each seed, as shards of one size, so that they can be stacked."""
    parts = [paper_mnist(pictures.labels, clients, seed=seed) for seed in range(seeds)]
    made = [shards_of(hand_out(*pictures, part), dtype=np.float32) for part in parts]
    longest = max(shards.examples[1].shape[1] for shards in made)  # of the labels

    def lengthen(a):
        more = jnp.repeat(a[:, :1], longest - a.shape[1], axis=1)
        return jnp.concatenate([a, more], axis=1)

    return [Shard(jax.tree.map(lengthen, s.examples), s.size, s.weight) for s in made]


def run_case(case: Case, settings: Settings, shards: Sequence[Shard], test: Pictures) -> Swept:
    """All seeds of one case."""
    algorithm = METHODS[case.method](settings.eta, settings.eta_g, case.tau)
    g, seeds = OnLeaves(L1(case.theta)), range(settings.seeds)
    most = settings.steps // case.tau
    starts = [Tree(cnn.init(jax.random.key(seed), jnp.float32)) for seed in seeds]
    observe = {
        "accuracy": Accuracy(jnp.asarray(test.images), jnp.asarray(test.labels), predict),
        "loss": TrainingLoss(),
        "penalty": Penalty(),
        "nonzeros": Nonzeros(),
    }
    with jax.default_matmul_precision("float32"):
        return sweep(
            [algorithm] * settings.seeds,
            [Problem(g, start, cnn.loss, settings.batch) for start in starts],
            shards,
            rounds=most if case.theta == PAPER_THETA else settings.fewer,
            every=settings.every // case.tau,
            observe=observe,
            seeds=list(seeds),
        )


def as_csv(case: Case, seen: Swept) -> str:
    """One row per seed and observed round."""
    made = {"version": __version__, "device": jax.devices()[0].device_kind}
    seeds, observations = seen.history["accuracy"].shape
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*Case._fields, "seed", "round", *seen.history, *made])
    for seed, k in itertools.product(range(seeds), range(observations)):
        values = [f"{column[seed, k]:.6g}" for column in seen.history.values()]
        writer.writerow([*case, seed, seen.rounds[k], *values, *made.values()])
    return text.getvalue()


def main() -> None:
    parser = argparse.ArgumentParser(description="Compute the runs of Figure 3.")
    parser.add_argument("--compute", type=Path, required=True, metavar="OUT")
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="the folder of MNIST's files")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--taus", type=int, nargs="+")
    parser.add_argument("--thetas", type=float, nargs="+")
    given = {name: value for name, value in vars(parser.parse_args()).items() if value}
    options: dict[str, Any] = (QUICK if given.pop("quick", False) else PAPER) | given
    for path in compute(options.pop("compute"), **options):
        print(path, flush=True)


if __name__ == "__main__":
    main()
