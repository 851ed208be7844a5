"""Algorithm 1 behind compressed uplinks with error feedback."""

import numpy as np

from tests.literal.base import Method, mean


def top(v, k):
    kept = np.zeros_like(v)
    places = np.argsort(-np.abs(v))[:k]
    kept[places] = v[places]
    return kept


def compressed_decoupled(eta, eta_g, tau, k) -> Method:
    """Algorithm 1 whose server knows of v_i, client i's mean gradient, only a copy u_i.

    Each round moves u_i by the k largest coordinates of v_i - u_i, as EF21 does.
    """

    def run(gradients, prox, x0, rounds):
        n, big, x, models = len(gradients), eta * eta_g * tau, x0, []
        v, u = [np.zeros_like(x0)] * n, [np.zeros_like(x0)] * n
        for _ in range(rounds):
            p, known = prox(x, big), mean(u)
            for i in range(n):
                c, z_hat, z, total = known - v[i], p, p, np.zeros_like(p)
                for t in range(tau):
                    grad = gradients[i](z)
                    total = total + grad
                    z_hat = z_hat - eta * (grad + c)
                    z = prox(z_hat, (t + 1) * eta)
                v[i] = total / tau
                u[i] = u[i] + top(v[i] - u[i], k)
            x = p - big * mean(u)
            models.append(prox(x, big))
        return models

    return run
