"""The inequalities of docs/theory.md with noise, on means over replicates.

A mean over replicates is not an expectation: where a line bounds a second moment, its left side may
exceed it by as much as sampling explains, which is put at four standard errors of that mean.
"""

from functools import cache

import numpy as np
import pytest

from proxfl.research import theory
from tests.cases_prox import regularisers
from tests.research.exactness.lines import Seen
from tests.research.exactness.loop import draw, prox, run, solve

REPLICATES, ROUNDS, ERRORS = 200, 6, 4.0
PENALTIES = [
    c for c in regularisers if c.name in ("zero", "l1", "groups", "simplex", "fused_lasso")
]
STEPS = [(1, 1.0), (5, 1.0), (4, 2.0)]  # tau, eta_g


@cache
def noisy(i: int, most: float, ripple: float = 0.5, sigma: float = 3.0) -> Seen:
    """A run of the i-th penalty with L eta eta_g tau = most."""
    case, (tau, eta_g) = PENALTIES[i], STEPS[i % len(STEPS)]
    sites = draw(i, case.size, ripple=ripple)
    return Seen(run(sites, case, most / sites.L, eta_g, tau, ROUNDS, sigma, REPLICATES, seed=i))


every = pytest.mark.parametrize("i", range(len(PENALTIES)), ids=[c.name for c in PENALTIES])


def setting_of(s: Seen) -> theory.Setting:
    return theory.Setting(s.L, s.L_f, s.step, s.eta_g, s.tau)


def noise_of(s: Seen) -> theory.Noise:
    return theory.Noise(s.run.sigma**2, float(1 / np.sum(s.sites.w**2)))


def lower(squares) -> np.ndarray:
    """The mean over replicates (last axis) of something squared, less what sampling explains."""
    error = squares.std(axis=-1, ddof=1) / np.sqrt(squares.shape[-1])
    return np.maximum(0.0, squares.mean(axis=-1) - ERRORS * error)


def gap_at(s: Seen, least: float) -> np.ndarray:
    """F(p) less a lower bound of F, for each round and replicate."""
    smooth = s.sites.rise(np.broadcast_to(s.p[:1, :1], s.run.p.shape), s.run.p)
    return smooth + s.sites.value(s.p[0, 0]) + s.run.value(s.run.p) - least


def start_of(s: Seen, gap: float) -> theory.Start:
    return theory.Start(gap, float(s.zeta) ** 2, float(s.omega) ** 2)


@every
def test_12_the_drift_follows_the_last_move_the_last_drift_and_noise(i):
    s = noisy(i, 1 / 3)
    noise = setting_of(s).chi * np.sqrt(setting_of(s).nu2(noise_of(s)))
    # Each local step's mean square is sampled; their roots are averaged over the steps.
    squares = np.einsum("Rtrij,i->Rtr", s.away**2, s.sites.w)
    delta = np.sqrt(lower(squares)).mean(axis=1)
    first = s.kappa * s.gamma * s.Z + noise
    later = s.alpha * s.S[:-1] + s.beta * s.delta[:-1] + noise
    assert np.all(delta <= np.append(first, later) * (1 + 1e-9) + 1e-12)


@every
def test_13_the_error_of_the_mean_gradient(i):
    s = noisy(i, 1 / 3)
    allowed = s.L * s.delta + np.sqrt(setting_of(s).sbar2(noise_of(s)))
    assert np.all(np.sqrt(lower((s.e**2).sum(-1))) <= allowed)


@every
def test_c1_bounds_the_mean_of_the_residual(i):
    s = noisy(i, 1 / 3)
    assert setting_of(s).covers(noisy=True)
    start = start_of(s, float(gap_at(s, s.sites.least)[0, 0]))
    bound = setting_of(s).residual(start, ROUNDS, noise_of(s))
    squares = ((s.p - s.best) ** 2).sum(-1) / s.step**2
    assert lower(squares.mean(axis=0)) <= bound
    setting, noise = setting_of(s), noise_of(s)
    drift = setting.first_drift(start, noise)
    floor = setting.sbar2(noise) * (2 + 5.6 * s.theta**2 * noise.effective)
    printed = 2 * start.gap / s.step + 2 * (s.L * drift) ** 2 / (1 - s.beta)
    assert bound <= (printed / ROUNDS + floor) * (1 + 1e-9)


