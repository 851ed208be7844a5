"""`proxfl compare`: a league table of methods, each tuned on the same budget."""

import argparse
from pathlib import Path

QUICK = ("l1-least-squares",)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--problem",
        action="append",
        metavar="NAME",
        help="one of the shipped problems (repeatable; default: all, or the lasso with --quick)",
    )
    parser.add_argument(
        "--method",
        action="append",
        metavar="NAME",
        help="a method of the table (repeatable; default: all)",
    )
    parser.add_argument(
        "--sites",
        nargs="+",
        type=Path,
        metavar="FILE",
        help="your own files, one per site, in place of a shipped problem",
    )
    parser.add_argument("--config", type=Path, help="with --sites: a TOML file as for train")
    parser.add_argument("--local-steps", type=int, default=5, metavar="N")
    parser.add_argument("--rounds", type=int, default=None, metavar="N")
    parser.add_argument(
        "--draws", type=int, default=None, metavar="N", help="data sets per problem"
    )
    parser.add_argument("--quick", action="store_true", help="one problem, few rounds, one draw")
    parser.add_argument("--out", type=Path, default=Path("out/compare"), help="result folder")


def run(args: argparse.Namespace) -> int:
    from proxfl.cli.tables import show
    from proxfl.league.entrants import ENTRANTS
    from proxfl.league.show import SHORT, ranked, write
    from proxfl.league.table import play
    from proxfl.problems import PROBLEMS
    from proxfl.progress import progress

    chosen = [pick(ENTRANTS, name, "method") for name in args.method or ENTRANTS]
    if args.sites:
        problems = {"your sites": own(args)}
    else:
        names = args.problem or (QUICK if args.quick else tuple(PROBLEMS))
        problems = {name: pick(PROBLEMS, name, "problem") for name in names}
    rounds = args.rounds or (200 if args.quick else 1500)
    draws = args.draws or (1 if args.quick or args.sites else 5)
    results = {}
    for name, problem in problems.items():
        with progress(name, len(chosen)) as report:
            results[name] = play(
                chosen, problem, tau=args.local_steps, rounds=rounds, seeds=draws, report=report
            )
        table = ranked(results[name])[["method", *SHORT]]
        show(name, list(table), table.values.tolist())
    command = f"proxfl compare{' --quick' if args.quick else ''}"
    print(f"Report: {write(results, args.out, command)}")
    return 0


def pick(table, name: str, what: str):
    if name not in table:
        raise ValueError(f"There is no {what} {name!r}; the table has {', '.join(table)}.")
    return table[name]


def own(args: argparse.Namespace):
    """The user's files as a problem: one data set, whatever the draw."""
    import numpy as np

    from proxfl.fit.agreement import agree, prepare, problem_of, summarise
    from proxfl.penalties import read_files
    from proxfl.precision import precision
    from proxfl.problem import shards_of
    from proxfl.problems import Shipped
    from proxfl.spec import Spec
    from proxfl.tables import read_sites

    if args.config is None:
        raise ValueError("--sites needs --config FILE, which says target, loss and penalty.")
    spec = read_files(Spec.from_toml(args.config, {"sites": [str(p) for p in args.sites]}))
    tables = read_sites(spec.sites, spec.target, spec.missing)
    agreement = agree(spec, {table.name: summarise(table, spec) for table in tables})
    with precision(np.float64):
        examples = [prepare(table, spec, agreement) for table in tables]
        shards = shards_of(examples, list(agreement.weights))
        made = Shipped(problem_of(spec, agreement), shards, None)
    return lambda seed: made
