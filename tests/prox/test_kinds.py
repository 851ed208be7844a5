"""What single regularisers promise beyond the laws they share."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from proxfl.points import Tree
from proxfl.prox import (
    L1,
    MCP,
    SCAD,
    Box,
    GroupL2,
    L2Norm,
    LInf,
    NonNegative,
    Nuclear,
    OnLeaves,
    Relu,
    Ridge,
    Simplex,
    SquaredL2,
    SumOverLeaves,
    Then,
    TotalVariation,
    Zero,
    together,
)
from proxfl.prox.levels import level
from proxfl.prox.units import Curve, Ellipsoids
from tests.cases_prox import EPS


@pytest.mark.parametrize("g", [MCP(0.8, 2.5), SCAD(0.8, 3.7)], ids=str)
@pytest.mark.parametrize("fraction", [0.05, 0.5, 0.95])
def test_a_folded_prox_is_the_best_of_a_dense_grid(g, fraction):
    s, grid = fraction * g.step_limit, np.linspace(-6, 6, 240_001)
    penalty = np.asarray(jax.vmap(lambda u: g.value(u[None]))(jnp.asarray(grid)))
    points = np.linspace(-5, 5, 41)
    best = [grid[np.argmin(s * penalty + (grid - x) ** 2 / 2)] for x in points]
    # The grid is spaced by 5e-5; ties of rounded costs add as much at the steepest prox.
    np.testing.assert_allclose(g.prox(jnp.asarray(points), s), best, atol=1e-4)


@pytest.mark.parametrize("g", [MCP(0.8, 2.5), SCAD(0.8, 3.7)], ids=str)
def test_a_folded_penalty_leaves_large_entries_alone(g):
    x = jnp.array([5.0, -7.0, 0.1])
    np.testing.assert_array_equal(g.prox(x, 1.0), jnp.array([5.0, -7.0, 0.0]))


def test_a_ridge_makes_a_weakly_convex_penalty_convex():
    assert float(Ridge(MCP(1.0, 2.0), 0.25).step_limit) == 4.0
    assert jnp.isinf(Ridge(MCP(1.0, 2.0), 0.5).step_limit)
    assert jnp.isinf(Ridge(L1(1.0), 0.0).step_limit)


@pytest.mark.parametrize("part", [1e-9, 1e-3, 0.3])
def test_a_step_leaves_a_matrix_the_rank_of_what_is_longer(part):
    """Whether it is a short part of the largest singular value or not."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        low = rng.normal(size=(8, 2)) @ rng.normal(size=(2, 5))
        step = part * np.linalg.svd(low)[1][1]
        found = Nuclear(1.0).prox(jnp.asarray(low + 1e-2 * step * rng.normal(size=(8, 5))), step)
        assert np.linalg.matrix_rank(found) == 2


def test_matrices_of_a_batch_are_decomposed_one_after_the_other():
    """Two batches at once would wait for each other's threads for ever."""
    step = jax.jit(jax.vmap(lambda x: Nuclear(1.0).prox(x, 0.1)))
    several = jnp.asarray(np.random.default_rng(0).normal(size=(3, 5, 4)))
    assert 'num_batch_dims = "0"' in (text := step.lower(several).as_text())
    assert 'num_batch_dims = "1"' not in text
    for one, found in zip(several, step(several), strict=True):
        np.testing.assert_allclose(found, Nuclear(1.0).prox(one, 0.1), atol=20 * EPS)


def test_groups_default_to_the_root_of_their_size():
    g = GroupL2.of([0, 0, 0, 0, 1, -1], 2.0)
    np.testing.assert_allclose(g.factors, [2.0, 1.0])
    assert float(g.value(jnp.array([1.0, 1.0, 1.0, 1.0, 3.0, 9.0]))) == pytest.approx(14.0)


