"""`proxfl steps`: the constants of a problem, and what the paper's theorems say of steps for it."""

import argparse

from proxfl.cli.shared.arguments import add_own, count, own, pick

ROUNDS = 2000  # of proximal gradient, towards F* and the points where constants are measured


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--problem", default="l1-least-squares", metavar="NAME")
    add_own(parser)
    parser.add_argument("--local-steps", type=count, default=10, metavar="N")
    parser.add_argument("--eta", type=float, default=None, help="check this step")
    parser.add_argument("--eta-g", type=float, default=1.0, help="with this one of the server's")


def main(args: argparse.Namespace) -> int:
    import numpy as np

    from proxfl.algorithms import Decoupled
    from proxfl.console.table import show
    from proxfl.precision import precision
    from proxfl.research import theory
    from proxfl.research.shipped import PROBLEMS

    make = own(args) if args.sites else pick(PROBLEMS, args.problem, "problem")
    tau = args.local_steps
    asked = None if args.eta is None else Decoupled(args.eta, args.eta_g, tau)
    with precision(np.float64):
        constants, mean_smoothness = measure(make(0))
    told = [
        ["L, of the most curved client", constants.smoothness],
        ["L of the mean loss", mean_smoothness],
        ["sigma^2, of one sample's gradient", constants.variance],
        ["mu, proximal PL", constants.proximal_pl],
        ["mu, strong convexity", constants.strong_convexity],
        ["B_g, subgradients of g", constants.subgradient],
    ]
    show("Constants, measured on the way to the solution", ["constant", "value"], told)
    proposal = theory.propose(constants, tau, mean_smoothness)
    named = {
        "covered by Theorems 3.5 and 3.6": proposal.theorem_35,
        "covered by Theorem 3.7": proposal.theorem_37,
        "practical: eta_round = 1/L of the mean loss": proposal.practical,
    }
    known = {name: steps for name, steps in named.items() if steps is not None}
    rows = [[name, s.eta, s.eta_g, tau, s.eta_round] for name, s in known.items()]
    show("Steps to use", ["which", "eta", "eta_g", "tau", "eta_round"], rows)
    title = "The steps you gave" if asked else "The practical steps, by the theorems"
    found = theory.conditions(constants, asked or proposal.practical)
    rows = [[c.theorem, c.sentence, "yes" if c.holds else "no"] for c in found]
    show(title, ["theorem", "condition", "met"], rows)
    return 0


def measure(shipped):
    """The constants along a run of proximal gradient, and the smoothness of the mean loss."""
    import jax
    import jax.numpy as jnp

    from proxfl.algorithms import ProximalGradient
    from proxfl.engine.measure import ObjectiveValue
    from proxfl.engine.simulate import simulate
    from proxfl.engine.smoothness import mean_curvature_bound
    from proxfl.research import theory

    problem, shards = shipped.problem.normalised(), shipped.shards
    L = float(mean_curvature_bound(problem, shards, problem.x0, jax.random.key(0)))
    gradient = ProximalGradient(1 / L)
    path, seen = [problem.x0], {"observe": {"objective": ObjectiveValue()}, "progress": False}
    for rounds in (ROUNDS // 100, ROUNDS):
        result = simulate(gradient, problem, shards, rounds=rounds, every=rounds, **seen)
        path.append(jax.tree.map(jnp.asarray, result.model))
    optimum = float(result.history["objective"][-1])
    return theory.estimate(problem, shards, path, optimum), L
