"""Sparse logistic regression: Algorithm 1 against averaging methods, in one figure."""

import numpy as np

import proxfl as px
from proxfl.data import Design, logistic
from proxfl.losses import Logistic
from proxfl.prox import L1
from proxfl.report import plots


def main():
    design = Design(clients=10, rows=60, features=20, feature_shift=1.0, coef_shift=1.0)
    sites = logistic(design, nonzeros=5, seed=0).sites
    problem = px.Problem(loss=Logistic(), g=L1(0.01), x0=np.zeros(20))
    figure, (ax,) = plots.panels(1)
    for i, algorithm in enumerate(
        [px.Decoupled(0.02, 2.0, 10), px.FedDA(0.02, 2.0, 10), px.FedMid(0.02, 2.0, 10)]
    ):
        history = px.simulate(algorithm, problem, sites, rounds=400).history
        name = type(algorithm).__name__
        ax.plot(history["round"], history["optimality"], color=plots.COLOURS[i], label=name)
    plots.label(ax, "Full gradients, tau = 10", "communication round", "optimality")
    return figure


if __name__ == "__main__":
    main().savefig("first_steps.png", dpi=150)
