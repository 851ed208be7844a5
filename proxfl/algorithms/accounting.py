"""What noise buys: differential privacy, by the accountants of Google's `dp-accounting`.

Two federations are neighbours when they differ in all the data of one client. Replacing a client
moves the sum of clipped messages by up to 2 clip, so a noise multiplier s, which is relative to
clip, is that of a Gaussian mechanism with s / 2. (Reports that let a client be absent instead count
one clip: their epsilon for s is the one here for 2 s.)

Everyone present: rounds of Gaussian noise are together one Gaussian mechanism, whose epsilon is
known exactly (Balle and Wang 2018). Cohorts drawn uniformly without replacement, as `simulate`
does: Renyi accounting (Wang, Balle, Kasiviswanathan 2019, Theorem 27), or the number for everyone
where that is smaller, since sampling never hurts.
"""

import math


def epsilon(
    noise_multiplier: float, rounds: int, delta: float, sampling: tuple[int, int] | None = None
) -> float:
    """The epsilon spent by `rounds` noised messages, with `sampling` = (cohort, clients).

    A method with two exchanges a round spends two messages; `Private.spent` counts them.
    """
    check(rounds, delta, sampling)
    if noise_multiplier <= 0:
        return math.inf
    accounting = library()
    relative = noise_multiplier / 2
    everyone = float(accounting.get_epsilon_gaussian(relative / math.sqrt(rounds), delta))
    if sampling is None:
        return everyone
    cohort, clients = sampling
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
    enough = 2 * math.sqrt(rounds) * library().get_sigma_gaussian(target, delta) * (1 + precision)
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
