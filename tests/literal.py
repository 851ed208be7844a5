"""Every method again, as slow NumPy loops written from the equations; nothing shared with proxfl.

A method maps (gradients, prox, x0, rounds) to the list of models it reports after each round,
where `gradients[i](x)` is the full gradient of client i and `prox(x, step)` that of g.
"""

from collections.abc import Callable

import numpy as np

Method = Callable[..., list[np.ndarray]]


def mean(vectors):
    return sum(vectors) / len(vectors)


def decoupled(eta, eta_g, tau, inner=None) -> Method:
    """Algorithm 1, line by line."""
    inner = inner or (lambda t: (t + 1) * eta)

    def run(gradients, prox, x0, rounds):
        n, big = len(gradients), eta * eta_g * tau
        x, c, models = x0, [np.zeros_like(x0)] * len(gradients), []
        for _ in range(rounds):
            p, sent, sums = prox(x, big), [], []
            for i in range(n):
                z_hat = z = p
                total = np.zeros_like(p)
                for t in range(tau):
                    grad = gradients[i](z)
                    total = total + grad
                    z_hat = z_hat - eta * (grad + c[i])
                    z = prox(z_hat, inner(t))
                sent.append(z_hat)
                sums.append(total)
            x = p + eta_g * (mean(sent) - p)
            c = [(p - x) / (eta_g * eta * tau) - sums[i] / tau for i in range(n)]
            models.append(prox(x, big))
        return models

    return run


def coupled(eta, eta_g, tau) -> Method:
    """The naive variant of Section 2.2."""

    def run(gradients, prox, x0, rounds):
        n, big = len(gradients), eta * eta_g * tau
        x, c, models = x0, [np.zeros_like(x0)] * len(gradients), []
        for _ in range(rounds):
            p, sent, sums = prox(x, big), [], []
            for i in range(n):
                z, total = p, np.zeros_like(p)
                for t in range(tau):
                    grad = gradients[i](z)
                    total = total + grad
                    z = prox(z - eta * (grad + c[i]), (t + 1) * eta)
                sent.append(z)
                sums.append(total)
            x = p + eta_g * (mean(sent) - p)
            c = [(p - x) / (eta_g * eta * tau) - sums[i] / tau for i in range(n)]
            models.append(prox(x, big))
        return models

    return run


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


def proximal_gradient(step) -> Method:
    def run(gradients, prox, x0, rounds):
        x, models = x0, []
        for _ in range(rounds):
            x = prox(x - step * mean([gradient(x) for gradient in gradients]), step)
            models.append(x)
        return models

    return run


def adaptive(step) -> Method:
    """Proximal gradient with steps by adaPGM's rule, in its own letters."""

    def run(gradients, prox, x0, rounds):
        x, models, gamma, before, past = x0, [], step, step, None
        for _ in range(rounds):
            v = mean([gradient(x) for gradient in gradients])
            if past is not None:
                dx, dv = x - past[0], v - past[1]
                ell, c = (dv @ dx) / (dx @ dx), (dv @ dv) / (dv @ dx)
                cap = gamma / (2 * np.sqrt(max(gamma * ell * (gamma * c - 1), 1e-300)))
                gamma, before = min(gamma * np.sqrt(1 + gamma / before), cap), gamma
            past = x, v
            x = prox(x - gamma * v, gamma)
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


def logistic_gradient(a, y):
    return lambda x: a.T @ (-y / (1 + np.exp(y * (a @ x)))) / len(y)


def squared_gradient(a, y):
    return lambda x: a.T @ (a @ x - y) / len(y)


def soft(theta):
    return lambda x, step: np.sign(x) * np.maximum(np.abs(x) - step * theta, 0)
