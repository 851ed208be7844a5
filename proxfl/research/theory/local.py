"""How long a round may step near the solution: the spectral radius of the linearised round.

Theorem E of docs/theory.md. Let x* be a solution at which every prox of a round is differentiable,
as it is for a polyhedral g and a nondegenerate x*. With P = p - x*, C_i the correction less that at
x*, H_i the Hessians and J_s the derivative of prox_{s g} at x* - s grad f(x*), a round is

    Z_{i,t} = J_{t eta} (P - eta sum_{s<t} (H_i Z_{i,s} + C_i)),    U_i = mean_t H_i Z_{i,t},
    V = sum_i w_i U_i,    P+ = J_{eta_round} (P - eta_round V),    C_i+ = V - U_i

up to terms of second order. All of it lives in the range of J, which is the same for every step. If
the spectral radius of this map is below 1, runs that come near x* converge to it linearly; if it is
above 1, they leave. Far from x* nothing follows.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
from scipy.sparse.linalg import eigs

from proxfl.engine.blocks import mean_gradient
from proxfl.points import Point
from proxfl.problem import Problem, Shard
from proxfl.research.theory.constants import hessians

DENSE = 200  # unknowns of the linearised round up to which all its eigenvalues are computed
LARGEST = 3000  # and up to which the largest are, by Arnoldi's method
LONGEST = 100.0  # step looked at, in units of 1 over the curvature of the mean loss


class Local(NamedTuple):
    """A problem at its solution, in coordinates of the active subspace."""

    hessians: np.ndarray  # [clients, k, k]
    weights: np.ndarray
    derivative: Callable[[np.ndarray], np.ndarray]  # of the prox: [steps] to [steps, k, k]

    @property
    def size(self) -> int:
        clients, k, _ = self.hessians.shape
        return (clients + 1) * k

    @property
    def curvature(self) -> float:
        """The largest curvature of the mean loss on the active subspace."""
        return float(np.linalg.eigvalsh(np.tensordot(self.weights, self.hessians, axes=1))[-1])

    def matrix(self, step: float, eta_g: float, tau: int) -> np.ndarray:
        """The linearised round, on (P, C_1, ..., C_n)."""
        H, w, (n, k, _) = self.hessians, self.weights, self.hessians.shape
        eta = step / (eta_g * tau)
        J = self.derivative(np.append(eta * np.arange(1, tau), step))
        # Z = start @ P + c @ C_i; the first local model is P itself.
        start, c = np.broadcast_to(np.eye(k), H.shape), np.zeros(H.shape)
        summed, summed_c = H @ start, H @ c
        for t in range(1, tau):
            start = J[t - 1] @ (np.eye(k) - eta * summed)
            c = -eta * J[t - 1] @ (summed_c + t * np.eye(k))
            summed, summed_c = summed + H @ start, summed_c + H @ c
        U, U_c = summed / tau, summed_c / tau
        V = np.concatenate([np.tensordot(w, U, axes=1), *(w[i] * U_c[i] for i in range(n))], axis=1)
        rows = [J[-1] @ (np.eye(k, V.shape[1]) - step * V)]
        for i in range(n):
            own = np.zeros_like(V)
            own[:, :k], own[:, (i + 1) * k : (i + 2) * k] = U[i], U_c[i]
            rows.append(V - own)
        return np.concatenate(rows)

    def radius(self, step: float, eta_g: float, tau: int) -> float:
        """The spectral radius of the linearised round: below 1 it is stable."""
        matrix = self.matrix(step, eta_g, tau)
        if self.size <= DENSE:
            return float(np.abs(np.linalg.eigvals(matrix)).max())
        start = np.random.default_rng(0).normal(size=self.size)
        loosely: Any = 1e-6  # whose type SciPy's stubs deny
        largest = eigs(matrix, k=2, v0=start, tol=loosely, return_eigenvectors=False)
        return float(np.abs(largest).max())

    def longest_stable(self, eta_g: float, tau: int) -> float:
        """The first step of a round at which it loses stability, in a scan upwards; or infinity."""
        if self.size == 0:
            return np.inf
        low, growth = 0.05 / self.curvature, 1.25
        stable = lambda step: self.radius(step, eta_g, tau) < 1
        if not stable(low):
            return 0.0
        while stable(low * growth):
            low *= growth
            if low * self.curvature > LONGEST:
                return np.inf
        high = low * growth
        for _ in range(12):
            middle = (low + high) / 2
            low, high = (middle, high) if stable(middle) else (low, middle)
        return low


def linearise(problem: Problem, shards: Shard, x: Point) -> Local | None:
    """The problem at its solution x; None if the linearised round is too large to analyse."""
    flat, unravel = jax.flatten_util.ravel_pytree(x)
    gradient = jax.flatten_util.ravel_pytree(mean_gradient(problem, shards, x))[0]

    @jax.jit
    def derivative(steps):
        def one(step):
            prox = lambda v: jax.flatten_util.ravel_pytree(problem.g.prox(unravel(v), step))[0]
            return jax.jacfwd(prox)(flat - step * gradient)

        return jax.lax.map(one, steps)

    [at_one] = np.asarray(derivative(jnp.ones(1, flat.dtype)))
    values, vectors = np.linalg.eigh((at_one + at_one.T) / 2)
    basis = vectors[:, values > 1e-6]
    if (shards.size.shape[0] + 1) * basis.shape[1] > LARGEST:
        return None
    on_basis = lambda a: basis.T @ np.asarray(a) @ basis
    return Local(
        on_basis(hessians(problem, shards, x)),
        np.asarray(shards.weight),
        lambda steps: on_basis(derivative(jnp.asarray(steps, flat.dtype))),
    )
