"""Padding never counts: a loss that couples a site's rows is told which of them are real.

Cox's partial likelihood, stratified by site, is the example: a row's loss depends on all rows of
its site that are still at risk.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize

import proxfl as px
from proxfl.engine.checks import bad_padding
from proxfl.problem import stack
from proxfl.prox import Zero

TRUTH = np.array([0.5, -1.0, 0.8])
SIZES = (7, 23, 12)


def sites():
    rng = np.random.default_rng(3)
    made = []
    for rows in SIZES:
        A = rng.normal(size=(rows, 3))
        time = rng.exponential(np.exp(-A @ TRUTH))
        made.append((A, time, rng.random(rows) < 0.7))
    return made


def cox(x, batch, weights):
    """The mean over real rows of their negative partial log-likelihood, no ties."""
    A, time, event = batch
    z, real = A @ x, weights > 0
    at_risk = (time[None, :] >= time[:, None]) & real[None, :]
    risk = jax.nn.logsumexp(jnp.where(at_risk, z[None, :], -jnp.inf), axis=1)
    return jnp.sum(jnp.where(event & real, weights * (risk - z), 0.0))


def cox_that_counts_copies(x, batch):
    A, time, event = batch
    z = A @ x
    risk = jax.nn.logsumexp(jnp.where(time[None, :] >= time[:, None], z[None, :], -jnp.inf), axis=1)
    return jnp.where(event, risk - z, 0.0)


def pooled(x):
    """The same by the definition, row by row, without any padding."""
    total = 0.0
    for A, time, event in sites():
        z = A @ x
        terms = [np.log(np.exp(z[time >= time[i]]).sum()) - z[i] for i in np.flatnonzero(event)]
        total += sum(terms)
    return total / sum(SIZES)


def test_a_stratified_cox_model_is_that_of_the_definition():
    problem = px.Problem(Zero(), np.zeros(3), px.SiteLoss(cox))
    found = px.simulate(px.Decoupled(0.4, 1.0, 1), problem, sites(), rounds=2000, weights="samples")
    expected = minimize(pooled, np.zeros(3), tol=1e-12).x
    np.testing.assert_allclose(found.model, expected, atol=1e-6)


def test_a_loss_of_rows_that_reads_padding_is_refused():
    problem = px.Problem(Zero(), np.zeros(3), cox_that_counts_copies)
    with pytest.raises(ValueError, match="px.SiteLoss"):
        px.simulate(px.Decoupled(0.1), problem, sites(), rounds=1)


def test_a_loss_of_rows_on_padded_sites_is_accepted():
    def squared(x, batch):
        A, time, _ = batch
        return (A @ x - time) ** 2 / 2

    problem = px.Problem(Zero(), np.zeros(3), squared)
    px.simulate(px.Decoupled(0.1), problem, sites(), rounds=1)


def test_a_loss_of_a_site_takes_no_minibatches():
    problem = px.Problem(Zero(), np.zeros(3), px.SiteLoss(cox), batch=2)
    with pytest.raises(ValueError, match="all of its rows"):
        px.simulate(px.Decoupled(0.1), problem, sites(), rounds=1)


@pytest.mark.parametrize("extra", [0, 5])
def test_padding_changes_neither_value_nor_gradient(extra):
    (site, *_), problem = sites(), px.Problem(Zero(), np.zeros(3), px.SiteLoss(cox))
    alone = jax.tree.map(lambda a: a[0], px.shards_of([site]))
    padded = jax.tree.map(lambda a: a[0], stack([site], np.ones(1), SIZES[0] + extra, np.float64))
    x = jnp.asarray(TRUTH)
    f, h = problem.objective(alone), problem.objective(padded)
    np.testing.assert_allclose(h.value(x), f.value(x), rtol=1e-14)
    np.testing.assert_allclose(h.full_grad(x), f.full_grad(x), rtol=1e-12, atol=1e-15)


COUPLED = {
    "centred": lambda z, y: (z - z.mean() - y) ** 2,
    "variance": lambda z, y: (z - y) ** 2 + jnp.var(z),
    "shifted": lambda z, y: (z - jnp.roll(z, 1) - y) ** 2,
    "mean to the fourth": lambda z, y: (z - y) ** 2 + jnp.mean(z) ** 4,
    "in the gradient alone": lambda z, y: (z - y) ** 2 + z.mean() - jax.lax.stop_gradient(z.mean()),
}


@pytest.mark.parametrize("sizes", [(1, 5, 10), (95, 100)], ids=str)
@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("name", [*COUPLED, "of rows", "that cancels"])
def test_just_the_losses_that_compare_rows_are_refused(name, kind, sizes):
    rng = np.random.default_rng(0)
    features = [rng.normal(size=(rows, 3)).astype(kind) + kind(1) for rows in sizes]
    if name == "that cancels":
        features = [A - A.mean(axis=0) for A in features]
    made = [(A, rng.normal(size=len(A)).astype(kind)) for A in features]
    by_rows = {"of rows": lambda z, y: (z - y) ** 2, "that cancels": lambda z, y: z}
    of_scores = (COUPLED | by_rows)[name]
    loss = lambda x, batch: of_scores(batch[0] @ x, batch[1])
    problem = px.Problem(Zero(), np.zeros(3, kind), loss)
    shards = px.shards_of(made, "samples", kind)
    found = bad_padding(problem.normalised(), shards)
    assert (found is not None and "px.SiteLoss" in found) == (name in COUPLED), found
