"""What the parsers of commands share: when they are filled, kinds of arguments, and a problem."""

import argparse
import ipaddress
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from proxfl.console.words import printable
from proxfl.errors import BAD_INPUT, InputError
from proxfl.options.kinds import BILLION

LONGEST = 50  # characters of a target in the name of a folder


class LazyParser(argparse.ArgumentParser):
    """Learns its arguments when it is first used, so that no command waits for those of others."""

    fill: Callable[[argparse.ArgumentParser], None] | None = None

    def filled(self) -> "LazyParser":
        fill, self.fill = self.fill, None
        if fill is not None:
            fill(self)
        return self

    def error(self, message: str) -> NoReturn:
        """One sentence, without the usage, in which it would be lost."""
        self.exit(BAD_INPUT, f"{self.prog}: {printable(message)}; see {self.prog} --help.\n")

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
    found = int(text) if text.isdecimal() and len(text) < 20 else 0
    if not 1 <= found <= BILLION:
        limit = f"a whole number of at least 1, and at most {BILLION}"
        raise argparse.ArgumentTypeError(f"needs {limit}, got {text!r}")
    return found


def port(text: str) -> int:
    """A TCP port."""
    found = int(text) if text.isdecimal() and len(text) < 6 else 0
    if not 1 <= found <= 65535:
        raise argparse.ArgumentTypeError(f"needs a port from 1 to 65535, got {text!r}")
    return found


def host(text: str) -> str:
    """A name or an address of a machine; which of them there are, only the network knows."""
    bare = text.removeprefix("[").removesuffix("]")
    with suppress(ValueError):
        return str(ipaddress.ip_address(bare)) and text
    labels = text.removesuffix(".").split(".")
    named = all(re.fullmatch(r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?", x) for x in labels)
    if not named or labels[-1].isdecimal() or len(text) > 253:
        raise argparse.ArgumentTypeError(
            f"needs the name or the address of a machine, got {text!r}"
        )
    return text


def address(text: str) -> str:
    """HOST:PORT."""
    name, colon, number = text.rpartition(":")
    if not colon or (":" in name and not name.startswith("[")):
        raise argparse.ArgumentTypeError(f"needs HOST:PORT, got {text!r}")
    for check, part in ((host, name), (port, number)):
        check(part)
    return text


def folder(text: str) -> Path:
    """A folder to write to, there already or not."""
    if not text:
        raise argparse.ArgumentTypeError("needs the name of a folder, got none")
    path = Path(text)
    taken = next((p for p in (path, *path.parents) if p.exists() and not p.is_dir()), None)
    if taken is not None:
        raise argparse.ArgumentTypeError(f"{taken} is a file; name a folder")
    return path


def unused(command: str, target: str) -> Path:
    """A folder that is not there yet, named after the target."""
    name = f"{command}-" + re.sub(r"[^\w.-]+", "-", target)[:LONGEST]
    number, path = 1, Path("out", name)
    while path.exists():
        number += 1
        path = Path("out", f"{name}-{number}")
    return path


def add_folder(
    parser: argparse.ArgumentParser, which: str = "the folder of the federation"
) -> None:
    parser.add_argument("folder", type=Path, metavar="DIR", help=which)


def add_config(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", type=Path, metavar="FILE.toml", help="a file of options")


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object")


def refuse_there(path: Path | None) -> None:
    """A file that is written once is not written over."""
    if path is not None and path.exists():
        raise InputError(f"{path}: there is such a file already; choose another name.")


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
    from proxfl.research.shipped import Shipped
    from proxfl.train.agreement import problem_of, shards_for
    from proxfl.train.spec import Spec
    from proxfl.train.train import begin

    if args.config is None:
        raise ValueError("--sites needs --config FILE, which says target, loss and penalty.")
    job = begin(Spec.from_toml(args.config, {"sites": [str(path) for path in args.sites]}))
    spec, agreement = job.spec, job.agreement
    with precision(np.float64):
        shards = shards_for(spec, job.tables, agreement, np.array(agreement.weights))
        made = Shipped(problem_of(spec, agreement), shards)
    return lambda seed: made
