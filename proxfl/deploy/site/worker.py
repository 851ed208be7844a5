"""What a site answers: bytes in, bytes out, whatever carries them."""

import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from proxfl import __version__
from proxfl.core import Algorithm
from proxfl.deploy.protocol import wire
from proxfl.deploy.protocol.experiment import Experiment, check_sites, first_state, method
from proxfl.deploy.protocol.trees import finite, pack, rebuild, unpack
from proxfl.deploy.protocol.wire import BadMessage, Frame, Header
from proxfl.deploy.site.noise import keep_noise, secret_key
from proxfl.deploy.site.store import Store
from proxfl.engine.visit import round_key, visit
from proxfl.precision import precision
from proxfl.problem import Problem, Shard
from proxfl.pytree import keep_rules
from proxfl.storage.checkpoint import named_arrays
from proxfl.train.tasks import TASKS

log = logging.getLogger("proxfl.deploy")

Tasks = Mapping[str, Callable[[Problem, Shard, dict[str, Any]], dict[str, Any]]]
Setup = Mapping[str, Callable[[dict[str, Any]], dict[str, Any]]]


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
    ):
        check_sites(sites)
        self.experiment = experiment
        self.site = site
        self.here = sites.index(site)
        self.folder = folder
        self.load = load
        self.tasks = tasks
        self.setup = setup or {}
        self.answers = {wire.HELLO: self.greet, wire.TASK: self.perform, wire.VISIT: self.visit}

    def answer(self, request: bytes) -> bytes:
        """The reply to a message, or a refusal that says in a sentence what was wrong with it."""
        begun = time.perf_counter()
        try:
            frame = wire.decode(request)
            self.check(frame.header)
            reply = self.answers[frame.header.kind](frame)
            step, took = wire.step_number(frame.header.step), time.perf_counter() - begun
            log.info("Site %s answered step %d in %.3f s", self.site, step, took)
            return reply
        except BadMessage as error:
            log.warning("Site %s refused a message: %s", self.site, error)
            return wire.refusal(wire.brief(request), str(error))
        except Exception as error:  # the border of the process: the next message must be answered
            log.exception("Site %s failed on a message", self.site)
            # What went wrong may quote the data, so only its kind leaves the site.
            reason = f"Site {self.site} failed with {type(error).__name__}; its log says why."
            return wire.refusal(wire.brief(request), reason)

    def check(self, header: Header) -> None:
        if header.experiment != wire.tag(self.experiment):
            raise BadMessage(f"Site {self.site} takes part in {self.experiment}, not in another.")
        unsure = header.site == wire.ANY_SITE and header.kind == wire.HELLO
        if header.site != self.here and not unsure:
            raise BadMessage(f"A message for site number {header.site} reached {self.site}.")
        if header.kind not in self.answers:
            raise BadMessage(f"A site is not asked messages of kind {header.kind}.")

    def greet(self, frame: Frame) -> bytes:
        about = {"site": self.site, "version": __version__}
        return wire.encode(frame.header._replace(kind=wire.ANSWER, site=self.here), {}, about)

    def perform(self, frame: Frame) -> bytes:
        """A task: a summary of the shard, such as its loss at a point."""
        name = str(frame.settings.get("task"))
        points = str(frame.settings.get("points", "")).split()
        if name in self.setup:
            answer, _ = pack(self.setup[name](dict(frame.payload)))
        elif name in self.tasks:
            experiment = self.load()
            if experiment.algorithm.client_noise:
                raise BadMessage(
                    f"Site {self.site} adds noise to what it tells, and the task {name!r} has none."
                )
            with precision(experiment.kind):
                question = unpack(frame.payload, points, experiment.problem.x0)
                found = self.tasks[name](experiment.problem, experiment.shard, question)
                answer = named_arrays(found)
        else:
            raise BadMessage(f"Site {self.site} knows no task {name!r}.")
        return wire.encode(frame.header._replace(kind=wire.ANSWER), {}, answer)

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
            state = store.recall(header, first_state(algorithm, experiment.problem))
            place = (header.round, header.exchange, self.here)
            if experiment.algorithm.client_noise:  # noise that the server could draw is none
                key = secret_key(self.folder, place, (algorithm, state, down))
            else:
                key = round_key(jax.random.key(experiment.seed), *place)
            args = (algorithm, experiment.problem, experiment.shard, state, down, key)
            reply = visit(*args, exchange=header.exchange)
            up, info = named_arrays(reply.up), named_arrays(dict(reply.info))
            if not (finite(up) and finite(info)):  # nothing is stored: this never happened
                reason = f"The update of site {self.site} is not finite: the run diverges."
                return wire.encode(header._replace(kind=wire.DIVERGED), {}, {"reason": reason})
            answer = wire.encode(header._replace(kind=wire.UPLINK), info, up)
            store.remember(header, frame.digest, answer, reply.state)
            return answer

    def warm_up(self) -> None:
        """Compile every exchange on the initial state, so that no round waits for it."""
        experiment = self.load()
        with precision(experiment.kind):
            algorithm, problem = experiment.algorithm, experiment.problem
            key, state = jax.random.key(experiment.seed), first_state(algorithm, problem)
            for e, shapes in enumerate(experiment.messages):
                down = jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), shapes.down)
                args = (algorithm, problem, experiment.shard, state, down, key)
                jax.block_until_ready(visit(*args, exchange=e))


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
