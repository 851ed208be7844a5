"""What one round costs a client: gradients, proxes, vectors; counted, not declared."""

from typing import NamedTuple

import jax

from proxfl.core import Algorithm, Objective, Received, Regulariser, expand
from proxfl.engine.messages import round_bytes
from proxfl.engine.round import one_round
from proxfl.points import Point, dtype, size
from proxfl.problem import Problem, Shard


class Work(NamedTuple):
    gradients: int  # per client and round
    client_proxes: int
    server_proxes: int
    vectors_up: float  # in units of one model
    vectors_down: float
    bytes_up: int
    bytes_down: int


class Counted(Regulariser):
    """A regulariser that counts the calls of its prox; only for running without compilation."""

    def __init__(self, g: Regulariser):
        self.g, self.proxes = g, 0

    def value(self, x: Point):
        return self.g.value(x)

    def prox(self, x: Point, step):
        self.proxes += 1
        return self.g.prox(x, step)

    def distance(self, x: Point, grad: Point):
        return self.g.distance(x, grad)

    def bound(self, x: Point):
        return self.g.bound(x)


def work(algorithm: Algorithm, problem: Problem, shards: Shard) -> Work:
    """Run one round of one client without compiling, counting what it asks for."""
    shard = jax.tree.map(lambda a: a[0], shards)
    f = problem.objective(shard)
    gradients = 0

    def counted(function):
        def call(*args):
            nonlocal gradients
            gradients += 1
            return function(*args)

        return call

    watched = Objective(counted(f.grad), counted(f.full_grad), f.value)
    server, state = algorithm.init(problem.g, problem.x0)
    at_client, at_server = Counted(problem.g), Counted(problem.g)

    def ask(e, down):
        nonlocal state
        one = algorithm.exchanges()[e]
        reply = one.client(watched, at_client, state, down, jax.random.key(0))
        state = reply.state
        return Received(expand(reply.up), 1.0, jax.random.key(1))

    with jax.disable_jit():
        one_round(algorithm.exchanges(), at_server, server, ask)
    up, down = round_bytes(algorithm, problem, shards)
    model = size(problem.x0) * dtype(problem.x0).itemsize
    return Work(gradients, at_client.proxes, at_server.proxes, up / model, down / model, up, down)
