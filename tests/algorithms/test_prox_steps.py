"""No method gives a prox a longer step than it announces: weakly convex g depend on it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import proxfl as px
from proxfl.core import Regulariser
from proxfl.engine.round import simulated_round
from proxfl.prox import L1
from proxfl.pytree import pytree
from tests import cases

LONGEST = [0.0]


@pytree
class Spied(Regulariser):
    """l1, remembering the longest step it was given."""

    inner: L1

    def value(self, x):
        return self.inner.value(x)

    def prox(self, x, step):
        jax.debug.callback(lambda s: LONGEST.append(float(np.max(s))), jnp.asarray(step))
        return self.inner.prox(x, step)

    def distance(self, x, grad):
        return self.inner.distance(x, grad)

    def bound(self, x):
        return self.inner.bound(x)


@pytest.mark.parametrize("case", cases.algorithms, ids=lambda c: c.name)
def test_no_prox_step_is_longer_than_the_method_says(case):
    plain = cases.problem()
    problem = px.Problem(g=Spied(plain.g), x0=jnp.asarray(plain.x0), loss=plain.loss)
    shards = px.shards_of(cases.sites())
    run, LONGEST[:] = px.start(case.algorithm, problem, shards), [0.0]
    for _ in range(2):
        run, _ = simulated_round(case.algorithm, problem, shards, run)
    case.algorithm.output(problem.g, run.server)
    jax.effects_barrier()
    assert not case.exact or max(LONGEST) > 0  # what knows nothing of g calls no prox
    assert max(LONGEST) <= case.algorithm.longest_prox * (1 + 1e-12)
