"""Bounds on Algorithm 1 without bounded subgradients: Theorems A, B and C1 of docs/theory.md.

Constants are computed for the steps at hand, so they are smaller than those the page prints, which
serve all steps at once.
"""

import math
from typing import NamedTuple

import jax
import numpy as np

from proxfl.algorithms.decoupled import Decoupled
from proxfl.algorithms.exactness import drift, margin
from proxfl.engine.blocks import mean_over_clients
from proxfl.points import Point, dot
from proxfl.problem import Problem, Shard
from proxfl.research.theory.constants import Constants, evaluate


class Start(NamedTuple):
    """What a bound knows of the first model p: its distances from optimal, and between clients."""

    gap: float  # F(p) - F*
    heterogeneity: float  # zeta^2, the mean of |grad f_i(p) - grad f(p)|^2
    stationarity: float  # omega^2, the squared distance of -grad f(p) to the subgradients of g at p


def starting(problem: Problem, shards: Shard, p: Point, optimum: float) -> Start:
    loss, gradient = evaluate(problem, shards, p)
    spread = heterogeneity(problem, shards, p, gradient)
    omega = problem.g.distance(p, gradient)
    return Start(float(loss + problem.g.value(p)) - optimum, float(spread), float(omega) ** 2)


@jax.jit
def heterogeneity(problem: Problem, shards: Shard, p: Point, gradient: Point):
    def squared(shard: Shard):
        away = problem.objective(shard).full_grad(p) - gradient
        return dot(away, away)

    return mean_over_clients(squared, shards)


class GradientNoise(NamedTuple):
    """Of one minibatch gradient at one client; the mean over a round has sbar2."""

    variance: float = 0.0  # sigma2 / b
    effective: float = 1.0  # n_e = 1 / sum of squared weights


class Setting(NamedTuple):
    """Constants of a problem and steps: what the theorems are stated in."""

    L: float
    L_f: float
    step: float  # eta * eta_g * tau
    eta_g: float
    tau: int

    @classmethod
    def of(cls, constants: Constants, steps: Decoupled) -> "Setting":
        L, L_f = constants.smoothness.value, constants.mean_smoothness.value
        return cls(max(L, L_f), L_f, float(steps.eta_round), float(steps.eta_g), steps.tau)

    @property
    def theta(self) -> float:
        return self.L * self.step / self.eta_g

    @property
    def alpha(self) -> float:
        return drift(self.theta, self.eta_g, self.tau).alpha

    @property
    def beta(self) -> float:
        return drift(self.theta, self.eta_g, self.tau).beta

    @property
    def chi(self) -> float:
        """How much of the noise of a round and of the one before it is in the drift."""
        t = np.arange(self.tau) / self.tau
        grown = (1 + self.theta / self.tau) ** (self.tau * (1 - t) - 1)
        return float(np.mean(np.sqrt(t + t**2) * grown))

    def sbar2(self, noise: GradientNoise) -> float:
        return noise.variance / (noise.effective * self.tau)

    def nu2(self, noise: GradientNoise) -> float:
        return (self.step / self.eta_g) ** 2 * noise.variance / self.tau

    def first_drift(self, start: Start, noise: GradientNoise) -> float:
        kappa = drift(self.theta, self.eta_g, self.tau).kappa
        apart = math.sqrt(start.heterogeneity + start.stationarity)
        return kappa * self.step / self.eta_g * apart + self.chi * math.sqrt(self.nu2(noise))

    def covers(self, mu: float = 0.0, noisy: bool = False) -> bool:
        """Whether A holds; with mu > 0, B; with noise, C1, whose condition is stricter."""
        return mu * self.step <= margin(*self, noisy=noisy)

    def usable(self, mu: float, noisy: bool = False) -> float:
        """The largest constant up to mu for which B holds; 0 if there is none.

        The proximal PL inequality with mu is one with every smaller constant, too.
        """
        return min(mu, max(0.0, margin(*self, noisy=noisy)) / self.step)

    def residual(self, start: Start, rounds, noise: GradientNoise | None = None):
        """Theorems A and C1: the mean over rounds of |G|^2 is at most this."""
        twice, noise = (1, GradientNoise()) if noise is None else (2, noise)
        first = twice * (self.L * self.first_drift(start, noise)) ** 2 / (1 - self.beta)
        ripple = 2 * self.sbar2(noise) + (2 * self.chi * self.L / (1 - self.beta)) ** 2 * self.nu2(
            noise
        )
        return (2 * start.gap / self.step + first) / np.asarray(rounds) + ripple

    def objective(self, start: Start, mu: float, rounds, noise: GradientNoise | None = None):
        """Theorems B and C1, with the proximal PL inequality: F - F* is at most this."""
        twice, noisy = (1, False) if noise is None else (2, True)
        noise, mu = noise or GradientNoise(), self.usable(mu, noisy)
        rho, beta = 1 - mu * self.step, self.beta
        first = over((self.L * self.first_drift(start, noise)) ** 2 * self.step, rho - beta)
        drifted = over(2 * (self.chi * self.L) ** 2 * self.nu2(noise), (1 - beta) * (rho - beta))
        ripple = over(self.sbar2(noise) + drifted, mu)
        return rho ** np.asarray(rounds) * (start.gap + twice * first / 2) + ripple


def over(part: float, room: float) -> float:
    """A quotient in which nothing over nothing, as of drift at tau = 1, is nothing."""
    if part == 0:
        return 0.0
    return part / room if room else math.inf
