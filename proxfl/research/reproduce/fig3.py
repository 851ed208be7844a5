"""The paper's third experiment: a convolutional network on MNIST, Algorithm 1 against FedDA.

Settings of the paper: ten clients, half of their examples drawn evenly and half by label;
g = theta |x|_1 on all parameters, biases included; theta = 1e-4, eta = 0.005, eta_g = 1, batches of
10, tau 5 and 10. It leaves open, and we choose: pixels scaled to 0..1, He's start, 1500 rounds,
three seeds; a seed fixes the partition, the start and the batches, the same for both methods.
Larger theta are added, where the l1 norm removes most of the network.

All is computed in float32 (on a GPU too, where the default would be TF32). Each run is one CSV
file, written when the run ends; a run whose file exists is not repeated. What computes needs only
JAX and NumPy:

    python -m proxfl.research.reproduce.fig3 --compute OUT --data FOLDER
"""

import argparse
import csv
import dataclasses
import io
import itertools
import json
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
from proxfl.engine.result import DivergenceError, Result
from proxfl.engine.simulate import simulate
from proxfl.points import Tree, size
from proxfl.problem import Problem, Shard, shards_of
from proxfl.prox.leaves import OnLeaves
from proxfl.prox.norms import L1
from proxfl.pytree import pytree
from proxfl.research import cnn
from proxfl.storage.files import write_text

METHODS: dict[str, Callable[..., Algorithm]] = {"Algorithm 1": Decoupled, "FedDA": FedDA}


@dataclasses.dataclass(frozen=True)
class Settings:
    """What all runs of one folder have in common; `None` examples are all of them."""

    rounds: int = 1500
    every: int = 10
    eta: float = 0.005
    eta_g: float = 1.0
    batch: int = 10
    clients: int = 10
    train: int | None = None
    test: int | None = None


class Case(NamedTuple):
    """What tells one run of a folder from the others."""

    method: str
    tau: int
    theta: float
    seed: int

    @property
    def file(self) -> str:
        name = self.method.lower().replace(" ", "")
        return f"{name}-tau{self.tau}-theta{self.theta}-seed{self.seed}.csv"


PAPER_THETA = 1e-4
TAUS = (5, 10)
# The two forms of the experiment, as arguments of `compute`.
PAPER = {
    "settings": Settings(),
    "seeds": (0, 1, 2),
    "taus": TAUS,
    "thetas": (PAPER_THETA, 3e-4, 1e-3, 3e-3),
}
QUICK = {
    "settings": Settings(rounds=40, every=5, train=1500, test=500),
    "seeds": (0,),
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
    seeds: Sequence[int],
    taus: Sequence[int],
    thetas: Sequence[float],
    data: Path | None = None,
) -> Iterator[Path]:
    """Run every case whose file is not in `out` yet, and yield all the files."""
    keep_settings(out, settings)
    digits = None
    for seed in seeds:
        shards = None
        for tau, method, theta in itertools.product(taus, METHODS, thetas):
            case = Case(method, tau, theta, seed)
            path = out / case.file
            if not path.is_file():
                digits = digits or subset(mnist(data), settings)
                shards = shards or federate(digits.train, settings.clients, seed)
                write_text(path, as_csv(case, run_case(case, settings, shards, digits.test)))
            yield path


def keep_settings(out: Path, settings: Settings) -> None:
    """A folder holds runs of one kind; going on with others would mix them."""
    path = out / "settings.json"
    text = json.dumps(dataclasses.asdict(settings), indent=1) + "\n"
    if not path.is_file():
        write_text(path, text)
    elif path.read_text() != text:
        raise ValueError(f"{out} holds runs of other settings (see {path}); use another folder.")


def subset(digits: Mnist, settings: Settings) -> Mnist:
    """The first examples, which MNIST has in random order."""
    cut = lambda pictures, rows: Pictures(pictures.images[:rows], pictures.labels[:rows])
    return Mnist(cut(digits.train, settings.train), cut(digits.test, settings.test))


def federate(pictures: Pictures, clients: int, seed: int) -> Shard:
    """The paper's partition, as shards of a size that does not depend on the seed."""
    parts = paper_mnist(pictures.labels, clients, seed=seed)
    shards = shards_of(hand_out(*pictures, parts), dtype=np.float32)
    # The largest client has about 1.07 times the mean; whole fifths of it hold any seed's.
    fifth = len(pictures.labels) // clients // 5

    def lengthen(a):
        more = jnp.repeat(a[:, :1], -a.shape[1] % fifth, axis=1)
        return jnp.concatenate([a, more], axis=1)

    return Shard(jax.tree.map(lengthen, shards.examples), shards.size, shards.weight)


def run_case(case: Case, settings: Settings, shards: Shard, test: Pictures) -> Result:
    """One run; if it diverges, what there was until then."""
    algorithm = METHODS[case.method](settings.eta, settings.eta_g, case.tau)
    start = Tree(cnn.init(jax.random.key(case.seed), jnp.float32))
    problem = Problem(OnLeaves(L1(case.theta)), start, cnn.loss, settings.batch)
    observe = {
        "accuracy": Accuracy(jnp.asarray(test.images), jnp.asarray(test.labels), predict),
        "loss": TrainingLoss(),
        "penalty": Penalty(),
        "nonzeros": Nonzeros(),
    }
    with jax.default_matmul_precision("float32"):
        try:
            return simulate(
                algorithm,
                problem,
                shards,
                rounds=settings.rounds,
                seed=case.seed,
                every=settings.every,
                observe=observe,
            )
        except DivergenceError as error:
            return error.result


def as_csv(case: Case, result: Result) -> str:
    """One row per observed round."""
    seen = {name: column.tolist() for name, column in result.history.items()}
    count = len(seen["round"])
    same = {"figure": "fig3", "panel": f"tau={case.tau}", **case._asdict()}
    made = {"precision": "float32", "version": __version__}
    made |= {"device": jax.devices()[0].device_kind}
    columns = {
        **{name: [value] * count for name, value in same.items()},
        "round": seen["round"],
        "accuracy": seen["accuracy"],
        "loss": seen["loss"],
        "objective": [f + g for f, g in zip(seen["loss"], seen["penalty"], strict=True)],
        "penalty": seen["penalty"],
        "nonzeros": seen["nonzeros"],
        "density": [nonzeros / size(result.model) for nonzeros in seen["nonzeros"]],
        "seconds": seen["seconds"],
        "bytes_up": seen["bytes_up"],
        **{name: [value] * count for name, value in made.items()},
    }
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([columns, *zip(*columns.values(), strict=True)])
    return text.getvalue()


def main() -> None:
    parser = argparse.ArgumentParser(description="Compute the runs of Figure 3.")
    parser.add_argument("--compute", type=Path, required=True, metavar="OUT")
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="the folder of MNIST's files")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--seeds", type=int, nargs="+")
    parser.add_argument("--taus", type=int, nargs="+")
    parser.add_argument("--thetas", type=float, nargs="+")
    given = {name: value for name, value in vars(parser.parse_args()).items() if value}
    options: dict[str, Any] = (QUICK if given.pop("quick", False) else PAPER) | given
    rounds = options.pop("rounds", options["settings"].rounds)
    options["settings"] = dataclasses.replace(options["settings"], rounds=rounds)
    for path in compute(options.pop("compute"), **options):
        print(path, flush=True)


if __name__ == "__main__":
    main()
