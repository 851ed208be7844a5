"""SCAFFOLD with its options I and II."""

import numpy as np

from tests.literal.base import Method, mean


def scaffold_one(eta, eta_g, tau) -> Method:
    def run(gradients, prox, x0, rounds):
        x, c, models = x0, np.zeros_like(x0), []
        own = [np.zeros_like(x0) for _ in gradients]
        for _ in range(rounds):
            ends = []
            for i, gradient in enumerate(gradients):
                y = x
                for _ in range(tau):
                    y = y - eta * (gradient(y) - own[i] + c)
                ends.append(y)
            own = [gradient(x) for gradient in gradients]
            x, c = x + eta_g * (mean(ends) - x), mean(own)
            models.append(x)
        return models

    return run


def scaffold_two(eta, eta_g, tau) -> Method:
    """Scaffold, option II, everyone present: the twin of Algorithm 1 where g = 0."""

    def run(gradients, prox, x0, rounds):
        x, c, models = x0, np.zeros_like(x0), []
        own = [np.zeros_like(x0) for _ in gradients]
        for _ in range(rounds):
            moves, changes = [], []
            for i, gradient in enumerate(gradients):
                y = x
                for _ in range(tau):
                    y = y - eta * (gradient(y) - own[i] + c)
                new = own[i] - c + (x - y) / (tau * eta)
                moves.append(y - x)
                changes.append(new - own[i])
                own[i] = new
            x, c = x + eta_g * mean(moves), c + mean(changes)
            models.append(x)
        return models

    return run