def test_one_group_of_all_coordinates_is_the_norm():
    x = jnp.array([3.0, -4.0, 0.0])
    np.testing.assert_allclose(
        GroupL2.of([0, 0, 0], 2.0, [1.0]).prox(x, 1.0), L2Norm(2.0).prox(x, 1.0), rtol=4 * EPS
    )


@pytest.mark.parametrize(
    ("labels", "factors", "words"),
    [
        ([0, 1, 2], [1.0, 1.0], "group label 2 is out of range; use 0 to 1, or -1 for none"),
        ([0, -2], None, "group label -2 is out of range"),
        ([0.5, 1.0], None, "whole numbers"),
    ],
)
def test_wrong_group_labels_are_refused_in_a_sentence(labels, factors, words):
    with pytest.raises(ValueError, match=words):
        GroupL2.of(labels, 1.0, factors)


def test_a_box_must_have_its_ends_in_order():
    assert Box.of(0.0, 1.0) == Box(0.0, 1.0)
    with pytest.raises(ValueError, match="lo <= hi"):
        Box.of(jnp.array([0.0, 2.0]), 1.0)


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: L1(-1.0), "L1.weight must be non-negative and finite, got -1.0"),
        (lambda: Relu(np.array([1.0, -1.0])), "Relu.weight must be non-negative"),
        (lambda: Simplex(0.0), "Simplex.radius must be positive"),
        (lambda: MCP(1.0, -2.0), "MCP.gamma must be positive"),
    ],
)
def test_a_value_out_of_range_is_refused_in_a_sentence(build, words):
    with pytest.raises(ValueError, match=words):
        build()


def test_variation_of_a_single_entry_or_none_penalised_changes_nothing():
    for x in (jnp.array([3.0]), jnp.array([3.0, -1.0, 2.0])):
        np.testing.assert_array_equal(TotalVariation(0.0).prox(x, 1.0), x)
    np.testing.assert_array_equal(TotalVariation(5.0).prox(x[:1], 1.0), x[:1])


def test_a_heavy_variation_leaves_the_mean_of_each_linked_run():
    x = jnp.array([1.0, 2.0, 6.0, -1.0, 5.0, 2.0])
    g = TotalVariation(jnp.array([100.0, 100.0, 0.0, 100.0, 100.0]))
    np.testing.assert_allclose(g.prox(x, 1.0), [3.0, 3.0, 3.0, 2.0, 2.0, 2.0], rtol=8 * EPS)


def test_variation_is_exact_on_a_long_walk():
    """Zero distance certifies the prox; its entries reach about 100, its length about 1e4."""
    x = jnp.asarray(np.cumsum(np.random.default_rng(0).normal(size=3000)))
    g = TotalVariation(1.0)
    p = jax.jit(g.prox)(x, 20.0)
    assert g.distance(p, (p - x) / 20.0) <= 64 * EPS * float(jnp.linalg.norm(x))


def test_largest_entries_are_cut_to_exact_ties():
    p = LInf(1.0).prox(jnp.array([0.1, 3.3, -3.1, 3.2]), 1.0)
    assert jnp.sum(jnp.abs(p) == jnp.max(jnp.abs(p))) == 3


def test_projection_on_a_simplex_survives_a_large_common_part():
    x = jnp.array([0.3, 0.1, -0.2, 0.25])
    g = Simplex()
    # Adding 2^20 to the entries rounds them by up to 2^-33.
    np.testing.assert_allclose(g.prox(x + 2.0**20, 1.0), g.prox(x, 1.0), atol=2.0**-32)
    assert jnp.isfinite(g.value(g.prox(x + 2.0**20, 1.0)))


def test_the_level_solves_its_equation():
    rng = np.random.default_rng(5)
    for _ in range(20):
        v, free = jnp.asarray(rng.normal(size=9)), jnp.asarray(rng.random(9) < 0.3)
        total = float(rng.random())
        left = v - level(v, total, free)
        left = jnp.where(free, left, jnp.maximum(left, 0.0))
        assert float(jnp.sum(left)) == pytest.approx(total, abs=64 * EPS)


