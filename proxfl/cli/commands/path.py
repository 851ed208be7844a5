"""`proxfl path SITES... --target COLUMN --loss LOSS`: which weight, and the model it gives."""

import argparse
import json
import math
import sys
import warnings
from pathlib import Path
from typing import Any

from proxfl.cli.shared import options
from proxfl.cli.shared.arguments import add_config, add_json, unused
from proxfl.console.progress import progress
from proxfl.console.table import show as table
from proxfl.console.words import printable
from proxfl.errors import DONE, NOT_CONVERGED, InputError
from proxfl.storage.documents import read_json
from proxfl.storage.files import refuse_full
from proxfl.storage.toml import read_toml
from proxfl.train.choice import Choice
from proxfl.train.drivers.fixed import applies
from proxfl.train.folder import CHOSEN, REPORT, read
from proxfl.train.folds import deal, path_with_folds
from proxfl.train.spec import Spec, outcome_of
from proxfl.train.train import ConvergenceWarning, begin, read_tables, run

EPILOG = """
The weight of one penalty runs from the smallest that leaves an empty model down a grid. Every
weight is scored on rows that were left out: each site deals its own rows to folds (--by rows), or
each site is left out once (--by sites). The chosen model is refitted on all rows.

A TOML file given with --config holds the same options, spelt with underscores; those on the command
line win over it, and a weight there that the path runs along is not used.

Results go to a folder: path.csv, coefficients.csv, folds.csv, stability.csv, figures, report.html,
path.json, and model/ with the files of 'proxfl train'.
Exit codes: 0 converged, 2 bad input (nothing written), 3 the chosen model is not converged, 4 the
disk is full or read-only (nothing written), 130 interrupted (nothing written).
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    options.add(parser)
    add_choice(parser)
    add_config(parser)
    add_json(parser)
    parser.epilog = options.conventions() + "\n" + EPILOG


def add_choice(parser: argparse.ArgumentParser) -> None:
    group: Any = parser.add_argument_group("path")
    for option in Choice.table().values():
        options.add_one(group, option)


def main(args: argparse.Namespace) -> int:
    from proxfl.report import path as path_folder

    spec, choice = asked(args)
    where = unused("path", outcome_of(spec)) if spec.out is None else Path(spec.out)
    refuse_full(where)
    command = options.typed("path", args, options.given(args) | options.given(args, Choice))
    found = work(spec, choice)
    path_folder.write(where, found, command)
    return show_saved(where, args.json)


def show_saved(where: Path, as_json: bool) -> int:
    """A path as its folder has it; the exit code says whether the chosen model is certified."""
    from proxfl.report.path import SUMMARY, Summary

    told, chosen = read_json(where / SUMMARY, Summary), read(where / CHOSEN)
    if as_json:
        print(in_json(told, where))
        print(f"Results: {printable(where)}", file=sys.stderr)
    else:
        show(told, chosen, where)
    if chosen.model["certificate"]["converged"]:
        return DONE
    print("The certificate of the chosen model is not met; allow more --rounds.", file=sys.stderr)
    return NOT_CONVERGED


def asked(args: argparse.Namespace) -> tuple[Spec, Choice]:
    """The spec, in which the weight that is swept is any number, and how to choose that weight."""
    given, held = options.given(args), {} if args.config is None else read_toml(args.config)
    choice = Choice.among(held | options.given(args, Choice))
    key = choice.sweep
    if key in given:
        raise InputError(
            f"{options.flag(key)} is the weight that the path runs along; leave it out, or choose "
            "another with --sweep."
        )
    spec = options.spec_of(args, given | {key: 1.0}, others=Choice.table())
    if spec.dp_clip is not None:
        raise InputError(
            "a path asks many questions of the same rows, of which none carries noise; leave the "
            "dp options out, or use 'proxfl train' at a weight."
        )
    if applies(spec):
        raise InputError(
            "a path is made with newton or decoupled, all sites and all rows; choose among these "
            "with --algorithm, and leave out --batch and --cohort."
        )
    return spec, choice


def work(spec: Spec, choice: Choice) -> Any:
    from proxfl.report.path import FoundPath

    tables = read_tables(spec)
    folds = len(deal(spec, choice, tables))
    with progress(f"Path along {choice.sweep}", choice.points * (folds + 1)) as report:
        walked, validation = path_with_folds(spec, tables, choice, report)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # said at the end
        fit = run(begin(walked.spec_at(validation.chosen(choice.rule)), tables))
    return FoundPath(walked, validation, fit)


def show(told: dict[str, Any], chosen: Any, where: Path) -> None:
    from proxfl.cli.shared.results import MOST_ROWS, show_remarks
    from proxfl.train.terms import table_of

    heads = [told["choice"]["sweep"] if head == "weight" else head for head in told["columns"]]
    rows = [[math.nan if held is None else held for held in row] for row in told["choices"]]
    table("Choices", heads, rows)
    columns, rows = table_of(chosen.model)
    if rows:
        table("The largest coefficients", columns, rows[:MOST_ROWS])
    show_remarks(chosen.model)
    if told["at_the_end"]:
        print("The loss is least at the end of the path; a smaller --ratio would go on.")
    print(f"Results: {printable(where)}")
    if (report := where / REPORT).exists():
        print(f"Report: {printable(report)}")
    print(f"Model: {printable(where / CHOSEN)}")


def in_json(told: dict[str, Any], where: Path) -> str:
    from proxfl.cli.shared import results

    keys = ("choice", "weight", "weights", "path_rounds", "fold_rounds", "exchanges")
    own = {name: held for name, held in told.items() if name in keys or name[:9] == "left_out_"}
    return json.dumps(json.loads(results.as_json(read(where / CHOSEN))) | own)
