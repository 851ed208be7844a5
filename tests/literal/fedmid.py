"""The twin of `proxfl/algorithms/fedmid.py`."""

from tests.literal.base import Method, mean


def fedmid(eta, eta_g, tau, client_step, server_step) -> Method:
    def run(gradients, prox, w0, rounds):
        w, models = w0, []
        for _ in range(rounds):
            ends = []
            for gradient in gradients:
                y = w
                for _ in range(tau):
                    y = prox(y - eta * gradient(y), client_step)
                ends.append(y)
            w = prox(w + eta_g * (mean(ends) - w), eta_g * server_step)
            models.append(w)
        return models

    return run
