"""`proxfl sweep`: a grid or a random search over steps and penalty, in one compiled program."""

import argparse
import math
from pathlib import Path

from proxfl.cli.shared.arguments import count, folder, pick
from proxfl.errors import InputError

MOST = 10_000  # points of a sweep


def span(text: str) -> tuple[float, float, int]:
    """LOW:HIGH:POINTS."""
    try:
        low, high, points = text.split(":")
        found = float(low), float(high), int(points)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not LOW:HIGH:POINTS") from None
    if not 0 < found[0] <= found[1] < math.inf or not 1 <= found[2] <= MOST:
        raise argparse.ArgumentTypeError(f"{text!r} needs 0 < LOW <= HIGH and 1 to {MOST} POINTS")
    return found


def arguments(parser: argparse.ArgumentParser) -> None:
    add, spanned = parser.add_argument, {"type": span, "metavar": "LOW:HIGH:POINTS"}
    add("--problem", default="l1-least-squares", metavar="NAME")
    method = "a method with eta, eta_g and tau"
    add("--algorithm", default="decoupled", metavar="NAME", help=method)
    add("--eta", default=(1e-3, 1.0, 12), **spanned)
    add("--eta-g", default=(1.0, 16.0, 5), **spanned)
    add("--theta", help="weights of an l1 penalty (default: the problem's own)", **spanned)
    add("--tau", type=count, nargs="+", default=[1, 10], metavar="N")
    sizes = "batch sizes (default: full gradients)"
    add("--batch", type=count, nargs="*", default=[], metavar="N", help=sizes)
    add("--seeds", type=count, default=1, metavar="N")
    drawn = "draw N points in the ranges instead of the whole grid"
    add("--random", type=count, metavar="N", help=drawn)
    add("--rounds", type=count, default=200, metavar="N")
    add("--out", type=folder, default=Path("out/sweep"), help="result folder")


def main(args: argparse.Namespace) -> int:
    from proxfl.console.table import show
    from proxfl.drawing.plots import save_figures
    from proxfl.research.league.search import draw, points, search
    from proxfl.research.shipped import PROBLEMS
    from proxfl.storage.files import whole

    spans = {"eta": args.eta, "eta_g": args.eta_g}
    spans |= {"theta": args.theta} if args.theta else {}
    grid = math.prod(many for _, _, many in spans.values())
    if (args.random or grid) > MOST:
        raise InputError(f"a sweep has at most {MOST} points, got {args.random or grid}.")
    frame = search(
        pick(PROBLEMS, args.problem, "problem"),
        args.algorithm,
        points(spans, args.random),
        taus=args.tau,
        batches=args.batch or [None],
        seeds=args.seeds,
        rounds=args.rounds,
    )
    with whole(args.out / "sweep.csv") as file:
        frame.to_csv(file, index=False, float_format="%.6g")
    save_figures({"sweep": draw(frame)}, args.out)
    best = frame.sort_values("optimality").head(5)
    show("Best points", list(best), best.values.tolist())
    print(f"Table: {args.out / 'sweep.csv'}\nFigure: {args.out / 'sweep.png'}")
    return 0
