"""A low-rank model.

Regression onto several outputs at once: the nuclear norm finds the rank of the truth.
"""

import numpy as np

import proxfl as px
from proxfl.data import Design, low_rank
from proxfl.engine.measure import ObjectiveValue, Rank
from proxfl.losses import Squared
from proxfl.prox import Nuclear


def main():
    data = low_rank(Design(clients=8, rows=60, features=12), outputs=6, rank=2, seed=0)
    problem = px.Problem(loss=Squared(), g=Nuclear(0.3), x0=np.zeros((12, 6)))
    result = px.simulate(
        px.Decoupled(eta=0.05, eta_g=2.0, tau=3),
        problem,
        data.sites,
        rounds=500,
        observe={"rank": Rank(), "objective": ObjectiveValue()},
    )
    print(f"rank of the truth: {np.linalg.matrix_rank(data.truth)}")
    print(f"rank of the model: {int(result.history['rank'][-1])}")
    return result


if __name__ == "__main__":
    main().plot("rank").savefig("low_rank.png", dpi=150)
