"""The twin of `proxfl/algorithms/decoupled.py`."""

import numpy as np

from tests.literal.base import Method, mean


def decoupled(eta, eta_g, tau, inner=None) -> Method:
    """Algorithm 1, line by line."""
    inner = inner or (lambda t: (t + 1) * eta)

    def run(gradients, prox, x0, rounds):
        n, big = len(gradients), eta * eta_g * tau
        x, c, models = x0, [np.zeros_like(x0)] * len(gradients), []
        for _ in range(rounds):
            p, sent, sums = prox(x, big), [], []
            for i in range(n):
                z_hat = z = p
                total = np.zeros_like(p)
                for t in range(tau):
                    grad = gradients[i](z)
                    total = total + grad
                    z_hat = z_hat - eta * (grad + c[i])
                    z = prox(z_hat, inner(t))
                sent.append(z_hat)
                sums.append(total)
            x = p + eta_g * (mean(sent) - p)
            c = [(p - x) / (eta_g * eta * tau) - sums[i] / tau for i in range(n)]
            models.append(prox(x, big))
        return models

    return run
