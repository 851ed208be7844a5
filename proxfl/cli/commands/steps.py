"""`proxfl steps`: the constants of a problem, and what theorems say of steps for it."""

import argparse
from typing import TYPE_CHECKING, Any

from proxfl.cli.shared.arguments import add_own, count, own, pick
from proxfl.errors import InputError

if TYPE_CHECKING:
    from proxfl.algorithms import Decoupled
    from proxfl.research.theory import Constant, Constants, Local

ROUNDS = 2000  # towards F* and the points where constants are measured
SOLVED = 1e-6  # the relative optimality at which the sites' Hessians are those at the solution

MET = {True: "yes", False: "no", None: "not known: rests on an estimate"}

NOTE = """Theorems 3.5 to 3.7 are the paper's; A, B, C1, C2, E, (*) are ours: docs/theory.md.
A and B are of full gradients; --batch N asks what C1 and C2 say of minibatches of N rows.
E is an estimate by the Hessians at the point that a run came to, and of full gradients. Not checked
is that no part of the model is just about to be dropped or taken up there (nondegeneracy), nor that
every prox is smooth around it. Of runs that start far away E says nothing."""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--problem", default="l1-least-squares", metavar="NAME")
    add_own(parser)
    parser.add_argument("--local-steps", type=count, default=10, metavar="N")
    parser.add_argument(
        "--batch", type=count, default=None, metavar="N", help="rows per gradient (default: all)"
    )
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
    tau, eta_g = args.local_steps, args.eta_g
    asked = None if args.eta is None else Decoupled(args.eta, eta_g, tau)
    with precision(np.float64):
        shipped = make(0)
        noisy = (args.batch or shipped.problem.batch) is not None
        constants, local = measure(shipped)
        proposals = theory.propose(constants, tau, eta_g, noisy)
        steps = asked or proposals[-1].steps
        met = conditions(constants, local, steps, noisy)
        near = near_the_solution(local, eta_g, tau)
    show("Constants", ["constant", "value", "holds"], table(constants))
    rows = [[name, s.eta, s.eta_g, tau, s.eta_round, standing] for name, s, standing in proposals]
    show("Steps to use", ["which", "eta", "eta_g", "tau", "eta_round", "standing"], rows)
    show(f"Near the solution, with eta_g = {eta_g:g} and tau = {tau}", ["what", "eta_round"], near)
    title = "The steps you gave" if asked else "The steps to try first, by the theorems"
    show(title, ["theorem", "condition", "met"], met)
    print(NOTE)
    return 0


def conditions(
    constants: "Constants", local: "Local | None", steps: "Decoupled", noisy: bool
) -> list[list]:
    """A row for every demand, with all theorems that make it."""
    from proxfl.research import theory

    demands: dict[tuple[str, bool | None], list[str]] = {}
    for one in theory.conditions(constants, steps, noisy):
        demands.setdefault((one.sentence, one.holds), []).append(one.theorem)
    rows = [["; ".join(names), words, MET[holds]] for (words, holds), names in demands.items()]
    if local is not None and local.size:
        radius = local.radius(float(steps.eta_round), float(steps.eta_g), steps.tau)
        sentence = f"the spectral radius of a round near the solution is {radius:.4g}, below 1"
        rows.append(["E", sentence, "by this estimate, " + MET[radius < 1]])
    return rows


def table(constants: "Constants") -> list[list[Any]]:
    def row(name: str, constant: "Constant") -> list[Any]:
        return [name, constant.value, "proven" if constant.proven else "estimate, seen on a path"]

    contraction = {
        "mu, proximal PL": constants.proximal_pl,
        "mu, strong convexity": constants.strong_convexity,
    }.items()
    return [
        row("L, of the most curved client", constants.smoothness),
        row("L_f, of the mean loss", constants.mean_smoothness),
        row("sigma^2, of one sample's gradient", constants.variance),
        *(row(name, mu) if mu.known else [name, "not known", ""] for name, mu in contraction),
        row("B_g, subgradients of g", constants.subgradient),
    ]


def near_the_solution(local: "Local | None", eta_g: float, tau: int) -> list[list[Any]]:
    """The local limit: no promise for runs from afar."""
    if local is None:
        return [["stable up to", "not computed: too large, or the solution was not reached"]]
    return [["stable up to, an estimate by the sites' Hessians", local.longest_stable(eta_g, tau)]]


def measure(shipped: Any) -> "tuple[Constants, Local | None]":
    """The constants along a run to the solution, and the problem there, if the run got there."""
    import jax
    import jax.numpy as jnp

    from proxfl.algorithms import Accelerated, Decoupled
    from proxfl.engine.measure import ObjectiveValue, optimality
    from proxfl.engine.simulate import simulate
    from proxfl.engine.smoothness import mean_curvature_bound
    from proxfl.research import theory

    problem, shards = shipped.problem.normalised(), shipped.shards
    L = float(mean_curvature_bound(problem, shards, problem.x0, jax.random.key(0)))
    if not L > 0:
        raise InputError(f"The loss has curvature {L} at the start, so no theorem gives a step.")
    seen = {"objective": ObjectiveValue(), "optimality": optimality(problem, shards, 1 / L)}
    method = Accelerated(Decoupled(1 / L))
    options: Any = {"rounds": ROUNDS, "every": ROUNDS, "observe": seen, "progress": False}
    result = simulate(method, problem, shards, **options)
    solution = jax.tree.map(jnp.asarray, result.model)
    path = [problem.x0, (problem.x0 + solution) / 2, solution]
    constants = theory.estimate(problem, shards, path, float(result.history["objective"][-1]))
    solved = result.history["optimality"][-1] <= SOLVED
    return constants, theory.linearise(problem, shards, solution) if solved else None
