"""FedDR, FedADMM, FedPD and FedSplit, which solve a proximal subproblem at each client."""

import numpy as np

from tests.literal.base import Method, mean


def inner_solve(gradient, start, anchor, gamma, eta, tau):
    """tau gradient steps on f(x) + |x - anchor|^2 / (2 gamma)."""
    x = start
    for _ in range(tau):
        x = x - eta * (gradient(x) + (x - anchor) / gamma)
    return x


def feddr(gamma, eta, tau, alpha) -> Method:
    """The paper's initial pass counts as a round, and ends in x = P(mean x_hat)."""

    def run(gradients, prox, x0, rounds):
        y = [x0 for _ in gradients]
        x = [inner_solve(f, x0, x0, gamma, eta, tau) for f in gradients]
        models = []
        for _ in range(rounds):
            total = mean([2 * x[i] - y[i] for i in range(len(gradients))])
            bar = prox(total, gamma)
            models.append(bar)
            for i, f in enumerate(gradients):
                y[i] = y[i] + alpha * (bar - x[i])
                x[i] = inner_solve(f, x[i], y[i], gamma, eta, tau)
        return models

    return run


def fedadmm(gamma, eta, tau) -> Method:
    def run(gradients, prox, x0, rounds):
        n = len(gradients)
        lam, x, bar, models = [np.zeros_like(x0)] * n, [x0] * n, prox(x0, gamma), []
        for _ in range(rounds):
            for i, f in enumerate(gradients):
                with_dual = lambda w, f=f, i=i: f(w) + lam[i]
                x[i] = inner_solve(with_dual, x[i], bar, gamma, eta, tau)
                lam[i] = lam[i] + (x[i] - bar) / gamma
            bar = prox(mean([x[i] + gamma * lam[i] for i in range(n)]), gamma)
            models.append(bar)
        return models

    return run


def fedpd(gamma, eta, tau, counts) -> Method:
    """counts[r] iterations in round r, an average after the last of them."""

    def run(gradients, prox, x0, rounds):
        n = len(gradients)
        lam, x, own, models = [np.zeros_like(x0)] * n, [x0] * n, [x0] * n, []
        for r in range(rounds):
            for _ in range(counts[r]):
                for i, f in enumerate(gradients):
                    x[i] = inner_solve(f, x[i], own[i] - gamma * lam[i], gamma, eta, tau)
                    lam[i] = lam[i] + (x[i] - own[i]) / gamma
                    own[i] = x[i] + gamma * lam[i]
            own = [mean(own)] * n
            models.append(own[0])
        return models

    return run


def fedsplit(gamma, eta, tau) -> Method:
    def run(gradients, prox, x0, rounds):
        n = len(gradients)
        z, h, models = [x0] * n, [x0] * n, []
        for _ in range(rounds):
            x = prox(mean(z), gamma)
            for i, f in enumerate(gradients):
                h[i] = inner_solve(f, h[i], 2 * x - z[i], gamma, eta, tau)
                z[i] = z[i] + 2 * (h[i] - x)
            models.append(prox(mean(z), gamma))
        return models

    return run
