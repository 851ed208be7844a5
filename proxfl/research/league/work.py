"""What one round costs a client: gradients and bytes; counted, not declared."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax

from proxfl.core import Algorithm, Objective, Received, expand
from proxfl.engine.messages import round_bytes
from proxfl.engine.round import one_round
from proxfl.problem import Problem, Shard


class Work(NamedTuple):
    exchanges: int  # of messages down and up, in a round
    gradients: float  # per client and round, of a batch each where there are batches
    bytes_up: int  # of a client, in a round
    bytes_down: int


class Counted:
    """A function that counts its calls; only for running without compilation."""

    def __init__(self, function: Callable[..., Any]):
        self.function, self.calls = function, 0

    def __call__(self, *args: Any) -> Any:
        self.calls += 1
        return self.function(*args)


def work(algorithm: Algorithm, problem: Problem, shards: Shard) -> Work:
    """Run one round of one client without compiling, counting what it asks for."""
    f = problem.objective(jax.tree.map(lambda a: a[0], shards))
    grad, full_grad = Counted(f.grad), Counted(f.full_grad)
    watched = Objective(grad, full_grad, f.value)
    g = problem.g
    server, state = algorithm.init(g, problem.x0)

    def ask(state, down, e):
        reply = algorithm.exchanges()[e].client(watched, g, state, down, jax.random.key(0))
        return reply.state, Received(expand(reply.up), 1.0, jax.random.key(1)), reply.info

    with jax.disable_jit():
        one_round(algorithm.exchanges(), g, server, state, ask)
    up, down = round_bytes(algorithm, problem, shards)
    batches = 1 if problem.batch is None else float(shards.size[0]) / problem.batch
    gradients = grad.calls + batches * full_grad.calls
    return Work(len(algorithm.exchanges()), gradients, up, down)
