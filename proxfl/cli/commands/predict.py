"""`proxfl predict MODEL FILE`: a line of CSV for each row of a file."""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from proxfl.cli.commands.evaluate import loaded
from proxfl.console.words import csv_text, printable
from proxfl.errors import InputError
from proxfl.options.kinds import as_number


def arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("model", type=Path, metavar="MODEL", help="a result folder or model.json")
    add("file", type=Path, metavar="FILE", help="the rows, with the model's columns")
    add("--out", type=Path, metavar="FILE.csv", help="write there, not to stdout")
    add("--schema", type=Path, metavar="FILE.toml", help="in place of the model's own")
    add("--proba", action="store_true", help="add a probability for each class")
    chance = "of a survival model: add the chance to be without an event at these times"
    add("--times", type=float, nargs="+", metavar="T", help=f"{chance}, by the hazard of --site")
    add("--site", metavar="NAME", help="the site whose hazard to take")
    own = "of a model with site intercepts: the one to take, or a file of the rows it is best for"
    add("--intercept", metavar="X|FILE", help=own)


def main(args: argparse.Namespace) -> int:
    from proxfl.storage.files import write_text

    given = None if args.intercept is None else as_number(args.intercept)
    own = float(given) if isinstance(given, int) else given
    own = Path(own) if isinstance(own, str) else own
    applied = loaded(args.model, args.schema).at_site(own)
    text = predictions(applied, args)
    told = how_good(applied, args.file)
    if args.out is None:
        sys.stdout.write(text)
    elif args.out.exists() and args.out.samefile(args.file):
        raise InputError(f"{args.out}: this is the file with the rows; choose another with --out.")
    else:
        write_text(args.out, text)
        told += f"Predictions: {printable(args.out)}\n"
    print(told, end="", file=sys.stderr)
    return 0


def predictions(applied: Any, args: argparse.Namespace) -> str:
    """One line per row: its identifiers, what is predicted and, if so asked, probabilities."""
    import numpy as np

    model, file, proba = applied.model, args.file, args.proba
    if proba and not model.classes:
        raise InputError(f"A {model.loss} model has no probabilities; leave out --proba.")
    A, offset = applied.features(file), applied.offset(file)
    columns = identifiers(applied, file) | predicted(model, model.predict(A, offset))
    columns |= chances_of(args, applied.held, model.scores(A, offset))
    if proba:
        each = model.probabilities(A, offset)
        names = [f"probability_{label}" for label in model.classes]
        columns |= dict(zip(names, np.asarray(each).T.tolist(), strict=True))
    return csv_text([list(columns), *zip(*columns.values(), strict=True)])


def predicted(model: Any, values: Any) -> dict[str, list[Any]]:
    """A column, or one for each target."""
    if values.ndim == 1:
        return {"prediction": values.tolist()}
    each = zip(model.outputs, values.T.tolist(), strict=True)
    return {f"prediction_{name}": column for name, column in each}


def identifiers(applied: Any, file: Path) -> dict[str, list[Any]]:
    """The columns of a file that its schema calls identifiers, as they stand."""
    from proxfl.tables.formats import read_frame

    if applied.schema is None or not applied.schema.identifiers:
        return {}
    frame = read_frame(file, None, applied.schema.texts)
    held = [name for name in applied.schema.identifiers if name in frame.columns]
    return {name: frame[name].astype("string").fillna("").tolist() for name in held}


def how_good(applied: Any, file: Path) -> str:
    """A sentence, if the file has the target too."""
    from proxfl.report.evaluation import cell
    from proxfl.train.evaluate import evaluate

    try:
        found = evaluate(applied, [file], draws=0).overall
    except InputError:  # there is no target, or not in every row
        return ""
    told = [f"{name.replace('_', ' ')} {cell(found, name)}" for name in found.scores]
    return f"The target is there: {', '.join(told)}.\n"


def chances_of(args: argparse.Namespace, held: Mapping[str, Any], scores: Any) -> dict[str, Any]:
    """A column for each time asked for."""
    from proxfl.train.survival import chances

    if args.times is None and args.site is None:
        return {}
    if "survival" not in held:
        raise InputError(
            "The model has no hazards of sites: only survival models have, and of these not those "
            "that come of sums over sites; leave out --times and --site."
        )
    if args.times is None or args.site is None:
        raise InputError("--times and --site go together: hazards are those of a site.")
    found = chances(held["survival"], args.site, scores, args.times)
    return {f"without_event_{t:g}": c.tolist() for t, c in zip(args.times, found.T, strict=True)}
