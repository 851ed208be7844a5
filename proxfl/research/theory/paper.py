"""The bounds of the paper's Theorems 3.5 (non-convex), 3.6 (proximal PL) and 3.7 (strongly convex).

Redoing the algebra behind the printed noise constants (20 in 3.5, 18 in 3.6) gives larger ones
unless eta_g >= sqrt(n); both are here. What our own theorems give instead is in `exact.py`.
"""

import numpy as np

from proxfl.algorithms.decoupled import Decoupled
from proxfl.research.theory.constants import Constants


def noise_coefficient(constants: Constants, algorithm: Decoupled) -> float:
    """What multiplies eta_round sigma2 / (n tau b) in the descent of Omega; the paper prints 6."""
    n, q = constants.clients, float(algorithm.eta_round) * constants.smoothness.value
    s = float(algorithm.eta_g)
    return 1 + 9.2 * q**2 * n / s**2 + 40 * q**2 * n / s**4 + 4 * n / s**2


PRINTED_NOISE = 6.0


def residual(constants: Constants, algorithm: Decoupled, batch: int | None, noise: float) -> float:
    """Per round, what noise and the non-smooth g can add to Omega."""
    long, n, tau = float(algorithm.eta_round), constants.clients, algorithm.tau
    variance = 0.0 if batch is None else constants.variance.value / batch
    ripple = noise * long * variance / (n * tau)
    bend = 56 * constants.smoothness.value**2 * long**3 * constants.subgradient.value**2
    return ripple + bend / float(algorithm.eta_g) ** 2


def descent_allowance(
    constants: Constants, algorithm: Decoupled, batch: int | None, noise: float, residual2
):
    """The most that Omega may grow in a round in which |G|^2 = residual2."""
    growth = residual(constants, algorithm, batch, noise)
    return growth - 0.3 * float(algorithm.eta_round) * np.asarray(residual2)


def bound_35(constants, algorithm: Decoupled, batch, omega1: float, rounds, noise=PRINTED_NOISE):
    """The bound of Theorem 3.5 on the mean of |G|^2 over the first `rounds` rounds."""
    long = float(algorithm.eta_round)
    stays = residual(constants, algorithm, batch, noise) / (0.3 * long)
    return omega1 / (0.3 * long * np.asarray(rounds)) + stays


def bound_36(constants, algorithm: Decoupled, batch, omega1: float, rounds, noise=PRINTED_NOISE):
    """The bound of Theorem 3.6 on Omega after `rounds` rounds."""
    shrink = constants.proximal_pl.value * float(algorithm.eta_round) / 3
    stays = residual(constants, algorithm, batch, noise) / shrink
    return (1 - shrink) ** np.asarray(rounds) * omega1 + stays


def bound_37(constants, algorithm: Decoupled, batch, omega1: float, rounds):
    """The bound of Theorem 3.7 on |x - x*|^2 plus the drift term, after `rounds` rounds."""
    mu, long = constants.strong_convexity.value, float(algorithm.eta_round)
    variance = 0.0 if batch is None else constants.variance.value / batch
    ripple = 30 * long * variance / (mu * constants.clients * algorithm.tau)
    bend = 21 * long * constants.subgradient.value**2 / (mu * float(algorithm.eta_g) ** 2)
    return (1 - mu * long / 3) ** np.asarray(rounds) * omega1 + ripple + bend
