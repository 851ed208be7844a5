"""With the rows at hand Newton's method goes the same way as exchange by exchange."""

from dataclasses import replace

import numpy as np
import pytest

from proxfl.precision import precision
from proxfl.prox import Zero
from proxfl.tables import Table
from proxfl.train.drivers import together
from proxfl.train.drivers.in_process import InProcess, tell
from proxfl.train.drivers.together import SharedExchange, Wanted, unasked
from proxfl.train.path import ready
from proxfl.train.regulariser import penalty
from proxfl.train.spec import Spec
from proxfl.train.train import settings_of


class OneByOne(SharedExchange):
    """Asks as over a network, and counts."""

    def __init__(self, problem, shards):
        self.problem, self.shards, self.members, self.exchanges = problem, shards, 2, 0

    def __call__(self, asked):
        self.exchanges += 1
        return [tell(self.problem, self.shards, question) for _, question in asked]


@pytest.mark.parametrize("loss", ["poisson", "squared"])
def test_the_exchanges_are_those_that_a_network_would_see(loss):
    """Two models, of which one needs more of them; steps are too long at first."""
    rng = np.random.default_rng(0)
    A = rng.normal(size=(2, 30, 3)) * 3
    y = np.floor(np.exp(A[..., 0]))
    tables = [Table(f"s{i}", "", "y", ("a", "b", "c"), A[i], y[i], "") for i in range(2)]
    with precision(np.float64):
        spec = Spec(target="y", loss=loss, tol=1e-9)
        sites = ready(spec, tables)
        smooth = replace(sites.problem, g=Zero())
        at_hand, asking = InProcess(smooth, [sites.shards]), OneByOne(smooth, sites.shards)
        g = lambda weight: penalty(spec.replace(l1=weight), sites.agreement.features)
        wanted = [Wanted(g(weight), 0, unasked(smooth, asking)) for weight in (0.3, 0.003)]
        about = smooth, wanted, settings_of(spec)
        found, expected = together.solve(*about, at_hand), together.solve(*about, asking)
    assert at_hand.exchanges == at_hand.traffic.exchanges == asking.exchanges
    for one, other in zip(found, expected, strict=True):
        assert one.converged and other.converged
        assert [r.counted for r in one.records] == [r.counted for r in other.records]
        steps = lambda solved: [record.eta for record in solved.records]
        np.testing.assert_allclose(steps(one), steps(other), rtol=1e-12)
        values = [[record.objective for record in s.records] for s in (one, other)]
        np.testing.assert_allclose(*values, rtol=1e-12)
    if loss == "poisson":
        assert not all(record.counted for one in found for record in one.records)
