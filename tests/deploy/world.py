"""A small federation, simulated and deployed inside one process, for the tests of this folder."""

from typing import Any

import jax
import jax.numpy as jnp

import proxfl as px
from proxfl.deploy.protocol.experiment import Experiment
from proxfl.deploy.gather import Patience
from proxfl.deploy.local import LocalGrid, LocalNode, inside_flower, no_trouble
from proxfl.deploy.server.federation import FlowerFederation
from proxfl.deploy.site.worker import Worker
from proxfl.train.federation import Call
from proxfl.train.tasks import TASKS
from tests import cases

SEED = 3
FAST = Patience(poll=0.01, pause=0.0, wait=1.0, deadline=20.0)


def shard_of(shards, i):
    return jax.tree.map(lambda a: a[i], shards)


def stand_in(shards):
    """What the server knows of a shard: the shape of a row."""
    rows = lambda a: jax.ShapeDtypeStruct(a.shape[1:], a.dtype)
    return jax.tree.map(rows, shards)


class World:
    """Sites in folders, a server in memory, and the same problem for both.

    The sites' shards are rows of one padded federation, as the simulator has them; `alone`, each
    site pads nothing, as a real one.
    """

    def __init__(
        self, folder, algorithm, problem=None, data=None, *, name="test", names=None, seed=SEED,
        tasks=TASKS, alone=False,
    ):  # fmt: skip
        self.folder, self.algorithm, self.name = folder, algorithm, name
        self.problem, self.seed, self.tasks = problem or cases.problem(batch=3), seed, tasks
        self.data, self.alone = data or cases.sites(), alone
        self.sites = names or tuple(f"site-{i}" for i in range(len(self.data)))
        self.shards = px.shards_of(self.data, "samples", px.points.dtype(self.problem.x0))
        self.nodes = [LocalNode(10 + i, s, self.worker(i)) for i, s in enumerate(self.sites)]

    def experiment(self, shard) -> Experiment:
        common = (self.name, self.algorithm, self.problem, self.seed, self.sites)
        return Experiment(*common, shard)

    def worker(self, i) -> Worker:
        own = px.shards_of(self.data[i : i + 1]) if self.alone else None
        shard = shard_of(self.shards, i) if own is None else shard_of(own, 0)
        mine, folder = self.experiment(shard), self.folder / self.sites[i]
        return Worker(self.name, self.sites, self.sites[i], folder, lambda: mine, self.tasks)

    def federation(self, trouble=no_trouble, patience=FAST, epoch=0, **options):
        grid = LocalGrid(self.nodes, trouble)
        common = dict(patience=patience, epoch=epoch)
        made = FlowerFederation(grid, self.name, self.sites, **common, **options)
        made.settle(self.experiment(stand_in(self.shards)), self.shards.weight)
        return made


def drive(federation, algorithm, problem, rounds, server=None, start=0, step=0, watch=None) -> Any:
    """The plainest driver there is: every exchange of every round, counted as it comes."""
    server = algorithm.init(problem.g, problem.x0)[0] if server is None else server
    counted = step - 1
    with inside_flower():
        for r in range(start, rounds):
            for e, exchange in enumerate(algorithm.exchanges()):
                down = exchange.broadcast(problem.g, server)
                answers = federation.visit(algorithm, Call(step, counted, r, e), down)
                server = exchange.server(problem.g, server, answers.received)
                counted, step = step, step + 1
                if watch is not None:
                    watch(r, server, answers)
    return server


def deployed(world, rounds, trouble=no_trouble, watch=None, **options):
    """The server's state after some rounds over the world's sites, and its federation."""
    federation = world.federation(trouble, **options)
    problem = jax.tree.map(jnp.asarray, world.problem)
    return drive(federation, world.algorithm, problem, rounds, watch=watch), federation
