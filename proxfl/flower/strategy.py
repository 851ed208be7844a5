"""The server of a plain Flower app: any method as a strategy."""

import logging
from collections.abc import Iterable
from typing import Any

import jax
import jax.numpy as jnp
from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp import strategy as flower

from proxfl.core import Algorithm
from proxfl.engine.messages import Exchange
from proxfl.engine.round import compiled_exchanges
from proxfl.engine.visit import received, round_key, weigh
from proxfl.flower.records import (
    ABOUT,
    ARRAYS,
    EXAMPLES,
    METRICS,
    START,
    Agreed,
    model_into,
    model_of,
    record_of,
    tree_of,
)
from proxfl.problem import Problem, client_weights

log = logging.getLogger("flwr")  # so that it is shown among Flower's own lines


class Strategy(flower.Strategy):
    """A method and a penalty in place of `FedAvg`, which goes on to say whom to ask.

    The problem is the one that clients have; its `g` and the shapes of its `x0` matter here, and
    the run starts from the arrays given to `start`. What that returns is the method's model, in
    which zeros are exact; arrays that are not of the problem's model, such as buffers, stay. A
    round is one exchange, so a method with two exchanges takes two of Flower's rounds for one.

    Clients are the nodes of the first round. All weigh the same, or by their rows with "samples",
    which needs the answers of all.
    """

    def __init__(
        self,
        algorithm: Algorithm,
        problem: Problem,
        fedavg: flower.FedAvg | None = None,
        *,
        weights: str = "uniform",
        seed: int = 0,
    ):
        client_weights(weights, [1])  # refuses other words
        self.agreed, self.weights, self.seed = Agreed(algorithm, problem), weights, seed
        self.g = problem.g  # as it was given
        self.fedavg = fedavg or flower.FedAvg()
        self.exchanges = compiled_exchanges(algorithm)
        self.server: Any = None  # not begun
        self.step = 0  # exchanges that count
        self.counted: dict[int, int] = {}  # by node: one more than the last step that counted it
        self.nodes: set[int] = set()
        self.asked: list[int] = []

    @property
    def algorithm(self) -> Algorithm:
        return self.agreed.algorithm

    def summary(self) -> None:
        log.info("\t├──> Method: %s", self.algorithm)
        log.info("\t├──> Penalty: %s", self.g)
        self.fedavg.summary()

    def begin(self, arrays: ArrayRecord, grid: Grid) -> None:
        self.initial, self.start_at = arrays, model_of(arrays, self.agreed.problem.x0)
        server, _ = self.algorithm.init(self.agreed.problem.g, self.start_at)
        self.server = jax.tree.map(jnp.asarray, server)
        self.nodes = set(grid.get_node_ids())

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        chosen = self.fedavg.configure_train(server_round, arrays, config, grid)
        with self.agreed.precision():
            if self.server is None:
                self.begin(arrays, grid)
            e = self.step % len(self.exchanges)
            if e == 0:  # those asked first are asked throughout a round
                chosen = {message.metadata.dst_node_id for message in chosen}
                self.asked = sorted(chosen & self.nodes)
            down = record_of(self.exchanges[e].broadcast(self.agreed.problem.g, self.server))
            return [self.question(node, down, config) for node in self.asked]

    def question(self, node: int, down: ArrayRecord, config: ConfigRecord) -> Message:
        since = self.counted.get(node, 0)
        about = {"step": self.step, "since": since, "seed": self.seed, "agreed": self.agreed.digest}
        content: dict[str, Any] = {ARRAYS: down, "config": config, ABOUT: ConfigRecord(about)}
        if since == 0:  # a client's first state is made from where the run starts
            content[START] = record_of(self.start_at)
        return Message(RecordDict(content), dst_node_id=node, message_type=MessageType.TRAIN)

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        replies = list(replies)
        for message in replies:
            if message.has_error():
                about = message.metadata.src_node_id, message.error.reason
                log.warning("Node %d failed: %s", *about)
        answered = [message for message in replies if not message.has_error()]
        answered.sort(key=number)
        self.check_present(len(answered))
        if not answered:
            return None, None
        with self.agreed.precision():
            metrics = self.learn([message.content for message in answered])
            self.asked = sorted(message.metadata.src_node_id for message in answered)
            self.step += 1
            self.counted |= dict.fromkeys(self.asked, self.step)
            model = self.algorithm.output(self.agreed.problem.g, self.server)
            return model_into(self.initial, model), metrics

    def check_present(self, answered: int) -> None:
        if answered == len(self.nodes):
            return
        if self.algorithm.needs_everyone:
            raise RuntimeError(
                f"{type(self.algorithm).__name__} needs every client in every round, and "
                f"{answered} of {len(self.nodes)} answered; use DecoupledPartial, which has the "
                "same fixed point."
            )
        if self.weights != "uniform":
            raise RuntimeError(
                f"Weights by rows need the answers of all {len(self.nodes)} clients, and "
                f"{answered} came; weigh clients alike."
            )

    def learn(self, contents: list[Any]) -> MetricRecord:
        """The server's part of an exchange, as in a simulation."""
        r, e = divmod(self.step, len(self.exchanges))
        shape, n, kind = self.agreed.shapes[e], len(self.nodes), self.agreed.kind
        told = [(tree_of(c[ARRAYS], shape.up, "An uplink"), metrics(c, shape)) for c in contents]
        stacked = jax.tree.map(lambda *parts: jnp.stack(parts), *told)
        sizes = [int(content[METRICS][EXAMPLES]) for content in contents]
        parts = sizes if self.weights == "samples" else [1] * n
        weights = client_weights(self.weights, parts)[: len(sizes)]
        total, share = weigh(stacked, jnp.asarray(weights, kind))
        key = round_key(jax.random.key(self.seed), r, e, n)
        got, info = received(total, share, key)
        self.server = self.exchanges[e].server(self.agreed.problem.g, self.server, got)
        floats = [a for a in jax.tree.leaves(self.server) if jnp.issubdtype(a.dtype, jnp.inexact)]
        if not all(bool(jnp.isfinite(a).all()) for a in floats):
            raise ArithmeticError(
                f"{type(self.algorithm).__name__} diverged: after round {r + 1} its model is no "
                "longer finite; lower its step."
            )
        means = {name: float(value) for name, value in info.items()}
        return MetricRecord({EXAMPLES: sum(sizes), **means})

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        return self.fedavg.configure_evaluate(server_round, arrays, config, grid)

    def aggregate_evaluate(
        self, server_round: int, replies: Iterable[Message]
    ) -> MetricRecord | None:
        return self.fedavg.aggregate_evaluate(server_round, replies)


def number(message: Any) -> int:
    """The place of a client in sums, so that they do not depend on who answers first."""
    return int(message.content[ABOUT]["client"])


def metrics(content: Any, shape: Exchange) -> dict[str, Any]:
    """What only the client could see."""
    found = content[METRICS]
    return {name: jnp.asarray(found[name], a.dtype) for name, a in shape.info.items()}
