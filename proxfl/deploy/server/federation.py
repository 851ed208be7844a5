"""Sites behind a transport as a `Federation`.

Every exchange is one message to each site and one back. Replies are put in the order of the sites
before they are summed, so a run is the same bit for bit whoever answers first. A reply that is
late, lost, broken or for another question never happened: it is logged, never averaged, and the
site is asked again until the deadline. Asking twice is safe, since a site answers a repeated
question with its first answer.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from proxfl.core import Algorithm
from proxfl.deploy.protocol import wire
from proxfl.deploy.protocol.claims import Claims, is_smooth
from proxfl.deploy.protocol.experiment import Experiment, check_sites, method
from proxfl.deploy.protocol.transport import Transport
from proxfl.deploy.protocol.trees import finite, largest, pack, rebuild
from proxfl.deploy.protocol.wire import Frame, Header
from proxfl.deploy.server.inquiry import Attendance, Diverged, Inquiry, Patience, Request
from proxfl.deploy.server.ledger import NOBODY, Ledger
from proxfl.engine.messages import Exchange
from proxfl.engine.round import draw_cohort
from proxfl.engine.visit import received, round_key, weigh
from proxfl.precision import precision
from proxfl.storage.checkpoint import named_arrays
from proxfl.train.federation import Answers, Call, Exact, Federation
from proxfl.train.tasks import TASKS

OUTSTANDING = 1e3  # times all others': an uplink of which a run that overflows may come
Read = Callable[[Frame], Any]


class RemoteFederation(Federation):
    """Sites that answer messages.

    `settle` says what the visits are about. `standing` is what a resumed run goes on from: the
    last counted step of each site, as `standing_after` gave it to the checkpoint. `epoch` orders
    the lives of a server, see `next_epoch`: sites take no more steps from an earlier one once a
    later one has asked, so a server that was resumed too soon, elsewhere, cannot mix its steps with
    the new one's.
    """

    def __init__(
        self,
        transport: Transport,
        name: str,
        sites: tuple[str, ...],
        *,
        patience: Patience | None = None,
        ledger: Ledger | None = None,
        standing: Mapping[str, int] | None = None,
        cohort: int | None = None,
        epoch: int,
    ):
        check_sites(sites)
        self.transport = transport
        self.tag = wire.tag(name)
        self.names = sites
        self.attendance = Attendance()
        self.patience = patience or Patience()
        self.ledger = ledger or Ledger()
        self.cohort = cohort
        self.epoch = epoch
        self.standing = {site: wire.NEVER for site in sites} | dict(standing or {})
        self.answered: tuple[int, tuple[str, ...]] = (wire.NEVER, ())
        self.asked = 0
        self.experiment: Experiment | None = None
        self.weights = np.full(len(sites), 1 / len(sites))
        self.claims = Claims(smooth=False)  # until `settle` says what the loss is
        self.uplinks: dict[str, Any] = {}  # of each site, the last whose numbers were finite

    @property
    def sites(self) -> tuple[str, ...]:
        return self.names

    @property
    def away(self) -> frozenset[str]:
        return frozenset(self.attendance.away)

    def settle(self, experiment: Experiment, weights: Any) -> None:
        """Say what visits are about: the problem, the seed, and the sites' weights in the mean."""
        self.experiment, self.weights = experiment, np.asarray(weights, experiment.kind)
        self.claims = Claims(is_smooth(experiment.problem.loss))

    def ask(
        self, task: str, payload: Mapping[str, Any], booked: str = ""
    ) -> dict[str, dict[str, Any]]:
        """Every site's answer; before `settle`, to the tasks that set a site up.

        In the books it stands as `booked`, if that is not its own name.
        """
        self.asked += 1
        question, points = pack(payload)
        settings = {"task": task, "points": " ".join(points)}
        headers = [Header(wire.TASK, self.tag, i, self.asked) for i in range(len(self.names))]
        experiment, read = self.experiment, lambda frame: frame.payload
        with precision(np.float32 if experiment is None else experiment.kind):
            if experiment is not None and task in TASKS:  # whose answers have a known shape
                about = (experiment.problem, experiment.shard, dict(payload))
                shape = jax.eval_shape(TASKS[task], *about)
                read = self.listener(task, payload, shape)
            values = settings, question
            found = self.inquire(booked or task, headers, values, wire.ANSWER, read)
        return {site: found[site] for site in self.names}

    def listener(self, task: str, payload: Mapping[str, Any], shape: Any) -> Read:
        """What reads the answers to a task, and holds what they say of the loss to the others."""

        def read(frame: Frame) -> Any:
            answer, site = rebuild(frame.payload, shape, "The answer"), self.speaker(frame)
            self.claims.hear_answer(site, task, payload, answer)
            return answer

        return read

    def reader(self, shape: Exchange, exact: Exact | None) -> Read:
        """What makes of a reply the uplink and the metrics in it."""

        def read(frame: Frame) -> tuple[Any, Any]:
            up = rebuild(frame.payload, shape.up, "The uplink")
            info = rebuild(frame.settings, shape.info, "The metrics")
            if exact is not None:
                self.claims.hear_uplink(self.speaker(frame), exact, up, info["loss"])
            return up, info

        return read

    def speaker(self, frame: Frame) -> str:
        return self.names[frame.header.site]

    def visit(
        self, algorithm: Algorithm, call: Call, down: Any, exact: Exact | None = None
    ) -> Answers:
        experiment = self.experiment
        if experiment is None:
            raise RuntimeError("Call settle(experiment, weights) before the first visit.")
        with precision(experiment.kind):
            shape = experiment.messages[call.exchange]
            settings = settings_of(algorithm, experiment.algorithm)
            read, question = self.reader(shape, exact), named_arrays(down)
            about = "round", self.headers(call), (settings, question), wire.UPLINK, read
            found = self.inquire(*about, algorithm.needs_everyone)
            diverged = {site: a for site, a in found.items() if isinstance(a, Diverged)}
            if diverged:
                self.note_overflow(call.step, diverged)
                found = {site: not_numbers(shape) for site in found}
            else:
                self.uplinks = {site: up for site, (up, _) in found.items()}
            sites = tuple(site for site in self.names if site in found)
            stacked = jax.tree.map(lambda *a: jnp.stack(a), *(found[site] for site in sites))
            weights = self.weights[[self.names.index(site) for site in sites]]
            place = (call.round, call.exchange, len(self.names))
            key = round_key(jax.random.key(experiment.seed), *place)
            mean, info = received(*weigh(stacked, jnp.asarray(weights)), key)
            if not diverged and not finite(named_arrays(mean.mean)):
                self.note_overflow(call.step, {})
        self.answered = (call.step, sites)
        return Answers(mean, info, sites)

    def note_overflow(self, step: int, diverged: Mapping[str, Diverged]) -> None:
        """Numbers became too large: if one site's last update stands out, that is where from."""
        sizes = {site: largest(jax.tree.leaves(up)) for site, up in self.uplinks.items()}
        name = max(sizes, key=lambda site: sizes[site], default="")
        others = max((size for site, size in sizes.items() if site != name), default=np.inf)
        if sizes.get(name, 0.0) > OUTSTANDING * others:
            sentence = (
                f"Numbers overflow after its update, with numbers up to {sizes[name]:.2g} "
                f"where those of all others are below {others:.2g}."
            )
            self.ledger.fault(step, name, sentence)
            return
        if diverged:  # where they overflow is not who is to blame: all were sent one model
            reasons = " ".join(answer.reason for answer in diverged.values())
            self.ledger.fault(step, NOBODY, reasons)

    def headers(self, call: Call) -> list[Header]:
        """Those of the questions of a visit, one for each site of its round."""
        self.standing = self.standing_after(call.counted)
        step, place = self.numbered(call.step), (call.round, call.exchange)
        standing = lambda i: self.standing[self.names[i]]
        return [
            Header(wire.VISIT, self.tag, i, step, standing(i), *place) for i in self.cohort_of(call)
        ]

    def numbered(self, step: int) -> int:
        return (self.epoch << wire.STEP_BITS) + step

    def cohort_of(self, call: Call) -> list[int]:
        """The sites of a round: all, or as many as asked for, drawn as the simulator draws."""
        everyone = list(range(len(self.names)))
        if self.cohort is None or self.experiment is None:
            return everyone
        key = jax.random.key(self.experiment.seed)
        return draw_cohort(key, call.round, len(everyone), self.cohort).tolist()

    def standing_after(self, counted: int) -> dict[str, int]:
        """The last counted step of each site, once the server's state holds step `counted`.

        It belongs into the same checkpoint as that state. The checkpoint must be on the disk
        before the next visit: a site keeps what it needs to go back one round, not two.
        """
        step, sites = self.answered
        since = {site: self.numbered(step) for site in sites} if step == counted else {}
        return self.standing | since

    def inquire(
        self,
        name: str,
        headers: Sequence[Header],
        values: tuple[wire.Arrays, wire.Arrays],
        kind: int,
        read: Read,
        everyone: bool = True,
    ) -> dict[str, Any]:
        """Ask the same of some sites, settings and a payload; what was read of their replies, which
        are of one kind."""
        self.ledger.exchanges[name] += 1
        size, encoded = wire.payload_bytes(values[1]), lambda h: wire.encode(h, *values)
        requests = {self.names[h.site]: Request(h, encoded(h), size, name) for h in headers}
        common = (self.transport, self.attendance, self.ledger, self.patience)
        return Inquiry(*common, requests, kind, read, everyone).run()


def settings_of(algorithm: Algorithm, agreed: Algorithm) -> dict[str, wire.Value]:
    """The numbers of an algorithm, in the types the sites expect them in."""
    if method(algorithm) != method(agreed):
        raise ValueError(
            f"The sites are set up for {method(agreed)}; only its numbers may change, "
            f"got {method(algorithm)}."
        )
    kinds, numbers = named_arrays(agreed), named_arrays(algorithm)
    return {"method": method(agreed)} | {
        name: value.astype(kinds[name].dtype) for name, value in numbers.items()
    }


def not_numbers(shape: Exchange) -> tuple[Any, Any]:
    """What a round gives in which a site's numbers overflowed: nothing of it can be counted."""
    fill = lambda a: jnp.full(a.shape, jnp.nan if a.dtype.kind == "f" else 0, a.dtype)
    return jax.tree.map(fill, (shape.up, shape.info))
