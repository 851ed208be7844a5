"""The twin of `proxfl/algorithms/adaptive.py`."""

import numpy as np

from tests.literal.base import Method, mean


def adaptive(step) -> Method:
    """Proximal gradient with steps by adaPGM's rule, in its own letters."""

    def run(gradients, prox, x0, rounds):
        x, models, gamma, before, past = x0, [], step, step, None
        for _ in range(rounds):
            v = mean([gradient(x) for gradient in gradients])
            if past is not None:
                dx, dv = x - past[0], v - past[1]
                ell, c = (dv @ dx) / (dx @ dx), (dv @ dv) / (dv @ dx)
                cap = gamma / (2 * np.sqrt(max(gamma * ell * (gamma * c - 1), 1e-300)))
                gamma, before = min(gamma * np.sqrt(1 + gamma / before), cap), gamma
            past = x, v
            x = prox(x - gamma * v, gamma)
            models.append(x)
        return models

    return run
