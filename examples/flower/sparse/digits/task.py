"""The model, the data, and what is done with them."""

import torch
from sklearn.datasets import load_digits
from torch import nn

import proxfl as px
from proxfl.prox import L1, OnLeaves

BATCH = 32


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


def load_data(partition, partitions):
    """Rows of a client, sorted by digit so that clients differ, and rows for tests."""
    digits = load_digits()
    inputs = torch.tensor(digits.data / 16, dtype=torch.float32)
    target = torch.tensor(digits.target)
    train, test = torch.arange(len(target)) % 5 > 0, torch.arange(len(target)) % 5 == 0
    order = torch.argsort(target[train], stable=True)
    mine = torch.tensor_split(order, partitions)[partition]
    return (inputs[train][mine], target[train][mine]), (inputs[test], target[test])


ALGORITHM = px.DecoupledPartial(eta=0.1, tau=10)
PROBLEM = px.Problem(
    loss=px.torch.TorchLoss(net(), nn.CrossEntropyLoss(reduction="none")),
    g=OnLeaves(L1(1e-3), ("*.weight",)),
    x0=px.torch.parameters(net()),
    batch=BATCH,
)


def accuracy(module, rows):
    inputs, target = rows
    with torch.no_grad():
        return (module(inputs).argmax(1) == target).float().mean().item()
