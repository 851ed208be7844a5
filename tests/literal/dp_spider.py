"""The twin of `proxfl/algorithms/dp_spider.py`."""

import numpy as np

from tests.literal.base import Method, mean


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