@every
def test_c1_bounds_the_objective(i):
    s = noisy(i, 1 / 3, ripple=0.0)
    mu, noise = s.sites.mu, noise_of(s)
    setting = setting_of(s)
    assert setting.covers(mu, noisy=True)
    x = solve(s.sites, s.run.case)
    gaps = gap_at(s, s.sites.value(x) + s.run.value(x[None])[0])
    bound = setting.objective(start_of(s, float(gaps[0, 0])), mu, np.arange(ROUNDS + 1), noise)
    assert np.all(lower(gaps) <= bound * (1 + 1e-9))
    floor = setting.sbar2(noise) / mu * (1 + 4.7 * s.theta**2 * noise.effective)
    assert setting.objective(start_of(s, 0.0), mu, 10**6, noise) <= floor * (1 + 1e-9)


def envelope(s: Seen, p):
    """The proximal point of F at p with lambda = 1/(2 L_f), and the envelope's value there."""
    y = p
    for _ in range(60):  # curvatures are between L_f and 3 L_f
        gradient = s.sites.mean.grad(y[..., None, :])[..., 0, :] + 2 * s.L_f * (y - p)
        y = prox(s.run.case, y - gradient / (3 * s.L_f), 1 / (3 * s.L_f))
    zero = np.broadcast_to(np.zeros(p.shape[-1]), y.shape)
    value = s.sites.rise(zero, y) + s.run.value(y) + s.L_f * ((y - p) ** 2).sum(-1)
    return y, value


@every
def test_14_15_c2_the_moreau_envelope_descends_to_a_floor_that_steps_shrink(i):
    s = noisy(i, 1 / 4)
    q_f, sbar2 = s.q_f, setting_of(s).sbar2(noise_of(s))
    near, value = envelope(s, s.run.p)
    square = lambda a: (a**2).sum(-1)
    before = square(s.p - near[:-1]).mean(axis=1)
    allowed = (1 - 5 * q_f / 4) * before + 2 / q_f * (s.step * s.L * s.delta) ** 2
    assert np.all(lower(square(s.after - near[:-1])) <= allowed + 2 * s.step**2 * sbar2)

    slope = 4 * s.L_f**2 * before
    growth = 2 * s.step * (s.L * s.delta) ** 2 + 2 * s.L_f * s.step**2 * sbar2
    rise = value[1:] - value[:-1] + 5 / 16 * s.step * 4 * s.L_f**2 * square(s.p - near[:-1])
    error = rise.std(axis=1, ddof=1) / np.sqrt(REPLICATES)
    assert np.all(rise.mean(axis=1) - ERRORS * error <= growth)

    least = s.sites.least
    first = gap_at(s, least)[0, 0] * s.step + 0.345 * s.delta[0] ** 2
    W = value[0, 0] - least + 8.5 * s.q**2 / s.step * first
    n_e = noise_of(s).effective
    floor = sbar2 * (13.2 * s.q + 18.7 * s.theta**2 * n_e)
    assert slope.mean() <= 3.2 * W / (s.step * ROUNDS) + floor


def test_the_floor_of_the_residual_does_not_vanish_with_the_step_and_that_of_the_envelope_does():
    """f = x^2/2 and g = |x|, tau = 1, noise of standard deviation 3: proximal SGD."""
    rng = np.random.default_rng(0)

    def floors(step: float) -> tuple[float, float]:
        p, residual, envelope = np.zeros(2000), [], []
        soft = lambda x, s: np.sign(x) * np.maximum(np.abs(x) - s, 0)
        for r in range(int(20 / step)):
            if r > 10 / step:
                residual.append(np.mean(((p - soft(p - step * p, step)) / step) ** 2))
                # prox of lambda F, lambda = 1/2: least of y^2/2 + |y| + (y - p)^2
                envelope.append(np.mean((2 * (p - soft(2 * p, 1) / 3)) ** 2))
            p = soft(p - step * (p + 3 * rng.normal(size=p.size)), step)
        return float(np.mean(residual)), float(np.mean(envelope))

    (long, far), (short, near) = floors(0.04), floors(0.01)
    assert short > 0.8 * long > 0.4
    assert near < 0.4 * far
