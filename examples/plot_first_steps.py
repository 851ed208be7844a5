"""First steps.

Sparse logistic regression over ten clients whose data differ: Algorithm 1 against averaging
methods, which stall.
"""

import numpy as np

import proxfl as px
from proxfl.data import Design, logistic
from proxfl.drawing.curves import compare
from proxfl.losses import Logistic
from proxfl.prox import L1


def main():
    design = Design(clients=10, rows=60, features=20, feature_shift=1.0, coef_shift=1.0)
    sites = logistic(design, nonzeros=5, seed=0).sites
    problem = px.Problem(loss=Logistic(), g=L1(0.01), x0=np.zeros(20))
    methods = {"Decoupled": px.Decoupled, "FedDA": px.FedDA, "FedMid": px.FedMid}
    steps = {"eta": 0.02, "eta_g": 2.0, "tau": 10}
    results = {
        name: px.simulate(method(**steps), problem, sites, rounds=400)
        for name, method in methods.items()
    }
    for name, result in results.items():
        print(f"{name}: optimality {result.history['optimality'][-1]:.1e} after 400 rounds")
    return compare(results, "optimality")


if __name__ == "__main__":
    main().savefig("first_steps.png", dpi=150)
