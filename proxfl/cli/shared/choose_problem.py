"""Options that name one problem: one that ships with ProxFL, or the user's own files."""

import argparse
from pathlib import Path
from typing import Any


def add_own(parser: argparse.ArgumentParser) -> None:
    instead = "your own files, one per site, in place of a shipped problem"
    parser.add_argument("--sites", nargs="+", type=Path, metavar="FILE", help=instead)
    parser.add_argument("--config", type=Path, help="with --sites: a TOML file as for train")


def pick(table: Any, name: str, what: str) -> Any:
    if name not in table:
        raise ValueError(f"There is no {what} {name!r}; the table has {', '.join(table)}.")
    return table[name]


def own(args: argparse.Namespace) -> Any:
    """The user's files as a problem: one data set, whatever the draw."""
    import numpy as np

    from proxfl.precision import precision
    from proxfl.problem import shards_of
    from proxfl.research.shipped import Shipped
    from proxfl.train.agreement import prepare, problem_of
    from proxfl.train.spec import Spec
    from proxfl.train.train import begin

    if args.config is None:
        raise ValueError("--sites needs --config FILE, which says target, loss and penalty.")
    job = begin(Spec.from_toml(args.config, {"sites": [str(path) for path in args.sites]}))
    spec, agreement = job.spec, job.agreement
    with precision(np.float64):
        examples = [prepare(table, spec, agreement) for table in job.tables]
        shards = shards_of(examples, list(agreement.weights))
        made = Shipped(problem_of(spec, agreement), shards)
    return lambda seed: made
