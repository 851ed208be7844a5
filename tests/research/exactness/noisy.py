"""The inequalities of docs/theory.md with noise, on means over replicates.

A mean over replicates is not an expectation: where a line bounds a second moment, its left side may
exceed it by as much as sampling explains, which is put at four standard errors of that mean. That
much is taken off the left sides here.
"""

from collections.abc import Iterator

import numpy as np

from proxfl.research import theory
from tests.cases_prox import Case, regularisers
from tests.research.exactness.lines import Line, Seen, Sides, setting_of, start_of
from tests.research.exactness.loop import draw, prox, run, solve

REPLICATES, ROUNDS, ERRORS = 200, 6, 4.0
PENALTIES = [
    c for c in regularisers if c.name in ("zero", "l1", "groups", "simplex", "fused_lasso")
]
STEPS = [(1, 1.0), (5, 1.0), (4, 2.0)]  # tau, eta_g


def noisy(
    case: Case, steps: tuple[int, float], seed: int, most: float, ripple: float = 0.5
) -> Seen:
    """A run with L eta eta_g tau = most, and noise of root mean square 3."""
    (tau, eta_g), sites = steps, draw(seed, case.size, ripple=ripple)
    step = most / sites.L
    return Seen(run(sites, case, step, eta_g, tau, ROUNDS, 3.0, REPLICATES, seed=seed))


def noise_of(s: Seen) -> theory.GradientNoise:
    return theory.GradientNoise(s.run.sigma**2, float(1 / np.sum(s.sites.w**2)))


def lower(squares) -> np.ndarray:
    """The mean over replicates (last axis) of something squared, less what sampling explains."""
    return np.maximum(0.0, squares.mean(axis=-1) - ERRORS * error(squares))


def error(values) -> np.ndarray:
    return values.std(axis=-1, ddof=1) / np.sqrt(values.shape[-1])


def gap_at(s: Seen, least: float) -> np.ndarray:
    """F(p) less a lower bound of F, for each round and replicate."""
    smooth = s.sites.rise(np.broadcast_to(s.p[:1, :1], s.run.p.shape), s.run.p)
    return smooth + s.sites.value(s.p[0, 0]) + s.run.value(s.run.p) - least


def twelve(s: Seen) -> Iterator[Sides]:
    """The drift follows the last move, the last drift and noise."""
    noise = setting_of(s).chi * np.sqrt(setting_of(s).nu2(noise_of(s)))
    # Each local step's mean square is sampled; their roots are averaged over the steps.
    squares = np.einsum("Rtrij,i->Rtr", s.away**2, s.sites.w)
    delta = np.sqrt(lower(squares)).mean(axis=1)
    first = s.kappa * s.gamma * s.Z + noise
    later = s.alpha * s.S[:-1] + s.beta * s.delta[:-1] + noise
    yield delta, np.append(first, later), s.move


def thirteen(s: Seen) -> Iterator[Sides]:
    """The error of the mean gradient."""
    allowed = s.L * s.delta + np.sqrt(setting_of(s).sbar2(noise_of(s)))
    yield np.sqrt(lower((s.e**2).sum(-1))), allowed, s.slope


def mean_residual(s: Seen) -> Iterator[Sides]:
    """C1: the mean of the residual."""
    start = start_of(s, float(gap_at(s, s.sites.least)[0, 0]))
    bound = setting_of(s).residual(start, ROUNDS, noise_of(s))
    squares = ((s.p - s.best) ** 2).sum(-1) / s.step**2
    yield np.array([lower(squares.mean(axis=0))]), np.array([bound]), s.slope**2


def objective(s: Seen) -> Iterator[Sides]:
    """C1 under proximal PL; the mean loss must be strongly convex."""
    x = solve(s.sites, s.run.case)
    gaps = gap_at(s, s.sites.value(x) + s.run.value(x[None])[0])
    start, rounds = start_of(s, float(gaps[0, 0])), np.arange(ROUNDS + 1)
    bound = setting_of(s).objective(start, s.sites.mu, rounds, noise_of(s))
    yield lower(gaps), bound, float(gaps[0, 0])


def envelope(s: Seen, p):
    """The proximal point of F at p with lambda = 1/(2 L_f), and the envelope's value there."""
    y = p
    for _ in range(60):  # curvatures are between L_f and 3 L_f
        gradient = s.sites.mean.grad(y[..., None, :])[..., 0, :] + 2 * s.L_f * (y - p)
        y = prox(s.run.case, y - gradient / (3 * s.L_f), 1 / (3 * s.L_f))
    zero = np.broadcast_to(np.zeros(p.shape[-1]), y.shape)
    value = s.sites.rise(zero, y) + s.run.value(y) + s.L_f * ((y - p) ** 2).sum(-1)
    return y, value


def moreau(s: Seen) -> Iterator[Sides]:
    """(14), (15) and C2: the envelope descends to a floor that steps shrink."""
    near, value = envelope(s, s.run.p)
    sbar2, square = setting_of(s).sbar2(noise_of(s)), lambda a: (a**2).sum(-1)
    before = square(s.p - near[:-1]).mean(axis=1)
    allowed = (1 - 5 * s.q_f / 4) * before + 2 / s.q_f * (s.step * s.L * s.delta) ** 2
    yield lower(square(s.after - near[:-1])), allowed + 2 * s.step**2 * sbar2, s.move**2

    slope = 4 * s.L_f**2 * square(s.p - near[:-1])
    growth = 2 * s.step * (s.L * s.delta) ** 2 + 2 * s.L_f * s.step**2 * sbar2
    rise = value[1:] - value[:-1] + 5 / 16 * s.step * slope
    yield np.maximum(rise.mean(axis=1) - ERRORS * error(rise), 0), growth, s.step * s.slope**2

    first = gap_at(s, s.sites.least)[0, 0] * s.step + 0.345 * s.delta[0] ** 2
    W = value[0, 0] - s.sites.least + 8.5 * s.q**2 / s.step * first
    floor = sbar2 * (13.2 * s.q + 18.7 * s.theta**2 * noise_of(s).effective)
    bound = 3.2 * W / (s.step * ROUNDS) + floor
    yield np.array([slope.mean()]), np.array([bound]), s.slope**2


# What each line asks of a run: the longest L eta eta_g tau, and whether clients may be non-convex.
NOISY: dict[str, tuple[Line, float, float]] = {
    "(12)": (twelve, 1 / 3, 0.5),
    "(13)": (thirteen, 1 / 3, 0.5),
    "C1, the mean residual": (mean_residual, 1 / 3, 0.5),
    "C1, the objective": (objective, 1 / 3, 0.0),
    "(14), (15) and C2": (moreau, 1 / 4, 0.5),
}
