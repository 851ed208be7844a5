"""What a site answers: bytes in, bytes out, whatever carries them."""

import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from proxfl import __version__
from proxfl.core import Algorithm
from proxfl.deploy.protocol import wire
from proxfl.deploy.protocol.experiment import Experiment, check_sites, first_state, method
from proxfl.deploy.protocol.trees import finite, largest, pack, rebuild, unpack
from proxfl.deploy.protocol.wire import BadMessage, Frame, Header
from proxfl.deploy.site.account import Account
from proxfl.deploy.site.guard import Shares, guards
from proxfl.deploy.site.noise import keep_noise, secret_key
from proxfl.deploy.site.questions import Questions
from proxfl.deploy.site.store import Store
from proxfl.engine.visit import round_key, visit
from proxfl.precision import precision
from proxfl.problem import Problem, Shard
from proxfl.pytree import keep_rules
from proxfl.storage.checkpoint import content_of, named_arrays
from proxfl.train.tasks import STEPS_BACK, TASKS, refuse_odd

log = logging.getLogger("proxfl.deploy")

Tasks = Mapping[str, Callable[[Problem, Shard, dict[str, Any]], dict[str, Any]]]
Setup = Mapping[str, Callable[[dict[str, Any]], dict[str, Any]]]


class Limits(NamedTuple):
    """What keeps single rows out of a site's answers.

    With `shares`, which no model but a linear one can have, answers that hang on few rows are
    refused; with `questions`, they are counted. With an `account` the site adds noise to what a
    round sends, whatever the method, and counts it. `secret` batches are drawn by a secret of the
    site: by the seed of the study the server would know which rows each answer is about.
    """

    shares: Shares = Shares()
    questions: Questions | None = None
    account: Account | None = None
    secret: bool = False


NO_LIMITS = Limits()


