"""The twin of `proxfl/algorithms/proxskip.py`."""

import numpy as np

from tests.literal.base import Method, mean


def proxskip(eta, tau, counts) -> Method:
    """counts[r] local steps in round r."""

    def run(gradients, prox, x0, rounds):
        a, x, models = eta * tau, x0, []
        h = [np.zeros_like(x0) for _ in gradients]
        for r in range(rounds):
            ends = []
            for i, gradient in enumerate(gradients):
                y = x
                for _ in range(counts[r]):
                    y = y - eta * (gradient(y) - h[i])
                ends.append(y)
            x = prox(mean([ends[i] - a * h[i] for i in range(len(h))]), a)
            h = [h[i] + (x - ends[i]) / a for i in range(len(h))]
            models.append(x)
        return models

    return run