def test_together_finds_the_order_itself():
    groups, x = GroupL2.of([0, 0, 1, 1]), jnp.array([2.0, -0.5, 1.5, 3.0])
    parts = [L1(0.3), NonNegative(), groups]
    first = together(*parts)
    assert isinstance(first, Then)
    for other in (together(*parts[::-1]), together(parts[1], parts[0], parts[2])):
        np.testing.assert_array_equal(other.prox(x, 1.0), first.prox(x, 1.0))


def test_together_makes_ridges_of_squares_and_drops_zeros():
    assert together() == Zero()
    assert together(L1(0.5), Zero()) == L1(0.5)
    assert together(SquaredL2(0.5), SquaredL2(1.0), L1(0.5)) == Ridge(L1(0.5), 1.5)
    assert together(Nuclear(1.0), SquaredL2(0.5)) == Ridge(Nuclear(1.0), 0.5)


def test_together_puts_a_part_into_another_that_can_hold_it():
    x = jnp.array([2.0, -0.5, 0.25, 3.0])
    both = together(NonNegative(), Box(-1.0, 2.5))
    np.testing.assert_array_equal(both.prox(x, 1.0), np.clip(x, 0.0, 2.5))
    assert together(Simplex(2.0), NonNegative()) == Simplex(2.0)
    unit, curve = np.array([1.0, 2.0, 0.5, 1.0]), np.array([0.1, 0.2, 0.3, 0.4])
    groups = Ellipsoids(np.array([0, 0, 1, 1]), np.ones(2), unit, 0 * unit, 0.6)
    both = together(Curve(curve), groups)
    assert float(both.value(x)) == pytest.approx(float(groups.value(x) + Curve(curve).value(x)))


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ((NonNegative(), Box(-2.0, -1.0)), "no coefficient is in the box and not negative"),
        ((L1(1.0), Nuclear(1.0)), "Nuclear composes with nothing but SquaredL2"),
        ((Box(0.0, 1.0), GroupL2.of([0, 0])), "Box and GroupL2 have no known joint prox"),
        ((TotalVariation(1.0), L1(1.0), GroupL2.of([0, 0])), "TotalVariation and GroupL2"),
        ((TotalVariation(1.0), L1(jnp.ones(2))), "treats all entries alike"),
        ((GroupL2.of([0, 0]), GroupL2.of([0, 1])), "GroupL2 and GroupL2"),
    ],
)
def test_sums_without_a_known_prox_are_refused_in_a_sentence(parts, words):
    with pytest.raises(ValueError, match=words):
        together(*parts)


def test_leaves_that_no_pattern_chooses_are_free():
    x = Tree({"kernel": jnp.array([1.0, -3.0]), "bias": jnp.array([0.5])})
    p = OnLeaves(L1(1.0), ("kernel",)).prox(x, 2.0)
    np.testing.assert_array_equal(p.params["kernel"], [0.0, -1.0])
    np.testing.assert_array_equal(p.params["bias"], [0.5])


def test_the_first_pattern_that_fits_a_leaf_has_it():
    x = Tree({"a": jnp.array([3.0]), "b": jnp.array([3.0])})
    g = SumOverLeaves.of({"a": L1(1.0), "*": L1(2.0)})
    for prox in (lambda g: g.prox(x, 1.0), jax.jit(lambda g: g.prox(x, 1.0))):
        p = prox(g).params
        assert float(p["a"][0]) == 2.0 and float(p["b"][0]) == 1.0


def test_a_pattern_that_fits_no_leaf_is_refused_in_a_sentence():
    x = Tree({"kernel": jnp.zeros(2)})
    with pytest.raises(ValueError, match="no leaf is named 'kernl'; the leaves are kernel"):
        OnLeaves(L1(1.0), ("kernl",)).prox(x, 1.0)
