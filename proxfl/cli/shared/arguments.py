"""What the parsers of commands share: when they are filled, kinds of arguments, and a problem."""

import argparse
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from proxfl.errors import InputError


class LazyParser(argparse.ArgumentParser):
    """Learns its arguments when it is first used, so that no command waits for those of others."""

    fill: Callable[[argparse.ArgumentParser], None] | None = None

    def filled(self) -> "LazyParser":
        fill, self.fill = self.fill, None
        if fill is not None:
            fill(self)
        return self

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:  # type: ignore[override]
        self.filled()
        return super().parse_known_args(args, namespace)


def add_commands(
    parser: argparse.ArgumentParser,
    kind: str,
    lines: Mapping[str, str],
    module: Callable[[str], Any],
) -> None:
    """One parser for each command, from its line of help and the `arguments` of its module."""
    commands = parser.add_subparsers(
        dest=kind, metavar=kind.upper(), required=True, parser_class=LazyParser
    )
    for name, line in lines.items():
        command = commands.add_parser(name, help=line, description=f"{line[0].upper()}{line[1:]}.")
        command.fill = lambda parser, name=name: module(name).arguments(parser)


def count(text: str) -> int:
    """A whole number of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"needs a whole number of at least 1, got {text!r}")
    return int(text)


def folder(text: str) -> Path:
    """A folder to write to, there already or not."""
    path = Path(text)
    taken = next((p for p in (path, *path.parents) if p.exists() and not p.is_dir()), None)
    if taken is not None:
        raise argparse.ArgumentTypeError(f"{taken} is a file; name a folder")
    return path


def refuse_full(folder: Path, remedy: str = "choose another with --out") -> None:
    """Results may go to a folder that holds nothing, or is not there yet."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder}: the folder is not empty; {remedy}.")


def unused(command: str, target: str) -> Path:
    """A folder that is not there yet, named after the target."""
    name = f"{command}-" + re.sub(r"[^\w.-]+", "-", target)
    number, path = 1, Path("out", name)
    while path.exists():
        number += 1
        path = Path("out", f"{name}-{number}")
    return path


def add_own(parser: argparse.ArgumentParser) -> None:
    instead = "your own files, one per site, in place of a shipped problem"
    parser.add_argument("--sites", nargs="+", type=Path, metavar="FILE", help=instead)
    parser.add_argument("--config", type=Path, help="with --sites: a TOML file as for train")


def pick(table: Any, name: str, what: str) -> Any:
    if name not in table:
        raise ValueError(f"There is no {what} {name!r}; the table has {', '.join(table)}.")
    return table[name]


def own(args: argparse.Namespace) -> Any:
    """The user's files in place of a problem that ships: one data set, whatever the draw."""
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
