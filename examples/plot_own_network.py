"""A network with a sparse layer.

Trained over clients that differ. Any pytree of parameters and any differentiable loss will do; the
penalty acts on the leaves named.
"""

import jax.numpy as jnp
import numpy as np

import proxfl as px
from proxfl.prox import L1, OnLeaves


def init(seed):
    rng = np.random.default_rng(seed)
    return {
        "first": {"kernel": 0.3 * rng.normal(size=(10, 8)), "bias": np.zeros(8)},
        "last": {"kernel": 0.3 * rng.normal(size=8)},
    }


def loss(params, batch):
    inputs, target = batch
    hidden = jnp.tanh(inputs @ params["first"]["kernel"] + params["first"]["bias"])
    return (hidden @ params["last"]["kernel"] - target) ** 2 / 2


def make_sites(seed=0, clients=6, rows=80):
    """Only the first two of ten inputs matter; every client sees other inputs."""
    rng = np.random.default_rng(seed)
    sites = []
    for _ in range(clients):
        inputs = rng.normal(size=(rows, 10)) + 0.5 * rng.normal(size=10)
        sites.append((inputs, np.sin(inputs[:, 0]) + 0.5 * inputs[:, 1]))
    return sites


def main():
    problem = px.Problem(loss=loss, g=OnLeaves(L1(0.01), ("first/kernel",)), x0=init(0))
    algorithm = px.Decoupled(eta=0.02, eta_g=1.5, tau=5)
    result = px.simulate(algorithm, problem, make_sites(), rounds=3000)
    kernel = result.model.params["first"]["kernel"]
    used = [int(i) for i in jnp.flatnonzero(jnp.abs(kernel).sum(axis=1))]
    print(f"optimality {result.history['optimality'][-1]:.1e}, inputs in use: {used}")
    return result


if __name__ == "__main__":
    main().plot("objective").savefig("own_network.png", dpi=150)
