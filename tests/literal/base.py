"""What twins share: the type of a method, means, gradients and the prox of l1."""

from collections.abc import Callable

import numpy as np

Method = Callable[..., list[np.ndarray]]


def mean(vectors):
    return sum(vectors) / len(vectors)


def logistic_gradient(a, y):
    return lambda x: a.T @ (-y / (1 + np.exp(y * (a @ x)))) / len(y)


def squared_gradient(a, y):
    return lambda x: a.T @ (a @ x - y) / len(y)


def soft(theta):
    return lambda x, step: np.sign(x) * np.maximum(np.abs(x) - step * theta, 0)
