"""Modules and rows for the tests of this folder; needs PyTorch."""

import jax
import jax.numpy as jnp
import numpy as np
import torch
import torch.nn as nn

from tests import cases

INPUTS, CLASSES = 6, 3


class Linear(nn.Module):
    """The model of `cases.problem()`: one score per row."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(cases.D, dtype=torch.float64))

    def forward(self, rows):
        return rows @ self.weight


def logistic(scores, labels):
    return nn.functional.softplus(-labels * scores)


def entropy(scores, labels):
    return nn.functional.cross_entropy(scores, labels, reduction="none")


def network(kind=torch.float64):
    torch.manual_seed(0)
    layers = nn.Linear(INPUTS, 5), nn.Tanh(), nn.Linear(5, CLASSES)
    return nn.Sequential(*layers).to(kind)


def network_in_jax(params, batch):
    """The same, written again; parameters by the same names."""
    rows, labels = batch
    hidden = jnp.tanh(rows @ params["0.weight"].T + params["0.bias"][None])
    scores = hidden @ params["2.weight"].T + params["2.bias"][None]
    chosen = jnp.take_along_axis(scores, labels[:, None], axis=1)[:, 0]
    return jax.nn.logsumexp(scores, axis=1) - chosen


def sites(clients=4, seed=0, kind=np.float64):
    """Unequal ones, so that some are padded."""
    rng = np.random.default_rng(seed)
    return [
        (rng.normal(size=(5 + i, INPUTS)).astype(kind), rng.integers(0, CLASSES, 5 + i))
        for i in range(clients)
    ]
