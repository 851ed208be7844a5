"""An Equinox network that drops inputs.

A group penalty on the first layer, `pip install equinox`. Whatever is not an array (the activation,
say) is split off first and put back inside the loss.
"""

import equinox as eqx
import jax
import numpy as np

import proxfl as px
from proxfl.prox import GroupL2, OnLeaves

INPUTS, WIDTH = 10, 8


def make_sites(seed=0, clients=5, rows=60):
    """Only the first two of ten inputs matter; every client sees other inputs."""
    rng = np.random.default_rng(seed)
    sites = []
    for _ in range(clients):
        inputs = rng.normal(size=(rows, INPUTS)) + 0.5 * rng.normal(size=INPUTS)
        sites.append((inputs, np.tanh(inputs[:, 0]) - inputs[:, 1]))
    return sites


def main():
    network = eqx.nn.MLP(INPUTS, "scalar", WIDTH, 1, jax.nn.tanh, key=jax.random.key(0))
    params, static = eqx.partition(network, eqx.is_array)

    def loss(params, batch):
        inputs, target = batch
        predict = eqx.combine(params, static)
        return (jax.vmap(predict)(inputs) - target) ** 2 / 2

    # The weights of one input are a column of the first layer: they stay or go together.
    columns = np.tile(np.arange(INPUTS), (WIDTH, 1))
    g = OnLeaves(GroupL2.of(columns, 0.01), ("layers/0/weight",))
    problem = px.Problem(loss=loss, g=g, x0=params)
    algorithm = px.Decoupled(eta=0.05, eta_g=1.0, tau=5)
    result = px.simulate(algorithm, problem, make_sites(), rounds=600)
    weight = result.arrays()["layers/0/weight"]
    used = np.flatnonzero(weight.any(axis=0)).tolist()
    print(f"loss and penalty {result.history['objective'][-1]:.3f}, inputs in use: {used}")
    return result


if __name__ == "__main__":
    main().plot("objective").savefig("equinox.png", dpi=150)
