"""Steps with which Algorithm 1 is proven to converge exactly: Theorem A of docs/theory.md.

With L the smoothness of the most curved client, L_f that of the mean loss, theta = L eta tau and
eta_round = eta eta_g tau, the mean distance of the local models from their start follows

    drift <= alpha (the server's last move) + beta (the last drift),

    kappa = ((1 + theta/tau)^tau - 1 - theta) / theta^2,
    alpha = kappa (1/eta_g + theta),    beta = kappa theta.

If beta < 1, L_f eta_round <= 1 and

    (L eta_round alpha)^2 <= (1 - L_f eta_round) (1 - beta)^2,

the residual of the proximal gradient goes to zero at the rate 1/rounds, for every convex g.
Theorem B has (1 - beta) (1 - mu eta_round - beta) for (1 - beta)^2, and C1, of minibatches, twice
the left root.
"""

import math
from typing import NamedTuple

ROUNDING = 1e-12  # a step of 1/L_f is one, whatever its last digit


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


def margin(L: float, L_f: float, step: float, eta_g: float, tau: int, noisy: bool = False) -> float:
    """The conditions solved for mu eta_round: A's is that this is not negative, B's that this is
    at least mu eta_round. With noise they are C1's. Minus infinity where no mu will do.
    """
    _, alpha, beta = drift(L * step / eta_g, eta_g, tau)
    moved, room = ((2 if noisy else 1) * L * step * alpha) ** 2, (1 - L_f * step) * (1 - beta)
    if L_f * step > 1 + ROUNDING or beta >= 1:
        return -math.inf
    if moved == 0:
        return 1 - beta
    return 1 - beta - moved / room if room > 0 else -math.inf


def longest_step(
    L: float, L_f: float, eta_g: float, tau: int, mu: float = 0.0, noisy: bool = False
) -> float:
    """The longest eta_round that A covers, with mu B, with noise C1; infinite if f is linear and
    local steps have no say.

    The margin falls as the step grows, so we bisect. A client that is less curved than the mean
    cannot be the most curved one: L below L_f is L_f.
    """
    L = max(L, L_f)
    # From two local steps on beta is at least theta/4, which must stay below 1.
    low, high = 0.0, min(1 / L_f if L_f else math.inf, 4 * eta_g / L if L and tau > 1 else math.inf)
    if math.isinf(high):
        return high
    for _ in range(60):
        middle = (low + high) / 2
        fits = mu * middle <= margin(L, L_f, middle, eta_g, tau, noisy)
        low, high = (middle, high) if fits else (low, middle)
    return low
