"""The twin of `proxfl/algorithms/mime.py`."""

import numpy as np

from tests.literal.base import Method, mean


def mime(eta, eta_g, tau, beta, local_prox, lite=False) -> Method:
    """U(v, m) = (1 - beta) v + beta m in every step; V(c, m) the same, once a round."""

    def run(gradients, prox, x0, rounds):
        x, m, models = x0, np.zeros_like(x0), []
        for _ in range(rounds):
            c, ends = mean([gradient(x) for gradient in gradients]), []
            for gradient in gradients:
                y = x
                for _ in range(tau):
                    v = gradient(y) if lite else gradient(y) - gradient(x) + c
                    y = y - eta * ((1 - beta) * v + beta * m)
                    y = prox(y, eta) if local_prox else y
                ends.append(y)
            x, m = x + eta_g * (mean(ends) - x), (1 - beta) * c + beta * m
            models.append(x)
        return models

    return run
