"""`proxfl demo`: the fast form of `proxfl reproduce fig1`, after a first result within seconds."""

import argparse
from pathlib import Path

from proxfl.cli.shared.arguments import folder


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", type=folder, default=Path("out/demo"), help="result folder")


def main(args: argparse.Namespace) -> int:
    from proxfl.cli.commands import reproduce

    print("Sparse logistic regression over 30 clients with heterogeneous data (Figure 1).")
    first_result()
    print("The same on more draws, with more methods:", flush=True)
    return reproduce.main(argparse.Namespace(target="fig1", out=args.out, quick=True))


def first_result() -> None:
    """One draw, ours and the method that most would try first."""
    from proxfl.algorithms import Decoupled, FedMid
    from proxfl.engine.simulate import simulate
    from proxfl.research.reproduce.fig1_runs import ROUNDS, draws

    draw, tau = next(draw for draw in draws(1) if draw.panel == "calibrated"), 10
    for name, method in {
        "Algorithm 1": Decoupled(draw.eta, 15.0, tau),
        "FedMid": FedMid(draw.eta / 4, 5.0, tau),
    }.items():
        result = simulate(method, draw.problem, draw.shards, rounds=ROUNDS[tau], progress=False)
        end = result.history["optimality"][-1]
        after = f"of the start's after {ROUNDS[tau]} rounds"
        print(f"  {name}: optimality {end:.1e} {after}", flush=True)
