"""The twin of `proxfl/algorithms/proximal_gradient.py`."""

from tests.literal.base import Method, mean


def proximal_gradient(step) -> Method:
    def run(gradients, prox, x0, rounds):
        x, models = x0, []
        for _ in range(rounds):
            x = prox(x - step * mean([gradient(x) for gradient in gradients]), step)
            models.append(x)
        return models

    return run
