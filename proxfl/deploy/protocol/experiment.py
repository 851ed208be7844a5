"""What server and sites agree on before the first visit."""

import dataclasses
import re
from functools import cached_property, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from proxfl.core import Algorithm
from proxfl.deploy import wire
from proxfl.deploy.protocol.trees import abstract
from proxfl.engine.blocks import visit
from proxfl.points import as_point, dtype
from proxfl.precision import precision
from proxfl.problem.shards import Problem, Shard


@dataclasses.dataclass(frozen=True)
class Experiment:
    """One run over fixed sites, in the order in which sums are taken.

    `shard` is the site's own at a site. At the server it is any stand-in whose examples have the
    right shape and type, such as one row of `jax.ShapeDtypeStruct`s: it is traced, never read.
    """

    id: str
    algorithm: Algorithm
    problem: Problem
    seed: int
    sites: tuple[str, ...]
    shard: Shard

    def __post_init__(self):
        check_sites(self.sites)
        given, x0 = self.problem, as_point(self.problem.x0)
        with precision(dtype(x0)):
            problem = jax.tree.map(jnp.asarray, Problem(given.g, x0, given.loss, given.batch))
        object.__setattr__(self, "problem", problem)

    @property
    def tag(self) -> bytes:
        return wire.tag(self.id)

    @cached_property
    def formats(self) -> tuple["Format", ...]:
        """The wire format of one round; traced once, since that takes longer than most visits."""
        with precision(self.kind):
            return formats(self)

    @property
    def kind(self) -> np.dtype:
        """The floating type of the run: that of the starting point."""
        return dtype(self.problem.x0)


def check_sites(sites: tuple[str, ...]) -> None:
    if not sites or len(set(sites)) != len(sites):
        raise ValueError(f"sites must be distinct names, at least one, got {sites}.")


def method(algorithm: Algorithm) -> str:
    """An algorithm without its numbers: class, counts and choices, which no message changes."""
    return re.sub(r" at 0x[0-9a-f]+", "", str(jax.tree.structure(algorithm)))


class Format(NamedTuple):
    """The abstract messages of one exchange, and the metrics that come with the uplink."""

    down: Any
    up: Any
    info: dict[str, Any]


def formats(experiment: Experiment) -> tuple[Format, ...]:
    """The wire format of one round, traced from the algorithm itself."""
    algorithm, problem, shard = experiment.algorithm, experiment.problem, abstract(experiment.shard)
    server, state = jax.eval_shape(algorithm.init, problem.g, problem.x0)
    traced = []
    for e, exchange in enumerate(algorithm.exchanges()):
        down = jax.eval_shape(exchange.broadcast, problem.g, server)
        ask = partial(visit, exchange=e)
        reply = jax.eval_shape(ask, algorithm, problem, shard, state, down, jax.random.key(0))
        traced.append(Format(down, reply.up, dict(reply.info)))
    return tuple(traced)


def first_state(algorithm: Algorithm, problem: Problem) -> Any:
    """A client's state before its first reply counts."""
    return jax.tree.map(jnp.asarray, algorithm.init(problem.g, problem.x0)[1])
