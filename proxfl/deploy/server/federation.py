"""The sites of a Flower deployment as a `Federation`, and a ServerApp around a driver.

Every exchange is one message to each site and one back. Replies are put in the order of the sites
before they are summed, so a run is the same bit for bit whoever answers first. A reply that is
late, lost, broken or for another question never happened: it is logged, never averaged, and the
site is asked again until the deadline. Asking twice is safe, since a site answers a repeated
question with its first answer.
"""

import importlib
import time
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from proxfl.storage.checkpoint import named_leaves
from proxfl.core import Algorithm, Received
from proxfl.deploy import wire
from proxfl.deploy.protocol.experiment import Experiment, Format, check_sites, method
from proxfl.deploy.gather import Diverged, Gather, Patience, Request
from proxfl.deploy.server.ledger import Ledger
from proxfl.deploy.roster import Roster
from proxfl.deploy.protocol.trees import (
    abstract,
    check,
    named_arrays,
    named_points,
    points_from_wire,
    points_to_wire,
    rebuild,
)
from proxfl.deploy.protocol.wire import Frame, Header
from proxfl.engine.blocks import round_key, weigh
from proxfl.train.federation import Answers, Call, Federation
from proxfl.precision import precision
from proxfl.rounds import Run, choose
from proxfl.train.tasks import TASKS


