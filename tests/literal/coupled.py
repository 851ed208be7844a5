"""The twin of `proxfl/algorithms/coupled.py`."""

import numpy as np

from tests.literal.base import Method, mean


def coupled(eta, eta_g, tau) -> Method:
    """The naive variant of Section 2.2."""

    def run(gradients, prox, x0, rounds):
        n, big = len(gradients), eta * eta_g * tau
        x, c, models = x0, [np.zeros_like(x0)] * len(gradients), []
        for _ in range(rounds):
            p, sent, sums = prox(x, big), [], []
            for i in range(n):
                z, total = p, np.zeros_like(p)
                for t in range(tau):
                    grad = gradients[i](z)
                    total = total + grad
                    z = prox(z - eta * (grad + c[i]), (t + 1) * eta)
                sent.append(z)
                sums.append(total)
            x = p + eta_g * (mean(sent) - p)
            c = [(p - x) / (eta_g * eta * tau) - sums[i] / tau for i in range(n)]
            models.append(prox(x, big))
        return models

    return run
