"""What noise buys: differential privacy.

Two federations are neighbours when they differ in all the data of one client or, where the
gradients of rows are clipped, in what one row holds. Replacing it moves the sum of what is clipped
by up to 2 clip, so a noise multiplier s, which is relative to clip, is that of a Gaussian mechanism
with s / 2. (Reports that let a client be absent instead count one clip: their epsilon for s is the
one here for 2 s.)

Everyone present: Gaussian noise of several answers is together that of one, whose epsilon is known
exactly (Balle and Wang 2018). What adds up is the square of how far neighbours are apart, in
deviations: the `cost` of an answer. Cohorts drawn uniformly without replacement, as `simulate`
does: Renyi accounting (Wang, Balle, Kasiviswanathan 2019, Theorem 27) by Google's `dp-accounting`,
or the number for everyone where that is smaller, since sampling never hurts.
"""

import math
from typing import Any


def cost(noise_multiplier: float) -> float:
    """What one answer spends; costs of several add up."""
    return (2 / noise_multiplier) ** 2


def composed(spent: float, delta: float) -> float:
    """The epsilon of answers whose costs come to this."""
    from scipy.optimize import brentq

    apart = math.sqrt(spent)
    if apart == 0 or gaussian_delta(apart, 0.0) <= delta:
        return 0.0
    most = apart * (apart / 2 + math.sqrt(2 * math.log(1 / delta)))
    found: Any = brentq(lambda e: gaussian_delta(apart, e) - delta, 0.0, most, xtol=1e-15)
    return float(found)


def gaussian_delta(apart: float, epsilon: float) -> float:
    """Theorem 8 of Balle and Wang, for neighbours so many deviations apart."""
    from scipy.special import log_ndtr, ndtr

    tail = math.exp(epsilon + log_ndtr(-apart / 2 - epsilon / apart))
    return float(ndtr(apart / 2 - epsilon / apart)) - tail


def epsilon(
    noise_multiplier: float, rounds: int, delta: float, sampling: tuple[int, int] | None = None
) -> float:
    """The epsilon spent by `rounds` noised messages, with `sampling` = (cohort, clients).

    A method with two exchanges a round spends two messages; `Private.spent` counts them.
    """
    check(rounds, delta, sampling)
    if noise_multiplier <= 0:
        return math.inf
    everyone = composed(rounds * cost(noise_multiplier), delta)
    if sampling is None:
        return everyone
    accounting, relative, (cohort, clients) = library(), noise_multiplier / 2, sampling
    replaced = accounting.NeighboringRelation.REPLACE_ONE
    accountant = accounting.rdp.RdpAccountant(neighboring_relation=replaced)
    gaussian = accounting.GaussianDpEvent(relative)
    event = accounting.SampledWithoutReplacementDpEvent(clients, cohort, gaussian)
    accountant.compose(event, rounds)
    return min(everyone, float(accountant.get_epsilon(delta)))


def noise_for(
    target: float,
    delta: float,
    rounds: int,
    sampling: tuple[int, int] | None = None,
    precision: float = 1e-3,
) -> float:
    """The smallest noise multiplier, up to a relative `precision`, that spends at most `target`."""
    if not target > 0:
        raise ValueError(f"epsilon must be positive, got {target}.")
    check(rounds, delta, sampling)
    spends = lambda noise: epsilon(noise, rounds, delta, sampling)
    enough = 1.0
    while spends(enough) > target:
        enough *= 2
    while spends(enough / 2) <= target:
        enough /= 2
    too_little = enough / 2
    while enough - too_little > precision * enough:
        middle = (enough + too_little) / 2
        if spends(middle) <= target:
            enough = middle
        else:
            too_little = middle
    return enough


def check(rounds: int, delta: float, sampling: tuple[int, int] | None) -> None:
    if rounds < 1:
        raise ValueError(f"rounds must be at least 1, got {rounds}.")
    if not 0 < delta < 1:
        raise ValueError(f"delta must be between 0 and 1, got {delta}.")
    if sampling is not None and not 1 <= sampling[0] <= sampling[1]:
        raise ValueError(f"sampling is (cohort, clients) with cohort <= clients, got {sampling}.")


def library():
    """dp-accounting, imported only where it is used."""
    try:
        import dp_accounting
    except ImportError as error:
        raise ImportError("Privacy accounting needs `pip install proxfl[privacy]`.") from error
    return dp_accounting
