"""The options of a training run on a command line, made from the table of `Spec`.

Only what is given appears in the result, so that a TOML file can hold the rest; values go through
as they stand, and `Spec` accepts or refuses them, with the same sentence from wherever they come.
"""

import argparse
import re
import shlex
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from proxfl.errors import InputError
from proxfl.options import Option, Options
from proxfl.options.option import REQUIRED
from proxfl.tables.files import is_libsvm
from proxfl.train.spec import Spec, convex_losses, describe, sections

# What looks like a negative number; argparse alone takes -1e-3 and -inf for options.
NEGATIVE = re.compile(r"^-(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$|^-inf$", re.IGNORECASE)


def add(parser: argparse.ArgumentParser, without: Collection[str] = ()) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.allow_abbrev = False
    for heading, options in sections().items():
        group: Any = parser.add_argument_group(heading)
        group._negative_number_matcher = NEGATIVE
        for option in options:
            if option.key not in without:
                add_one(parser if option.kind.by_place else group, option)
    parser._negative_number_matcher = NEGATIVE  # type: ignore[attr-defined]


def add_one(group: Any, option: Option) -> None:
    how: dict[str, Any] = {"help": explain(option), **option.kind.typed}
    if option.kind.by_place:
        group.add_argument(option.key, metavar=option.key.upper(), **how)
    else:
        group.add_argument(flag(option.key), dest=option.key, default=argparse.SUPPRESS, **how)


def flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def explain(option: Option) -> str:
    told, default = ", ".join(filter(None, [option.meaning, option.kind.in_help])), option.default
    if default is not REQUIRED and default not in (None, ()):
        told += f" (default: {str(default).lower() if isinstance(default, bool) else default})"
    return told.replace("%", "%%")


def given(args: argparse.Namespace, kind: type[Options] = Spec) -> dict[str, Any]:
    """The options on the command line, by their keys."""
    return {key: value for key in kind.table() if (value := getattr(args, key, [])) != []}


def spec_of(args: argparse.Namespace, given: Mapping[str, Any], others: Iterable[str] = ()) -> Spec:
    """The spec of the options given and those of the file given with --config."""
    if args.config is not None:
        return Spec.from_toml(args.config, given, tuple(others))
    sites = given.get("sites", ())
    if not sites and (taken := [name for name in given.get("target", ()) if Path(name).exists()]):
        raise InputError(
            f"--target takes all names that follow it, {taken[0]!r} too; put files before it."
        )
    if sites and "target" not in given and all(is_libsvm(Path(site)) for site in sites):
        given = {"target": "y", **given}  # which LIBSVM has no name for
    return Spec.from_dict(given)


def typed(command: str, args: argparse.Namespace, given: Mapping[str, Any]) -> str:
    """The command as one would type it."""
    return f"proxfl {command} {spelt(given)}" + (f" --config {args.config}" if args.config else "")


def spelt(options: Mapping[str, Any]) -> str:
    """The same options as one would type them."""
    parts: list[Any] = list(options.get("sites", ()))
    for name, value in options.items():
        if name == "sites":
            continue
        if isinstance(value, bool):
            parts.append(flag(name) if value else flag("no_" + name))
        else:
            parts += [flag(name), *(value if isinstance(value, list | tuple) else [value])]
    return shlex.join(map(str, parts))


def conventions() -> str:
    """What the options mean in formulas, for the end of a help text."""
    example = Spec(target="y", loss="logistic", l1=0.1, l2=0.5, nonneg=True)
    lines = ["With --loss logistic --l1 0.1 --l2 0.5 --nonneg, for instance, the problem is", ""]
    lines += ["  " + line for line in describe(example).splitlines()]
    lines += ["", "and the losses of a row with score z and target y are", ""]
    named = lambda formula: re.sub(r"{(\w+).*?}", lambda field: field[1].upper(), formula)
    lines += [f"  {name:9} {named(loss.formula)}" for name, loss in convex_losses().items()]
    return "\n".join(lines)
