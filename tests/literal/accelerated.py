"""Algorithm 1 with an accelerated server step."""

import numpy as np

from tests.literal.base import Method, mean


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
