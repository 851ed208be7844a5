"""The inequalities of docs/theory.md with noise, and what their constants come to."""

import numpy as np
import pytest

from tests.research.exactness.lines import SLACK, setting_of, start_of, tightest
from tests.research.exactness.noisy import NOISY, PENALTIES, STEPS, gap_at, noise_of, noisy

every = pytest.mark.parametrize("i", range(len(PENALTIES)), ids=[c.name for c in PENALTIES])


@every
@pytest.mark.parametrize("name", NOISY)
def test_the_inequality_with_noise_holds(name, i):
    line, most, ripple = NOISY[name]
    s = noisy(PENALTIES[i], STEPS[i % len(STEPS)], i, most, ripple)
    assert setting_of(s).covers(s.sites.mu if ripple == 0 else 0.0, noisy=True)
    assert tightest(line(s)) <= 1 + SLACK


@every
def test_the_printed_constants_of_c1_serve_all_steps_up_to_a_third_of_1_over_l(i):
    s = noisy(PENALTIES[i], STEPS[i % len(STEPS)], i, 1 / 3)
    setting, noise = setting_of(s), noise_of(s)
    start = start_of(s, float(gap_at(s, s.sites.least)[0, 0]))
    bound = setting.residual(start, 6, noise)
    drift = setting.first_drift(start, noise)
    floor = setting.sbar2(noise) * (2 + 5.6 * s.theta**2 * noise.effective)
    printed = 2 * start.gap / s.step + 2 * (s.L * drift) ** 2 / (1 - s.beta)
    assert bound <= (printed / 6 + floor) * (1 + 1e-9)

    s = noisy(PENALTIES[i], STEPS[i % len(STEPS)], i, 1 / 3, ripple=0.0)
    setting, noise, mu = setting_of(s), noise_of(s), s.sites.mu
    floor = setting.sbar2(noise) / mu * (1 + 4.7 * s.theta**2 * noise.effective)
    assert setting.objective(start_of(s, 0.0), mu, 10**6, noise) <= floor * (1 + 1e-9)


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
