"""The twin of `proxfl/algorithms/fedavg.py`."""

from tests.literal.base import Method, mean


def fedavg(eta, eta_g, tau) -> Method:
    def run(gradients, prox, x0, rounds):
        x, models = x0, []
        for _ in range(rounds):
            ends = []
            for gradient in gradients:
                y = x
                for _ in range(tau):
                    y = y - eta * gradient(y)
                ends.append(y)
            x = x + eta_g * (mean(ends) - x)
            models.append(x)
        return models

    return run
