"""The twin of `proxfl/algorithms/fedmspp.py`."""

from tests.literal.base import Method, mean


def fedmspp(gamma, eta, tau) -> Method:
    def run(gradients, prox, x0, rounds):
        x, models = x0, []
        for _ in range(rounds):
            ends = []
            for gradient in gradients:
                y = x
                for _ in range(tau):
                    y = prox(y - eta * (gradient(y) + (y - x) / gamma), eta)
                ends.append(y)
            x = mean(ends)
            models.append(x)
        return models

    return run
