"""`proxfl compare`: a league table of methods, each tuned on the same budget."""

import argparse
from pathlib import Path

from proxfl.cli.shared.arguments import add_own, count, folder, own, pick

QUICK = ("l1-least-squares",)
TAU = 5


def arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    problems = "one of the leagues (repeatable; default: all, or the lasso with --quick)"
    add("--problem", action="append", metavar="NAME", help=problems)
    methods = "a method of the table (repeatable; default: all that can enter)"
    add("--method", action="append", metavar="NAME", help=methods)
    add_own(parser)
    add("--local-steps", type=count, default=TAU, metavar="N")
    rounds = "of a run (default: 600, or 200 with --quick)"
    add("--rounds", type=count, metavar="N", help=rounds)
    draws = "data sets per problem besides those for tuning (default: 10, or 1)"
    add("--draws", type=count, metavar="N", help=draws)
    add("--quick", action="store_true", help="one problem, few rounds, one draw")
    add("--out", type=folder, default=Path("out/compare"), help="result folder")


def main(args: argparse.Namespace) -> int:
    from proxfl.console.progress import progress
    from proxfl.console.table import show
    from proxfl.research.league.entrants import ENTRANTS
    from proxfl.research.league.show import NARROW, is_saved, parts, printed, read, save, write
    from proxfl.research.league.standings import play
    from proxfl.research.shipped import CONDITIONS, PROBLEMS

    chosen = [pick(ENTRANTS, name, "method") for name in args.method or ENTRANTS]
    if args.sites:
        problems = {"your sites": own(args)}
    else:
        known = PROBLEMS | CONDITIONS
        names = args.problem or (QUICK if args.quick else tuple(known))
        if not set(names) <= set(known):
            from proxfl.research.real.problems import LEAGUES  # which needs scikit-learn

            known = known | LEAGUES
        problems = {name: pick(known, name, "problem") for name in names}
    rounds = args.rounds or (200 if args.quick else 600)
    draws = args.draws or (1 if args.quick or args.sites else 10)
    for name, problem in problems.items():
        settings = dict(tau=args.local_steps, rounds=rounds, seeds=draws)
        about = settings | {"methods": [entrant.name for entrant in chosen], "data": digest(args)}
        if not is_saved(name, args.out, about):  # else it was done before an interruption
            with progress(name, len(chosen)) as report:
                kept = parts(name, args.out, about)
                shown = play(chosen, problem, kept, report=report, **settings)
                save(shown, name, args.out, about)
        table = printed(read(name, args.out))[list(NARROW)]
        show(name, list(table), table.values.tolist())
    print(f"Report: {write(list(problems), args.out, spelt(args))}")
    return 0


def digest(args: argparse.Namespace) -> str:
    """What tells the user's files and problem from others; nothing for those that ship."""
    import hashlib

    parts = [path.read_bytes() for path in (*(args.sites or ()), args.config) if path]
    return hashlib.sha256(b"".join(hashlib.sha256(p).digest() for p in parts)).hexdigest()


def spelt(args: argparse.Namespace) -> str:
    """The command as one would type it."""
    words = ["proxfl compare", *(["--quick"] if args.quick else [])]
    words += [f"--problem {name}" for name in args.problem or []]
    words += [f"--method '{name}'" for name in args.method or []]
    words += ["--sites", *map(str, args.sites), f"--config {args.config}"] if args.sites else []
    words += [f"--local-steps {args.local_steps}"] if args.local_steps != TAU else []
    words += [f"--rounds {args.rounds}"] if args.rounds else []
    words += [f"--draws {args.draws}"] if args.draws else []
    return " ".join(words)
