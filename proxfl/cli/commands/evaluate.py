"""`proxfl evaluate MODEL FILES...`: how good a model is, at each site and overall."""

import argparse
import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from proxfl.console.words import lines, printable
from proxfl.errors import DONE, InputError
from proxfl.options.kinds import BILLION, as_number
from proxfl.storage.documents import read_json
from proxfl.storage.files import refuse_full

MOST_SITES = 6  # columns of a terminal


def arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("model", type=Path, metavar="MODEL", help="a result folder or model.json")
    add("sites", type=Path, nargs="+", metavar="FILE", help="files with the target, one per site")
    add("--schema", type=Path, metavar="FILE.toml", help="in place of the model's own")
    add_how(parser)
    add("--out", type=Path, metavar="DIR", help="a folder for tables, pictures and a report")
    add("--json", action="store_true", help="print the scores as one JSON object")
    own = (
        "of a model with site intercepts: files of sites' own rows, of the names of the FILEs, to "
    )
    own += "find their intercepts from, and a number for sites without"
    add("--intercept", nargs="+", default=[], metavar="X|FILE", help=own)


def add_how(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--threshold", type=float, default=0.5, help="the probability of a yes (default: 0.5)")
    draws = "draws of each site's rows, from which intervals are made (default: 200; 0: none)"
    add("--draws", type=int, default=200, metavar="N", help=draws)
    add("--seed", type=int, default=0, help="of the draws (default: 0)")


def how_of(args: argparse.Namespace) -> Any:
    """What was chosen of these, if it can be."""
    from proxfl.train.evaluate import MOST_DRAWS, How

    if not 0 < args.threshold < 1:
        raise InputError(f"--threshold must be between 0 and 1, got {args.threshold}.")
    if not 0 <= args.draws <= MOST_DRAWS or not 0 <= args.seed <= BILLION:
        limits = f"--draws from 0 to {MOST_DRAWS} and --seed from 0 to {BILLION}"
        raise InputError(f"needs {limits}, got {args.draws} and {args.seed}.")
    return How(args.threshold, args.draws, args.seed)


def main(args: argparse.Namespace) -> int:
    from proxfl.report.evaluation import summary, write
    from proxfl.tables.files import files_in
    from proxfl.train.evaluate import evaluate

    how = how_of(args)
    if args.out is not None:
        refuse_full(args.out)
    applied = loaded(args.model, args.schema).at_sites(intercepts(args.intercept))
    found = evaluate(applied, files_in(args.sites), *how)
    about = {"target": applied.held["target"], "loss": applied.model.loss}
    about |= {"classes": list(applied.model.classes), "threshold": args.threshold}
    about |= {"draws": args.draws, "seed": args.seed, "command": spelt(args)}
    if args.out is not None:
        write(args.out, found, about)
    return show(summary(found, about), args.out, args.json)


def loaded(model: Path, schema: Path | None) -> Any:
    """A model and how it reads files."""
    from proxfl.tables import Schema
    from proxfl.train.applied import Applied
    from proxfl.train.folder import read_model

    return Applied.of(*read_model(model), None if schema is None else Schema.read(schema))


def intercepts(given: Sequence[str]) -> list[float | Path]:
    """Numbers, and files, also those of folders."""
    from proxfl.tables.files import files_in

    read = [as_number(text) for text in given]
    numbers = [float(number) for number in read if not isinstance(number, str)]
    files = [Path(text) for text in read if isinstance(text, str)]
    return [*numbers, *(files_in(files) if files else [])]


def show_saved(folder: Path, as_json: bool) -> int:
    """An evaluation as its folder has it."""
    from proxfl.report.evaluation import SUMMARY, Summary

    return show(read_json(folder / SUMMARY, Summary), folder, as_json)


def show(held: Mapping[str, Any], folder: Path | None, as_json: bool) -> int:
    """What an evaluation came to, and where the whole of it is."""
    from proxfl.console.table import show as table
    from proxfl.report.evaluation import notes, saved_rows

    if as_json:
        print(json.dumps(held))
        return DONE
    few = list(held["sites"])[:MOST_SITES]
    table("", ["score", "overall", *few], saved_rows(held, few))
    if len(held["sites"]) > MOST_SITES:
        print(f"... and {len(held['sites']) - MOST_SITES} more sites, in --json and --out.")
    print(lines(notes(held)))
    if folder is not None:
        print(f"Results: {printable(folder)}")
        print(f"Report: {printable(folder / 'report.html')}")
    return DONE


def spelt(args: argparse.Namespace) -> str:
    """The command as one would type it."""
    words = ["proxfl", "evaluate", args.model, *args.sites]
    words += ["--schema", args.schema] if args.schema else []
    words += ["--intercept", *args.intercept] if args.intercept else []
    words += ["--threshold", args.threshold, "--draws", args.draws, "--seed", args.seed]
    return shlex.join(map(str, words))
