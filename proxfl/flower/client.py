"""A client of a plain Flower app: its local steps, with its memory in the context's state."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
from flwr.app import ConfigRecord, Context, Message, MetricRecord, RecordDict

from proxfl.core import Algorithm
from proxfl.engine.checks import check
from proxfl.engine.visit import round_key, visit
from proxfl.flower.records import (
    ABOUT,
    ARRAYS,
    EXAMPLES,
    METRICS,
    START,
    Agreed,
    record_of,
    tree_of,
)
from proxfl.problem import Problem, shards_of

STATE = "proxfl-state-after-"


@dataclass(frozen=True)
class Client:
    """The method and the problem of the server's `Strategy`; of `x0` only shapes and type matter.

    Make it once, at the top of the app's module: what is compiled for it is used again as long as
    the process lives.
    """

    algorithm: Algorithm
    problem: Problem

    @cached_property
    def agreed(self) -> Agreed:
        return Agreed(self.algorithm, self.problem)

    def train(self, message: Message, context: Context, rows: Any) -> Message:
        """The reply to a message of the strategy's, out of this client's rows.

        Rows are a pytree of arrays, as for `simulate`: for a module, inputs and target.
        """
        content: Any = message.content
        about, agreed = content[ABOUT], self.agreed
        if about["agreed"] != agreed.digest:
            raise ValueError(
                "The server's method, penalty, batch or model is another than this client's; make "
                "both from the same algorithm and problem."
            )
        with agreed.precision():
            shards = shards_of([rows], dtype=agreed.kind)
            shard = jax.tree.map(lambda a: a[0], shards)
            step, since = int(about["step"]), int(about["since"])
            if since == 0:
                check(self.algorithm, agreed.problem, shards, rounds=1, cohort=None)
            r, e = divmod(step, len(agreed.shapes))
            state, number = recalled(agreed, content, context, since), place(context)
            down = tree_of(content[ARRAYS], agreed.shapes[e].down, "The message down")
            key = round_key(jax.random.key(int(about["seed"])), r, e, number)
            reply = visit(self.algorithm, agreed.problem, shard, state, down, key, exchange=e)
            remember(context, since, step + 1, reply.state)
            metrics = {name: float(value) for name, value in reply.info.items()}
            answer = {
                ARRAYS: record_of(reply.up),
                METRICS: MetricRecord({EXAMPLES: int(shard.size), **metrics}),
                ABOUT: ConfigRecord({"client": number}),
            }
        return Message(RecordDict(answer), reply_to=message)


def place(context: Context) -> int:
    """The client's number, by which its batches are drawn and sums are ordered."""
    if "partition-id" not in context.node_config:
        raise ValueError(
            "The node has no partition-id; start it with --node-config 'partition-id=0', another "
            "number for each."
        )
    return int(context.node_config["partition-id"])


def recalled(agreed: Agreed, content: Any, context: Context, since: int) -> Any:
    """The state after the last step that the server counted, which need not be the last one."""
    g, x0 = agreed.problem.g, agreed.problem.x0
    first = jax.eval_shape(agreed.algorithm.init, g, x0)[1]
    if since == 0:
        start = tree_of(content[START], x0, "The starting point")
        return jax.tree.map(jnp.asarray, agreed.algorithm.init(g, start)[1])
    if f"{STATE}{since}" not in context.state:
        raise ValueError(
            "The memory of this client is lost, as its node was started anew; start a new run."
        )
    return tree_of(context.state[f"{STATE}{since}"], first, "The client's memory")


def remember(context: Context, since: int, now: int, state: Any) -> None:
    """Keep the new state, and the one before, in case that the reply is lost."""
    kept = {f"{STATE}{since}", f"{STATE}{now}"}
    for name in [name for name in context.state if name.startswith(STATE) and name not in kept]:
        del context.state[name]
    context.state[f"{STATE}{now}"] = record_of(state)
