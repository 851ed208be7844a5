"""The options of a training run on a command line, made from the fields of `Spec`.

Only what is given appears in the result, so that a TOML file can hold the rest; values go through
as they stand, and `Spec` accepts or refuses them, with the same sentence from wherever they come.
"""

import argparse
import dataclasses
import re
import shlex
from collections.abc import Collection, Mapping
from typing import Any

from proxfl.options.kinds import (
    FLAG,
    INTERVAL,
    NON_NEGATIVE,
    PATHS,
    POSITIVE,
    RADIUS,
    SEED,
    SEVERAL,
    SHARE,
    WHOLE,
)
from proxfl.spec import FORMULAS, Spec, describe

COUNTS = {rule.words for rule in (WHOLE, SEED, SEVERAL)}
NUMERIC = COUNTS | {rule.words for rule in (POSITIVE, NON_NEGATIVE, INTERVAL, RADIUS, SHARE)}

# The heading of a group of options, by the first of them in the order of Spec.
HEADINGS = {"target": "data", "loss": "loss", "l1": "penalties", "algorithm": "method"}

# What looks like a negative number; argparse alone takes -1e-3 and -inf for options.
NEGATIVE = re.compile(r"^-(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$|^-inf$", re.IGNORECASE)


def add(parser: argparse.ArgumentParser, without: Collection[str] = ()) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.allow_abbrev = False
    group: Any = parser
    for field in dataclasses.fields(Spec):
        if field.name in HEADINGS:
            group = parser.add_argument_group(HEADINGS[field.name])
            group._negative_number_matcher = NEGATIVE
        if field.name not in without:
            add_one(group, field)
    parser._negative_number_matcher = NEGATIVE


def add_one(group: Any, field: dataclasses.Field) -> None:
    words, told = field.metadata["rule"].words, explain(field)
    if words == PATHS.words:
        group.add_argument(field.name, nargs="*", metavar=field.name.upper(), help=told)
        return
    how: dict[str, Any] = {"dest": field.name, "default": argparse.SUPPRESS, "help": told}
    if words in NUMERIC:
        how |= {"type": number, "metavar": "N" if words in COUNTS else "X"}
    if words == FLAG.words:
        how |= {"action": argparse.BooleanOptionalAction}
    elif words == INTERVAL.words:
        how |= {"nargs": 2, "metavar": ("LO", "HI")}
    elif words == RADIUS.words:
        how |= {"nargs": "?", "const": True}
    elif words.startswith("one of "):
        how |= {"metavar": "|".join(words.removeprefix("one of ").split(", "))}
    group.add_argument(flag(field.name), **how)


def flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def explain(field: dataclasses.Field) -> str:
    told, default = field.metadata["meaning"], field.default
    if default not in (dataclasses.MISSING, None, ()):
        told += f" (default: {str(default).lower() if isinstance(default, bool) else default})"
    return told.replace("%", "%%")


def number(text: str) -> int | float | str:
    """The number a text stands for, or the text, for Spec to refuse."""
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            pass
    return text


def given(args: argparse.Namespace, kind: Any = Spec) -> dict[str, Any]:
    """The options on the command line, by their names in Spec or another such class."""
    names = [field.name for field in dataclasses.fields(kind)]
    return {name: value for name in names if (value := getattr(args, name, [])) != []}


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
    lines += [f"  {loss:9} {text.replace('{delta:g}', 'D')}" for loss, text in FORMULAS.items()]
    return "\n".join(lines)
