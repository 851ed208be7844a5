"""The twin of `proxfl/algorithms/fedda.py`."""

from tests.literal.base import Method, mean


def fedda(eta, eta_g, tau) -> Method:
    def run(gradients, prox, x0, rounds):
        z, models = x0, []
        for r in range(rounds):
            ends = []
            for gradient in gradients:
                y = z
                for k in range(tau):
                    y = y - eta * gradient(prox(y, eta_g * eta * r * tau + eta * k))
                ends.append(y)
            z = z + eta_g * (mean(ends) - z)
            models.append(prox(z, (r + 1) * eta_g * eta * tau))
        return models

    return run
