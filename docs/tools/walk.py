"""Draw a vector's walk through a round, simulated and deployed, and count its hops.

    python docs/tools/walk.py

A hop is a function of the package one of whose arguments is or holds a model-sized vector, or the
bytes of a message with one, between the start of a round and its end. Functions are seen as they
are entered, so the figure is what the code does. No hops are arithmetic on points (prox, points,
rings), a lambda, which is part of the function it stands in, and what an object holds already when
a method of it is called.
"""

import inspect
import sys
import tempfile
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
from matplotlib import rc_context

import proxfl as px
from proxfl.deploy.protocol.experiment import Experiment
from proxfl.deploy.server.federation import RemoteFederation
from proxfl.deploy.site.worker import Worker
from proxfl.deploy.transport.memory import MemorySite, MemoryTransport
from proxfl.drawing import plots
from proxfl.engine.messages import one_of
from proxfl.engine.round import compiled_exchanges, one_round, simulated_round
from proxfl.losses import Logistic
from proxfl.precision import precision
from proxfl.prox import L1

PACKAGE = Path(px.__file__).parent
FIGURE = Path(__file__).parent.parent / "figures" / "walk.svg"
FEATURES, ROWS, SITES = 7, 11, ("north", "south", "west")
ARITHMETIC = ("prox", "points.py", "pytree.py", "core.py", "algorithms/ring.py")
ALGORITHM = px.Decoupled(0.1, 1.0, 2)
MOST = 20, 40  # hops of the two walks: more, and nobody follows them

Hop = tuple[str, str]  # a file of the package and a function in it


def is_vector(value: Any) -> bool:
    """Whether a value is, or holds, a model-sized vector, or the bytes of a message."""
    leaves = jax.tree.leaves(value)
    if len(leaves) != 1 or leaves[0] is not value:
        return any(map(is_vector, leaves))
    if is_dataclass(value) and not isinstance(value, type):  # one that JAX does not look into
        return any(is_vector(getattr(value, field.name)) for field in fields(value))
    if isinstance(value, bytes | memoryview):
        return len(value) >= 8 * FEATURES
    shape = () if isinstance(value, jax.ShapeDtypeStruct) else getattr(value, "shape", ())
    return shape[-1:] == (FEATURES,) and ROWS not in shape


def for_shapes(frame: Any) -> bool:
    """Whether a function is entered only to learn the shape of what it gives."""
    while frame is not None and frame.f_code.co_name != "eval_shape":
        frame = frame.f_back
    return frame is not None


def walk(work: Callable[[], Any]) -> list[Hop]:
    """The functions that are handed the vector, in the order in which they first are."""
    seen: list[Hop] = []

    def enter(frame: Any, event: str, argument: Any) -> None:
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(str(PACKAGE)):
            return
        hop = str(Path(code.co_filename).relative_to(PACKAGE)), code.co_qualname
        if hop in seen or hop[1].endswith(">") or hop[0].startswith(ARITHMETIC):
            return
        if for_shapes(frame):
            return
        given = inspect.getargvalues(frame)
        names = [*given.args, *filter(None, (given.varargs, given.keywords))]
        problem = ("self", "problem", "cls")  # x0 is in every problem, and goes nowhere
        if any(is_vector(given.locals.get(name)) for name in names if name not in problem):
            seen.append(hop)

    sys.setprofile(enter)
    try:
        with jax.disable_jit():  # what is compiled already would not be entered again
            work()
    finally:
        sys.setprofile(None)
    return seen


def world() -> tuple[px.Problem, px.Shard]:
    rng = np.random.default_rng(0)
    row = lambda: (rng.normal(size=(ROWS, FEATURES)), np.sign(rng.normal(size=ROWS)))
    problem = px.Problem(g=L1(0.1), x0=np.zeros(FEATURES), loss=Logistic())
    return problem.normalised(), px.shards_of([row() for _ in SITES])


def simulated() -> list[Hop]:
    problem, shards = world()
    run = px.start(ALGORITHM, problem, shards)
    return walk(lambda: simulated_round(ALGORITHM, problem, shards, run))


def deployed() -> list[Hop]:
    """One round over sites that answer in this process, with files and frames as over a network."""
    problem, shards = world()
    experiment = lambda shard: Experiment("walk", ALGORITHM, problem, 0, SITES, shard)
    with tempfile.TemporaryDirectory() as folder:

        def site(i: int) -> MemorySite:
            mine = experiment(jax.tree.map(lambda a: a[i], shards))
            where = Path(folder, SITES[i])
            return MemorySite(lambda: Worker("walk", SITES, SITES[i], where, lambda: mine))

        network = MemoryTransport({name: site(i) for i, name in enumerate(SITES)})
        federation = RemoteFederation(network, "walk", SITES, epoch=0)
        federation.settle(experiment(one_of(shards)), shards.weight)
        server = ALGORITHM.init(problem.g, problem.x0)[0]
        ask = federation.asked_in(ALGORITHM, 0)
        return walk(lambda: one_round(compiled_exchanges(ALGORITHM), problem.g, server, 0, ask))


def draw(walks: dict[str, list[Hop]]) -> Any:
    """Each walk from top to bottom, one lane per folder."""
    lanes = ["engine", "algorithms", "problem", "losses", "train", "deploy/server"]
    lanes += ["deploy/protocol", "deploy/transport", "deploy/site", "storage", "deploy/ops"]
    longest = max(map(len, walks.values()))
    figure, axes = plots.panels(len(walks), width=6.4, height=1.2 + 0.2 * longest)
    for where, (title, hops) in zip(axes, walks.items(), strict=True):
        used = [lane for lane in lanes if any(folder(file) == lane for file, _ in hops)]
        places = [used.index(folder(file)) for file, _ in hops]
        rows = np.arange(len(hops))
        where.plot(places, rows, color="0.8", zorder=1)
        for row, place, (_, name) in zip(rows, places, hops, strict=True):
            where.scatter(place, row, s=14, color=plots.COLOURS[1 + place % 7], zorder=2)
            short = name.replace("<locals>.", "")
            where.annotate(short, (place, row), (5, -3), textcoords="offset points", fontsize=7)
        where.set(title=heading(title, hops))
        where.set_xticks(range(len(used)), used, rotation=30, ha="right", fontsize=7)
        where.set(xlim=(-0.3, len(used) + 0.4), ylim=(longest - 0.5, -1), yticks=[])
    return figure


def folder(file: str) -> str:
    parts = file.split("/")
    return "/".join(parts[:2]) if parts[0] == "deploy" else parts[0]


def heading(title: str, hops: list[Hop]) -> str:
    return f"{title}: {len(hops)} hops in {len({file for file, _ in hops})} files"


def walks() -> dict[str, list[Hop]]:
    with precision(np.float64):
        return {"A simulated round": simulated(), "A deployed round": deployed()}


def main() -> None:
    found = walks()
    for title, hops in found.items():
        print(heading(title, hops))
        print("\n".join(f"  {file:40} {name}" for file, name in hops))
    with rc_context(plots.STYLE):
        draw(found).savefig(FIGURE, metadata={"Date": None})


if __name__ == "__main__":
    main()
