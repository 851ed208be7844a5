"""The twin of `proxfl/algorithms/fast_fedda.py`."""

import numpy as np

from tests.literal.base import Method, mean


def fast_fedda(mu, gamma, tau, double_count) -> Method:
    def run(gradients, prox, x0, rounds):
        def primal(grads, models, t):
            q = mu * t / 2 + gamma
            return prox((mu / 2 * models + gamma * x0 - grads) / q, t / q)

        grads, models, w, reported = np.zeros_like(x0), x0, x0, []
        for r in range(1, rounds + 1):
            all_grads, all_models = [], []
            for gradient in gradients:
                g_i, x_i, w_i = grads, models, w
                for k in range(1, tau + 1):
                    g_i = g_i + gradient(w_i)
                    w_i = primal(g_i, x_i, (r - 1) * tau + k)
                    if double_count or k < tau:
                        x_i = x_i + w_i
                all_grads.append(g_i)
                all_models.append(x_i)
            grads, models = mean(all_grads), mean(all_models)
            w = primal(grads, models, r * tau)
            models = models + w
            reported.append(w)
        return reported

    return run
