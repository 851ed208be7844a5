"""The one list of regularisers: adding a case buys every law in tests/prox."""

from dataclasses import dataclass
from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from jax.flatten_util import ravel_pytree

from proxfl.core import Regulariser
from proxfl.points import Point, Tree, size
from proxfl.prox import (
    L1,
    MCP,
    SCAD,
    Box,
    GroupL2,
    L1Ball,
    L2Ball,
    L2Norm,
    LInf,
    LInfBall,
    NonNegative,
    Nuclear,
    OnLeaves,
    Relu,
    Ridge,
    Scaled,
    Shifted,
    Simplex,
    SquaredL2,
    SumOverLeaves,
    TotalVariation,
    Zero,
    elastic_net,
    together,
)

EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Case:
    """A regulariser, and a point of the shape it is tried on.

    The laws are stated for flat NumPy vectors; `point` gives them the shape that g expects.
    """

    name: str
    g: Regulariser
    like: Point

    def value(self, x: np.ndarray) -> float:
        return float(value(self.g, self.like, x))

    def prox(self, x: np.ndarray, step: float) -> np.ndarray:
        return np.asarray(prox(self.g, self.like, x, step))

    def distance(self, x: np.ndarray, grad: np.ndarray) -> float:
        return float(distance(self.g, self.like, x, grad))

    @cached_property
    def bound(self) -> float:
        return float(self.g.bound(self.like))

    @cached_property
    def step_limit(self) -> float:
        return float(self.g.step_limit)

    @cached_property
    def longest(self) -> float:
        """A step well inside the range where the prox is single-valued."""
        return min(4.0, 0.9 * self.step_limit)

    @cached_property
    def finite(self) -> bool:
        """Whether g is finite everywhere; the point tried is in none of the sets."""
        return np.isfinite(self.value(np.linspace(-9.0, 10.0, self.size)))

    @cached_property
    def size(self) -> int:
        return size(self.like)

    def point(self, x: np.ndarray) -> Point:
        return shaped(self.like, jnp.asarray(x))

    def points(self) -> st.SearchStrategy[np.ndarray]:
        """Quarters make ties and zeros; a finer grid makes the rest, but nothing minute."""
        grid = lambda most, unit: arrays(int, self.size, elements=st.integers(-most, most)).map(
            lambda x: x / unit
        )
        return grid(12, 4) | grid(2**23, 2**20)

    def steps(self) -> st.SearchStrategy[float]:
        return st.floats(2.0**-6, self.longest)


def shaped(like, x):
    return ravel_pytree(like)[1](x)


def flat(x):
    return ravel_pytree(x)[0]


# Compiled once for each kind of regulariser and shape, however many laws call them.
value = jax.jit(lambda g, like, x: g.value(shaped(like, x)))
prox = jax.jit(lambda g, like, x, step: flat(g.prox(shaped(like, x), step)))
distance = jax.jit(lambda g, like, x, grad: g.distance(shaped(like, x), shaped(like, grad)))

vector, matrix = jnp.zeros(8), jnp.zeros((4, 3))
network = Tree({"first": {"kernel": jnp.zeros((3, 2)), "bias": jnp.zeros(2)}, "last": jnp.zeros(3)})
labels = jnp.array([0, 0, 1, 1, 1, -1, 2, 2])
ramp = jnp.array([0.0, 0.5, 1.0, 0.0, 2.0, 0.25, 1.5, 1.0])
centre = jnp.array([1.0, -0.5, 0.0, 3.0, 0.25, -2.0, 1.0, 1.0])
groups = GroupL2.of(labels, 0.6)

regularisers = [
    Case("zero", Zero(), vector),
    Case("ridge", SquaredL2(0.7), matrix),
    Case("l1", L1(0.7), vector),
    Case("l1_of_matrix", L1(0.7), matrix),
    Case("l1_weighted", L1(ramp), vector),
    Case("l2", L2Norm(1.3), vector),
    Case("linf", LInf(1.3), vector),
    Case("linf_of_matrix", LInf(0.4), matrix),
    Case("relu", Relu(0.7), vector),
    Case("groups", groups, vector),
    Case("groups_weighted", GroupL2.of(labels, 0.5, [1.0, 0.0, 3.0]), vector),
    Case("groups_of_matrix", GroupL2.of(np.arange(12).reshape(4, 3) % 3, 0.5), matrix),
    Case("nuclear", Nuclear(0.9), matrix),
    Case("nuclear_wide", Nuclear(0.9), matrix.T),
    Case("variation", TotalVariation(0.6), vector),
    Case("variation_weighted", TotalVariation(ramp[1:]), vector),
    Case("box", Box(-0.5, 1.25), vector),
    Case("box_uneven", Box(-ramp, jnp.inf), vector),
    Case("nonneg", NonNegative(), matrix),
    Case("simplex", Simplex(), vector),
    Case("simplex_large", Simplex(7.0), matrix),
    Case("l1_ball", L1Ball(2.0), vector),
    Case("l2_ball", L2Ball(2.0), matrix),
    Case("linf_ball", LInfBall(0.75), vector),
    Case("scaled", Scaled(LInf(1.3), 0.4), vector),
    Case("shifted", Shifted(L1(0.7), centre), vector),
    Case("groups_ridge", Ridge(groups, 0.3), vector),
    Case("elastic_net", elastic_net(0.5, 0.3), vector),
    Case("l1_nonneg", together(L1(0.7), NonNegative()), vector),
    Case("l1_box", together(L1(ramp), Box(0.25, 2.0)), vector),
    Case("l1_box_ridge", together(L1(0.4), Box(-1.0, 2.0), SquaredL2(0.5)), vector),
    Case("sparse_groups", together(L1(0.4), groups), vector),
    Case("nonneg_groups", together(NonNegative(), groups), vector),
    Case("nonneg_sparse_groups", together(NonNegative(), L1(0.4), groups), vector),
    Case("fused_lasso", together(L1(0.4), TotalVariation(0.6)), vector),
    Case("fused_box", together(Box(-0.5, 1.0), TotalVariation(0.6)), vector),
    Case("fused_nonneg", together(NonNegative(), L1(0.3), TotalVariation(0.6)), vector),
    Case("on_kernels", OnLeaves(L1(0.7), ("*kernel",)), network),
    Case("per_leaf", SumOverLeaves.of({"*/kernel": Nuclear(0.9), "last": Simplex()}), network),
    Case("whole_network", Ridge(L2Norm(1.3), 0.2), network),
    Case("mcp", MCP(0.8, 2.5), vector),
    Case("scad", SCAD(0.8), matrix),
    Case("mcp_ridge", Ridge(MCP(0.8, 2.5), 0.2), vector),
]