class Worker:
    """Answers the server's messages for one site, out of its shard and its stored states.

    `setup` has the tasks by which server and site come to agree on an experiment; once they have,
    `load` gives it. Until then it should raise BadMessage. If the method adds noise at the client,
    nothing leaves the site without it: see `proxfl.deploy.site.noise`.
    """

    def __init__(
        self,
        experiment: str,
        sites: tuple[str, ...],
        site: str,
        folder: Path,
        load: Callable[[], Experiment],
        tasks: Tasks = TASKS,
        setup: Setup | None = None,
        limits: Limits = NO_LIMITS,
    ):
        check_sites(sites)
        self.experiment = experiment
        self.site = site
        self.here = sites.index(site)
        self.folder = folder
        self.load = load
        self.tasks = tasks
        self.setup = setup or {}
        self.shares, self.questions, self.account, self.secret = limits
        self.guarded, self.enough = guards(self.shares)
        self.answers = {wire.HELLO: self.greet, wire.TASK: self.perform, wire.VISIT: self.visit}

    def answer(self, request: bytes) -> bytes:
        """The reply to a message, or a refusal that says in a sentence what was wrong with it."""
        return answered(self.site, request, self.receive)

    def receive(self, frame: Frame) -> bytes:
        self.check(frame.header)
        return self.answers[frame.header.kind](frame)

    def check(self, header: Header) -> None:
        if header.experiment != wire.tag(self.experiment):
            raise BadMessage(f"Site {self.site} takes part in {self.experiment}, not in another.")
        unsure = header.site == wire.ANY_SITE and header.kind == wire.HELLO
        if header.site != self.here and not unsure:
            raise BadMessage(f"A message for site number {header.site} reached {self.site}.")
        if header.kind not in self.answers:
            raise BadMessage(f"A site is not asked messages of kind {header.kind}.")

    def greet(self, frame: Frame) -> bytes:
        return greeting(frame.header._replace(site=self.here), self.site)

    def perform(self, frame: Frame) -> bytes:
        """A task: a summary of the shard, such as its loss at a point."""
        name = str(frame.settings.get("task"))
        points = str(frame.settings.get("points", "")).split()
        if name in self.setup:
            answer, _ = pack(self.setup[name](dict(frame.payload)))
            self.note(name, frame, answer)
        elif name in self.tasks:
            experiment = self.load()
            if experiment.algorithm.client_noise:
                raise BadMessage(
                    f"Site {self.site} adds noise to what it tells, and the task {name!r} has none."
                )
            with precision(experiment.kind):
                question = unpack(frame.payload, points, experiment.problem.x0)
                if "x" not in question:
                    raise BadMessage(f"The task {name!r} is about a model, and none came with it.")
                problem = experiment.problem
                try:
                    refuse_odd(name, problem, question)
                except ValueError as error:
                    raise BadMessage(f"Site {self.site} is not asked so: {error}") from None
                if name in STEPS_BACK:
                    problem = self.guarded(problem)
                elif not self.enough(name, problem, experiment.shard, question["x"]):
                    raise BadMessage(
                        f"Site {self.site} does not answer about this model: fewer of its rows "
                        "would be behind the answer than its policy allows."
                    )
                self.count(experiment.shard.size)
                found = self.tasks[name](problem, experiment.shard, question)
                answer = named_arrays(found)
                self.note(name, frame, answer)
        else:
            raise BadMessage(f"Site {self.site} knows no task {name!r}.")
        return wire.encode(frame.header._replace(kind=wire.ANSWER), {}, answer)

    def count(self, rows: Any) -> None:
        """Refuse one question more than there may be of so many rows."""
        if self.questions is not None:
            self.questions.check(self.site, int(rows))

    def note(self, what: str, frame: Frame, answer: wire.Arrays) -> None:
        """Put what is about to leave into the site's own log."""
        if self.questions is not None:
            sent = largest(a for a in frame.payload.values() if not isinstance(a, str))
            numbers = sum(len(a) if isinstance(a, str) else a.size for a in answer.values())
            about = {"request": frame.digest.hex(), "largest": sent, "numbers": numbers}
            self.questions.enter(what, setup=what in self.setup, **about)

    def visit(self, frame: Frame) -> bytes:
        """One client's part of one exchange, on the disk before it is sent."""
        experiment, header = self.load(), frame.header
        with precision(experiment.kind):
            shapes = experiment.messages
            if header.exchange >= len(shapes):
                raise BadMessage(f"The method has no exchange number {header.exchange}.")
            if experiment.algorithm.client_noise and shapes[header.exchange].info:
                raise BadMessage("The method's metrics carry no noise; leave them out.")
            algorithm = settled(frame.settings, experiment.algorithm)
            down = rebuild(frame.payload, shapes[header.exchange].down, "The message down")
            states, tag = self.folder / "states", wire.tag(self.experiment)
            store = Store(states, tag, self.site, generations=len(shapes) + 1)
            before = store.answered(header, frame.digest)
            if before is not None:
                log.info("Site %s repeats its answer", self.site)
                return before
            self.count(experiment.shard.size)
            state = first_state(algorithm, experiment.problem)
            if header.counted != wire.NEVER:
                state = store.recall(header, state)
            place = (header.round, header.exchange, self.here)
            batches = self.secret and experiment.problem.batch is not None
            if experiment.algorithm.client_noise or batches:  # not for the server to draw, too
                key = secret_key(self.folder, place, (algorithm, state, down))
            else:
                key = round_key(jax.random.key(experiment.seed), *place)
            problem = self.guarded(experiment.problem)
            args = (algorithm, problem, experiment.shard, state, down, key)
            reply = visit(*args, exchange=header.exchange)
            if self.account is not None:
                used = (algorithm, state, down)
                reply = reply._replace(up=self.noised(reply.up, experiment, place, used))
            up, info = named_arrays(reply.up), named_arrays(dict(reply.info))
            self.note("round", frame, up | info)
            if not (finite(up) and finite(info)):  # nothing is stored: this never happened
                reason = f"The numbers of site {self.site} overflow at the model it was sent"
                few = ", or hang on too few of its rows" if self.shares.rows else ""
                reason = f"{reason}{few}."
                return wire.encode(header._replace(kind=wire.DIVERGED), {}, {"reason": reason})
            answer = wire.encode(header._replace(kind=wire.UPLINK), info, up)
            store.remember(header, frame.digest, answer, reply.state)
            return answer

    def noised(self, up: Any, experiment: Experiment, place: tuple[int, ...], used: Any) -> Any:
        """A mean over the rows with the noise of their sum, once that has been counted."""
        account: Any = self.account
        mean, as_point = ravel_pytree(up)
        seed = account.seed(repr(place).encode(), content_of(used), experiment.rows)
        account.spend(self.site, seed)
        rows = int(experiment.shard.size)
        total = account.noise.added(seed, rows * np.asarray(mean), rows)
        return as_point(jnp.asarray(total / rows))


def answered(site: str, request: bytes, receive: Callable[[Frame], bytes]) -> bytes:
    """What a site's part makes of a message, or a refusal: nothing else leaves it."""
    begun = time.perf_counter()
    try:
        frame = wire.decode(request)
        reply = receive(frame)
        step, took = wire.step_number(frame.header.step), time.perf_counter() - begun
        log.info("Site %s answered step %d in %.3f s", site, step, took)
        return reply
    except BadMessage as error:
        log.warning("Site %s refused a message: %s", site, error)
        return wire.refusal(wire.brief(request), str(error))
    except Exception as error:  # the border of the process: the next message must be answered
        log.exception("Site %s failed on a message", site)
        # What went wrong may quote the data, so only its kind leaves the site.
        reason = f"Site {site} failed with {type(error).__name__}; its log says why."
        return wire.refusal(wire.brief(request), reason)


def greeting(header: Header, site: str) -> bytes:
    """Who a site is."""
    about = {"site": site, "version": __version__}
    return wire.encode(header._replace(kind=wire.ANSWER), {}, about)


def settled(settings: Mapping[str, wire.Value], own: Algorithm) -> Algorithm:
    """The site's own algorithm with the numbers the server uses in this exchange."""
    numbers = dict(settings)
    theirs = numbers.pop("method", None)
    if theirs != method(own):
        raise BadMessage(f"The server runs {theirs}, this site is set up for {method(own)}.")
    algorithm = rebuild(numbers, own, "The settings")
    try:
        keep_rules(algorithm)
    except ValueError as error:
        raise BadMessage(f"The settings break a rule: {error}") from error
    keep_noise(algorithm, own)
    return algorithm
