"""A small federation, simulated and deployed inside one process, for the tests of this folder."""

from typing import Any

import jax
import jax.numpy as jnp

import proxfl as px
from proxfl.deploy.protocol.experiment import Experiment
from proxfl.deploy.server.federation import RemoteFederation
from proxfl.deploy.server.inquiry import Patience
from proxfl.deploy.site.worker import Worker
from proxfl.deploy.transport.memory import MemorySite, MemoryTransport, undisturbed
from proxfl.train.federation import Call
from proxfl.train.tasks import TASKS
from tests import cases

SEED = 3
PATIENCE = Patience(pause=1.0)


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
        self.algorithm, self.name = algorithm, name
        self.problem, self.seed, self.tasks = problem or cases.problem(batch=3), seed, tasks
        self.data, self.alone = data or cases.sites(), alone
        self.sites = names or tuple(f"site-{i}" for i in range(len(self.data)))
        self.shards = px.shards_of(self.data, "samples", px.points.dtype(self.problem.x0))
        self.experiments = [self.experiment(self.shard(i)) for i in range(len(self.sites))]
        self.agreed = self.experiment(stand_in(self.shards))
        self.move_to(folder)

    def move_to(self, folder) -> None:
        """All sites anew, elsewhere."""
        self.folder = folder
        self.processes = {
            site: MemorySite(lambda i=i: self.worker(i)) for i, site in enumerate(self.sites)
        }

    def experiment(self, shard) -> Experiment:
        common = (self.name, self.algorithm, self.problem, self.seed, self.sites)
        return Experiment(*common, shard)

    def shard(self, i):
        own = px.shards_of(self.data[i : i + 1]) if self.alone else None
        return shard_of(self.shards, i) if own is None else shard_of(own, 0)

    def worker(self, i) -> Worker:
        mine, folder = self.experiments[i], self.folder / self.sites[i]
        return Worker(self.name, self.sites, self.sites[i], folder, lambda: mine, self.tasks)

    def network(self, fate=undisturbed, moment=lambda: None):
        return MemoryTransport(self.processes, fate, moment)

    def federation(self, transport=None, patience=PATIENCE, epoch=0, **options):
        common = dict(patience=patience, epoch=epoch)
        transport = transport or self.network()
        made = RemoteFederation(transport, self.name, self.sites, **common, **options)
        made.settle(self.agreed, self.shards.weight)
        return made


def drive(federation, algorithm, problem, rounds, server=None, start=0, step=0, watch=None) -> Any:
    """The plainest driver there is: every exchange of every round, counted as it comes."""
    problem = jax.tree.map(jnp.asarray, problem)
    server = algorithm.init(problem.g, problem.x0)[0] if server is None else server
    counted = step - 1
    for r in range(start, rounds):
        for e, exchange in enumerate(algorithm.exchanges()):
            down = exchange.broadcast(problem.g, server)
            answers = federation.visit(algorithm, Call(step, counted, r, e), down)
            server = exchange.server(problem.g, server, answers.received)
            counted, step = step, step + 1
            if watch is not None:
                watch(r, server, answers)
    return server


def deployed(world, rounds, fate=undisturbed, watch=None, **options):
    """The server's state after some rounds over the world's sites, and its federation."""
    federation = world.federation(world.network(fate), **options)
    return drive(federation, world.algorithm, world.problem, rounds, watch=watch), federation
