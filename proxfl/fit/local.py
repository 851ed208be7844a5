"""A federation inside one process: the sites' shards, stacked."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import jax

from proxfl.core import Algorithm
from proxfl.engine import message_bytes, round_key
from proxfl.federation import Answers, Call, Federation
from proxfl.problem import Problem, Shard
from proxfl.rounds import ask_clients, start
from proxfl.tasks import TASKS


class LocalFederation(Federation):
    """Keeps every client's state by step, two generations deep, as real sites do."""

    def __init__(
        self, problem: Problem, shards: Shard, names: Sequence[str] | None = None, seed: int = 0
    ):
        self.problem, self.shards, self.seed = problem, shards, seed
        count = shards.size.shape[0]
        self.names = tuple(names or (f"site-{i}" for i in range(count)))
        self.generations: dict[int, Any] = {}  # the step a state came from -> the state
        self.bytes_up = self.bytes_down = 0  # what would have crossed the network, all sites

    @property
    def sites(self) -> tuple[str, ...]:
        return self.names

    def ask(self, task: str, payload: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        answers = {}
        for i, name in enumerate(self.names):
            shard = jax.tree.map(lambda a, i=i: a[i], self.shards)
            answers[name] = TASKS[task](self.problem, shard, dict(payload))
            self.bytes_down += message_bytes(payload)
            self.bytes_up += message_bytes(answers[name])
        return answers

    def visit(self, algorithm: Algorithm, call: Call, down: Any) -> Answers:
        before = self.recall(algorithm, call.counted)
        key = round_key(jax.random.key(self.seed), call.round, call.exchange)
        clients, received, info = exchange(
            algorithm, self.problem, self.shards, before, down, key, call.exchange
        )
        self.generations = {call.counted: before, call.step: clients}
        # Uplinks have the shape of their mean, and the clients' own numbers travel with them.
        self.bytes_down += len(self.names) * message_bytes(down)
        self.bytes_up += len(self.names) * message_bytes((received.mean, info))
        return Answers(received, info, self.names)

    def recall(self, algorithm: Algorithm, counted: int) -> Any:
        """The clients' states after the last step that was counted."""
        if counted in self.generations:
            return self.generations[counted]
        return start(algorithm, self.problem, self.shards).clients


@partial(jax.jit, static_argnames="exchange")
def exchange(algorithm, problem, shards, clients, down, key, exchange):
    return ask_clients(algorithm, problem, shards, clients, down, key, None, exchange, None)
