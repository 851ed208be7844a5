"""More methods as slow NumPy loops written from their papers' equations; see `literal`.

`counts[r]` stands for what a method draws at random in round r, where it draws.
"""

import numpy as np

from tests.literal import Method, mean


def fedprox(eta, eta_g, tau, mu) -> Method:
    def run(gradients, prox, x0, rounds):
        x, models = x0, []
        for _ in range(rounds):
            ends = []
            for gradient in gradients:
                y = x
                for _ in range(tau):
                    y = y - eta * (gradient(y) + mu * (y - x))
                ends.append(y)
            x = x + eta_g * (mean(ends) - x)
            models.append(x)
        return models

    return run


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


def proxskip(eta, tau, counts) -> Method:
    """counts[r] local steps in round r."""

    def run(gradients, prox, x0, rounds):
        a, x, models = eta * tau, x0, []
        h = [np.zeros_like(x0) for _ in gradients]
        for r in range(rounds):
            ends = []
            for i, gradient in enumerate(gradients):
                y = x
                for _ in range(counts[r]):
                    y = y - eta * (gradient(y) - h[i])
                ends.append(y)
            x = prox(mean([ends[i] - a * h[i] for i in range(len(h))]), a)
            h = [h[i] + (x - ends[i]) / a for i in range(len(h))]
            models.append(x)
        return models

    return run


def clip(v, longest):
    length = np.sqrt(v @ v)
    return v * longest / length if length > longest else v


def dp_spider(step, longest, longest_change, period) -> Method:
    """Without its noise."""

    def run(gradients, prox, x0, rounds):
        x, before, models = x0, x0, []
        for r in range(rounds):
            if r % period == 0:
                h = mean([clip(gradient(x), longest) for gradient in gradients])
            else:
                moves = [gradient(x) - gradient(before) for gradient in gradients]
                h = h + mean([clip(move, longest_change) for move in moves])
            x, before = prox(x - step * h, step), x
            models.append(x)
        return models

    return run


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


def anderson_weights(residuals):
    """Weights of sum one with the least mixed residual, by the conditions for that optimum."""
    k, R = len(residuals), np.stack([r / np.linalg.norm(r) for r in residuals], axis=1)
    ridge = 4e3 * np.finfo(float).eps
    lengths = np.array([np.linalg.norm(r) for r in residuals])
    # In b_j = a_j |r_j|: least |R b|^2 + ridge |b|^2 subject to sum b_j / |r_j| = 1.
    system = np.block([[R.T @ R + ridge * np.eye(k), 1 / lengths[:, None]], [1 / lengths, 0.0]])
    return np.linalg.solve(system, np.r_[np.zeros(k), 1.0])[:k] / lengths


def accelerated(eta, eta_g, tau, memory, how) -> Method:
    """Algorithm 1 whose rounds start from mixed results, with its safeguard."""

    def run(gradients, prox, x0, rounds):
        n, big, models = len(gradients), eta * eta_g * tau, []
        x, before, c, kept = x0, x0, [np.zeros_like(x0)] * n, []  # kept: (result, residual)
        mixed, best, pause, penalty, wins, streak = False, np.inf, 0, 1, 0, 0
        for _ in range(rounds):
            p, v = prox(x, big), []
            for i in range(n):
                z_hat, z, total = p, p, np.zeros_like(p)
                for t in range(tau):
                    grad = gradients[i](z)
                    total = total + grad
                    z_hat = z_hat - eta * (grad + c[i])
                    z = prox(z_hat, (t + 1) * eta)
                v.append(total / tau)
            c = [mean(v) - own for own in v]
            result = p - big * mean(v)
            residual = result - x
            size = np.linalg.norm(residual)
            good = not mixed or size <= 2 * best
            best = min(best, size)
            if good:
                kept = ([(result, residual)] + kept)[:memory]
                wins, streak, pause = wins + mixed, streak + 1, max(pause - 1, 0)
                if wins >= memory:
                    wins, penalty = 0, max(penalty / 2, 1)
            else:
                kept, wins, streak, pause, penalty = [], 0, 0, penalty, 2 * penalty
            move = result - before
            if how == "nesterov" and residual @ move < 0:
                streak = 1
            noise = 100 * np.finfo(float).eps * np.linalg.norm(result)
            mixed = good and pause == 0 and streak > 1 and size > noise
            if not mixed:
                x = result if good else before
            elif how == "anderson":
                weights = anderson_weights([r for _, r in kept])
                x = sum(a * result for a, (result, _) in zip(weights, kept, strict=True))
            else:
                x = result + (streak - 1) / (streak + 2) * move
            before = result
            models.append(prox(x, big))
        return models

    return run
