"""Steps with which Algorithm 1 is proven to converge exactly: Theorem A of docs/theory.md.

With L the smoothness of the most curved client, L_f that of the mean loss, theta = L eta tau and
eta_round = eta eta_g tau, the mean distance of the local models from their start follows

    drift <= alpha (the server's last move) + beta (the last drift),

    kappa = ((1 + theta/tau)^tau - 1 - theta) / theta^2,
    alpha = kappa (1/eta_g + theta),    beta = kappa theta.

If beta < 1, L_f eta_round <= 1 and

    (L eta_round alpha)^2 <= (1 - L_f eta_round) (1 - beta)^2,

the residual of the proximal gradient goes to zero at the rate 1/rounds, for every convex g.
Theorem B has (1 - beta) (1 - mu eta_round - beta) for (1 - beta)^2, and C1 twice the left root.
"""

import math
from typing import NamedTuple


class Drift(NamedTuple):
    """What the last round adds to this one's drift, per unit of server's move and of drift."""

    kappa: float
    alpha: float
    beta: float


def drift(theta: float, eta_g: float, tau: int) -> Drift:
    # A sum of positive terms, since the closed form cancels where theta is small.
    h = theta / tau
    kappa = sum(math.expm1(t * math.log1p(h)) / h for t in range(1, tau)) / tau**2
    return Drift(kappa, kappa * (1 / eta_g + theta), kappa * theta)


def excess(
    L: float, L_f: float, step: float, eta_g: float, tau: int, mu: float = 0.0, noisy: bool = False
) -> float:
    """The left side of Theorem A's condition less its right side: steps up to 0 are proven.

    With the constant mu of the proximal PL inequality it is Theorem B's, with noise C1's.
    """
    _, alpha, beta = drift(L * step / eta_g, eta_g, tau)
    room = max(0.0, 1 - L_f * step) * max(0.0, 1 - beta) * max(0.0, 1 - mu * step - beta)
    left = (2 if noisy else 1) * L * step * alpha
    return max(left - math.sqrt(room), L_f * step - 1, beta + mu * step - 1)


def longest_step(L: float, L_f: float, eta_g: float, tau: int, mu: float = 0.0) -> float:
    """The longest eta_round that A covers, or with mu B; the excess grows with it, so we bisect.

    A client that is less curved than the mean cannot be the most curved one: L below L_f is L_f.
    """
    L = max(L, L_f)
    # From two local steps on beta is at least theta/4, which must stay below 1.
    low, high = 0.0, min(1 / L_f, 4 * eta_g / L) if tau > 1 else 1 / L_f
    for _ in range(60):
        middle = (low + high) / 2
        fits = excess(L, L_f, middle, eta_g, tau, mu) <= 0
        low, high = (middle, high) if fits else (low, middle)
    return low