class FlowerFederation(Federation):
    """Sites behind a Flower `Grid`.

    `settle` says what the visits are about. `standing` is what a resumed run goes on from: the
    last counted step of each site, as `standing_after` gave it to the checkpoint. `epoch` orders
    the lives of a server: sites take no more steps from an earlier one once a later one has asked,
    so a server that was resumed too soon, elsewhere, cannot mix its steps with the new one's.
    """

    def __init__(
        self,
        grid: Grid,
        name: str,
        sites: tuple[str, ...],
        *,
        keys: Mapping[str, bytes] | None = None,
        patience: Patience | None = None,
        ledger: Ledger | None = None,
        standing: Mapping[str, int] | None = None,
        cohort: int | None = None,
        epoch: int | None = None,
    ):
        check_sites(sites)
        self.grid = grid
        self.tag = wire.tag(name)
        self.names = sites
        self.roster = Roster(sites, keys)
        self.patience = patience or Patience()
        self.ledger = ledger or Ledger()
        self.cohort = cohort
        self.epoch = int(time.time()) if epoch is None else epoch
        self.standing = {site: wire.NEVER for site in sites} | dict(standing or {})
        self.answered: tuple[int, tuple[str, ...]] = (wire.NEVER, ())
        self.asked = 0
        self.experiment: Experiment | None = None
        self.weights = np.full(len(sites), 1 / len(sites))

    @property
    def sites(self) -> tuple[str, ...]:
        return self.names

    @property
    def away(self) -> frozenset[str]:
        return frozenset(self.roster.away)

    def settle(self, experiment: Experiment, weights: Any) -> None:
        """Say what visits are about: the problem, the seed, and the sites' weights in the mean."""
        self.experiment, self.weights = experiment, np.asarray(weights, experiment.kind)

    def ask(self, task: str, payload: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        """Every site's answer; before `settle`, to the tasks that set a site up."""
        self.asked += 1
        question, settings, requests = points_to_wire(payload), {"task": task}, {}
        for i, site in enumerate(self.names):
            header = Header(wire.TASK, self.tag, i, step=self.asked)
            frame = wire.encode(header, settings, question)
            requests[site] = Request(header, frame, wire.payload_bytes(question), task)
        read = self.reader_of(task, payload)
        found = self.gather(requests, wire.ANSWER, read, everyone=True)
        return {site: found[site] for site in self.names}

    def reader_of(self, task: str, payload: Mapping[str, Any]) -> Callable[[Frame], dict[str, Any]]:
        """What reads the answers to a task, and refuses those whose shapes it cannot have."""
        experiment = self.experiment
        if experiment is None or task not in TASKS:
            return lambda frame: frame.payload
        with precision(experiment.kind):
            about = (experiment.problem, abstract(experiment.shard), dict(payload))
            expected = named_points(jax.eval_shape(TASKS[task], *about))

        def read(frame: Frame) -> dict[str, Any]:
            check(frame.payload, expected, "The answer")
            with precision(experiment.kind):
                return points_from_wire(frame.payload, experiment.problem.x0)

        return read

    def visit(self, algorithm: Algorithm, call: Call, down: Any) -> Answers:
        experiment = self.experiment
        if experiment is None:
            raise RuntimeError("Call settle(experiment, weights) before the first visit.")
        with precision(experiment.kind):
            shape = experiment.formats[call.exchange]
            requests = self.requests(settings_of(algorithm, experiment.algorithm), call, down)
            read = lambda frame: read_uplink(frame, shape)
            found = self.gather(requests, wire.UPLINK, read, algorithm.needs_everyone)
            if any(isinstance(answer, Diverged) for answer in found.values()):
                found = {site: not_numbers(shape) for site in found}
            answers = self.combine(found, experiment.seed, call)
        self.answered = (call.step, answers.sites)
        return answers

    def requests(self, settings: wire.Arrays, call: Call, down: Any) -> dict[str, Request]:
        self.standing = self.standing_after(call.counted)
        payload = named_arrays(down)
        made = {}
        for i in self.cohort_of(call):
            site = self.names[i]
            place = (self.numbered(call.step), self.standing[site], call.round, call.exchange)
            header = Header(wire.VISIT, self.tag, i, *place)
            frame = wire.encode(header, settings, payload)
            made[site] = Request(header, frame, wire.payload_bytes(payload), "round")
        return made

    def numbered(self, step: int) -> int:
        return (self.epoch << wire.STEP_BITS) + step

    def cohort_of(self, call: Call) -> list[int]:
        """The sites of a round: all, or as many as asked for, drawn as the simulator draws."""
        everyone = list(range(len(self.names)))
        if self.cohort is None or self.experiment is None:
            return everyone
        run = Run(None, None, jnp.asarray(call.round), jax.random.key(self.experiment.seed))
        return choose(run, len(everyone), self.cohort).tolist()

    def standing_after(self, counted: int) -> dict[str, int]:
        """The last counted step of each site, once the server's state holds step `counted`.

        It belongs into the same checkpoint as that state. The checkpoint must be on the disk
        before the next visit: a site keeps what it needs to go back one round, not two.
        """
        step, sites = self.answered
        since = {site: self.numbered(step) for site in sites} if step == counted else {}
        return self.standing | since

    def gather(
        self,
        requests: dict[str, Request],
        kind: int,
        read: Callable[[Frame], Any],
        everyone: bool,
    ) -> dict[str, Any]:
        self.ledger.exchanges[next(iter(requests.values())).kind] += 1
        gather = Gather(self.grid, self.tag, self.roster, self.ledger, self.patience)
        return gather.run(requests, kind, read, everyone)

    def combine(self, found: dict[str, Any], seed: int, call: Call) -> Answers:
        sites = tuple(site for site in self.names if site in found)
        here = jnp.asarray([self.names.index(site) for site in sites])
        stacked = jax.tree.map(lambda *a: jnp.stack(a), *(found[site] for site in sites))
        total, share = weigh(stacked, jnp.asarray(self.weights)[here])
        mean, info = jax.tree.map(lambda a: a / share, total)
        key = round_key(jax.random.key(seed), call.round, call.exchange, len(self.names))
        return Answers(Received(mean, share, key), info, sites)


def settings_of(algorithm: Algorithm, agreed: Algorithm) -> dict[str, wire.Value]:
    """The numbers of an algorithm, in the types the sites expect them in."""
    if method(algorithm) != method(agreed):
        raise ValueError(
            f"The sites are set up for {method(agreed)}; only its numbers may change, "
            f"got {method(algorithm)}."
        )
    kinds = named_leaves(abstract(agreed))
    numbers = named_arrays(algorithm)
    return {"method": method(agreed)} | {
        name: value.astype(kinds[name].dtype) for name, value in numbers.items()
    }


def read_uplink(frame: Frame, shape: Format) -> tuple[Any, Any]:
    up = rebuild(frame.payload, shape.up, "The uplink")
    return up, rebuild(frame.settings, shape.info, "The metrics")


def not_numbers(shape: Format) -> tuple[Any, Any]:
    """What a round gives in which a site's numbers overflowed: nothing of it can be counted."""
    fill = lambda a: jnp.full(a.shape, jnp.nan if a.dtype.kind == "f" else 0, a.dtype)
    return jax.tree.map(fill, (shape.up, shape.info))


Drive = Callable[[Grid, Context], None]


def server_app(drive: Drive) -> ServerApp:
    """A ServerApp that runs `drive`, which builds a `FlowerFederation` over its Grid."""
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        drive(grid, context)

    return app


def configured(grid: Grid, context: Context) -> None:
    """The driver that the run's configuration names, as "package.module:function"."""
    module, _, name = str(context.run_config.get("drive", "")).partition(":")
    if not name:
        raise ValueError("The run needs --run-config 'drive=\"package.module:function\"'.")
    getattr(importlib.import_module(module), name)(grid, context)


app = server_app(configured)
