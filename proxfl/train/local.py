"""A federation inside one process: the sites' shards, stacked."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import jax

from proxfl.core import Algorithm
from proxfl.engine.messages import message_bytes
from proxfl.engine.round import ask_clients, draw_cohort, start
from proxfl.engine.visit import round_key
from proxfl.problem import Problem, Shard
from proxfl.prox import Zero
from proxfl.train.federation import NEAR, Answers, Call, Exact, Federation
from proxfl.train.tasks import TASKS


class Traffic(NamedTuple):
    """Exchanges, and the bytes they would have sent over a network, all sites."""

    exchanges: int = 0
    up: int = 0
    down: int = 0


def total(ledger: Mapping[Any, Traffic]) -> Traffic:
    """That of all kinds together."""
    return Traffic(*(sum(column) for column in zip(Traffic(), *ledger.values(), strict=True)))


class LocalFederation(Federation):
    """Keeps every client's state by step, two generations deep, as real sites do.

    With a `cohort`, that many clients are drawn for a round; the others keep their state.
    """

    link = NEAR

    def __init__(
        self,
        problem: Problem,
        shards: Shard,
        names: Sequence[str] | None = None,
        seed: int = 0,
        cohort: int | None = None,
    ):
        self.problem, self.shards, self.seed, self.cohort = problem, shards, seed, cohort
        self.smooth = replace(problem, g=Zero())  # tasks need no g, and so compile once for all
        count = shards.size.shape[0]
        self.names = tuple(names or (f"site-{i}" for i in range(count)))
        self.generations: dict[int, Any] = {}  # the step a state came from -> the state
        self.ledger = {kind: Traffic() for kind in ("agreement", "round", *TASKS)}

    @property
    def sites(self) -> tuple[str, ...]:
        return self.names

    def enter(self, kind: str, up: int, down: int) -> None:
        """Write one exchange into the books."""
        before = self.ledger[kind]
        self.ledger[kind] = Traffic(before.exchanges + 1, before.up + up, before.down + down)

    def ask(self, task: str, payload: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        answers = {}
        for i, name in enumerate(self.names):
            answers[name] = TASKS[task](self.smooth, one_of(self.shards, i), dict(payload))
        up = sum(map(message_bytes, answers.values()))
        self.enter(task, up, len(self.names) * message_bytes(payload))
        return answers

    def visit(
        self, algorithm: Algorithm, call: Call, down: Any, exact: Exact | None = None
    ) -> Answers:
        # Nothing is held against anybody here: all sites are this process.
        before, key = self.recall(algorithm, call.counted), jax.random.key(self.seed)
        who = None
        if self.cohort is not None:
            who = draw_cohort(key, call.round, len(self.names), self.cohort)
        about = (algorithm, self.problem, self.shards, before, down, call.exchange)
        clients, received, info = ask(*about, key=round_key(key, call.round), who=who)
        self.generations = {call.counted: before, call.step: clients}
        sites = self.names if who is None else tuple(self.names[i] for i in who.tolist())
        # Uplinks have the shape of their mean, and the clients' own numbers travel with them.
        up = len(sites) * message_bytes((received.mean, info))
        self.enter("round", up, len(sites) * message_bytes(down))
        return Answers(received, info, sites)

    def recall(self, algorithm: Algorithm, counted: int) -> Any:
        """The clients' states after the last step that was counted."""
        if counted in self.generations:
            return self.generations[counted]
        return start(algorithm, self.problem, self.shards).clients


ask = jax.jit(ask_clients, static_argnames="exchange")


@jax.jit
def one_of(shards: Shard, client: Any) -> Shard:
    return jax.tree.map(lambda a: a[client], shards)
