"""What server and sites agree on before the first visit."""

import dataclasses
import hashlib
import re
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from proxfl.core import Algorithm
from proxfl.engine.messages import Exchange, messages
from proxfl.losses import as_loss
from proxfl.points import as_point, dtype
from proxfl.precision import precision
from proxfl.problem import Problem, Shard
from proxfl.storage.checkpoint import content_of
from proxfl.train.drivers import fixed, noisy
from proxfl.train.drivers.adaptive import algorithm_for
from proxfl.train.privacy import noise_of
from proxfl.train.spec import Spec
from proxfl.train.train import settings_of


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
        with precision(dtype(as_point(self.problem.x0))):
            object.__setattr__(self, "problem", self.problem.normalised())
            self.refuse_rows()

    def refuse_rows(self) -> None:
        """Refuse, in a sentence, a loss that has something against the rows of a site."""
        examples, leaves = self.shard.examples, jax.tree.leaves(self.shard)
        if any(isinstance(leaf, jax.ShapeDtypeStruct) for leaf in leaves):
            return
        stacked = jax.tree.map(lambda a: a[None], examples)
        if wrong := as_loss(self.problem.loss).complaint(self.problem.x0, stacked):
            raise ValueError(wrong)

    @cached_property
    def messages(self) -> tuple[Exchange, ...]:
        """The wire format of one round; traced once, since that takes longer than most visits."""
        with precision(self.kind):
            return messages(self.algorithm, self.problem, self.shard)

    @cached_property
    def rows(self) -> bytes:
        """What names the rows of the shard; made once, since there may be many."""
        return hashlib.sha256(content_of(self.shard)).digest()

    @property
    def kind(self) -> np.dtype:
        """The floating type of the run: that of the starting point."""
        return dtype(self.problem.x0)


def check_sites(sites: tuple[str, ...]) -> None:
    if not sites or len(set(sites)) != len(sites):
        raise ValueError(f"sites must be distinct names, at least one, got {sites}.")


def method_of(spec: Spec) -> Algorithm:
    """The method a spec asks for; its steps are the server's to choose, round by round."""
    settings = settings_of(spec)
    if noise_of(spec) is not None:
        return noisy.method(1.0)
    if fixed.applies(spec):
        return fixed.method(fixed.named(spec), settings, 1.0, 1.0)
    return algorithm_for(settings, 1.0, 1.0)


def method(algorithm: Algorithm) -> str:
    """An algorithm without its numbers: class, counts and choices, which no message changes."""
    return re.sub(r" at 0x[0-9a-f]+", "", str(jax.tree.structure(algorithm)))


def first_state(algorithm: Algorithm, problem: Problem) -> Any:
    """A client's state before its first reply counts."""
    return jax.tree.map(jnp.asarray, algorithm.init(problem.g, problem.x0)[1])
