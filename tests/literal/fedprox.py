"""The twin of `proxfl/algorithms/fedprox.py`."""

from tests.literal.base import Method, mean


def fedprox(eta, eta_g, tau, mu) -> Method:
    def run(gradients, prox, x0, rounds):
        x, models = x0, []
        for _ in range(rounds):
            ends = []
            for gradient in gradients:
                y = x
                for _ in range(tau):
                    y = y - eta * (gradient(y) + mu * (y - x))
                ends.append(y)
            x = x + eta_g * (mean(ends) - x)
            models.append(x)
        return models

    return run
