"""`proxfl path SITES... --target COLUMN --loss LOSS`: which weight, and the model it gives."""

import argparse
import json
import sys
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from proxfl.cli import options
from proxfl.spec import Spec
from proxfl.tables import InputError

SWEPT = ("l1", "group_weight", "nuclear")

EPILOG = """
The weight of one penalty runs from the smallest that leaves an empty model down a grid. Every
weight is scored on rows that were left out: each site deals its own rows to folds (--by rows), or
each site is left out once (--by sites). The chosen model is refitted on all rows.

Results go to a folder: path.csv, coefficients.csv, folds.csv, stability.csv, figures, report.html,
path.json, and model/ with the files of 'proxfl train'.
Exit codes: 0 converged, 2 bad input (nothing written), 3 the chosen model is not converged, 130
interrupted (nothing written).
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    options.add(parser)
    group: Any = parser.add_argument_group("path")
    sweep = "|".join(name.replace("_", "-") for name in SWEPT)
    group.add_argument("--sweep", metavar=sweep, default="l1", help="which weight (default: l1)")
    group.add_argument("--points", type=int, default=50, metavar="N", help="weights (default: 50)")
    group.add_argument(
        "--ratio",
        type=float,
        default=1e-2,
        metavar="X",
        help="the smallest weight, relative to the largest (default: 0.01)",
    )
    group.add_argument(
        "--folds", type=int, default=5, metavar="N", help="folds, --by rows (default: 5)"
    )
    group.add_argument(
        "--by",
        metavar="rows|sites",
        default="rows",
        help="what folds are made of (default: rows)",
    )
    group.add_argument(
        "--rule",
        metavar="1se|min",
        default="1se",
        help="take the largest weight within one standard error of the least loss, or the weight "
        "of the least (default: 1se)",
    )
    parser.add_argument("--config", type=Path, metavar="FILE.toml", help="a file of options")
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object")
    parser.epilog = options.conventions() + "\n" + EPILOG


def run(args: argparse.Namespace) -> int:
    from proxfl.fit import path_folder

    spec, key = asked(args)
    command = spelt(args)
    where = options_folder(spec)
    found = work(args, spec, key)
    path_folder.write(where, found, command)
    told = path_folder.summary(found, command)
    if args.json:
        print(as_json(told, where))
        print(f"Results: {where}", file=sys.stderr)
    else:
        show(found, told, where)
    if found.fit.solution.converged:
        return 0
    print("The certificate of the chosen model is not met; allow more --rounds.", file=sys.stderr)
    return 3


def asked(args: argparse.Namespace) -> tuple[Spec, str]:
    """The spec and the key of the weight that is swept, which is set to any number."""
    from proxfl.fit.folds import RULES
    from proxfl.fit.plain import applies

    given, key = options.given(args), args.sweep.replace("-", "_")
    if key not in SWEPT:
        raise InputError(f"--sweep takes one of {', '.join(SWEPT)}, got {args.sweep!r}.")
    if args.rule not in RULES:
        raise InputError(f"--rule takes one of {', '.join(RULES)}, got {args.rule!r}.")
    if key in given:
        raise InputError(
            f"{options.flag(key)} is the weight that the path runs along; leave it out, or choose "
            "another with --sweep."
        )
    swept = given | {key: 1.0}
    spec = Spec.from_dict(swept) if args.config is None else Spec.from_toml(args.config, swept)
    if applies(spec):
        raise InputError(
            "a path is made with the method decoupled, all sites and all rows; leave out "
            "--algorithm, --batch and --cohort."
        )
    return spec, key


def spelt(args: argparse.Namespace) -> str:
    """The command as one would type it."""
    own = {name: getattr(args, name) for name in ("sweep", "points", "ratio", "by", "rule")}
    own |= {"folds": args.folds} if args.by == "rows" else {}
    config = "" if args.config is None else f" --config {args.config}"
    return f"proxfl path {options.spelt(options.given(args) | own)}{config}"


def options_folder(spec: Spec) -> Path:
    from proxfl.cli.train import unused

    where = unused(spec.target, "path") if spec.out is None else Path(spec.out)
    if where.exists() and (not where.is_dir() or any(where.iterdir())):
        raise InputError(f"{where}: the folder is not empty; choose another with --out.")
    return where


def work(args: argparse.Namespace, spec: Spec, key: str) -> Any:
    from proxfl.fit.folds import cross_validate, deal
    from proxfl.fit.path import path
    from proxfl.fit.path_folder import Found
    from proxfl.fit.train import ConvergenceWarning, begin, run
    from proxfl.progress import progress
    from proxfl.tables import read_sites

    tables = read_sites(spec.sites, spec.target, spec.missing)
    folds = len(deal(spec, tables, args.folds, args.by))
    total = args.points * (folds + 1)
    with progress(f"Path along {key}", total) as report:
        walked = path(spec, tables, key, args.points, args.ratio, watch=report)
        later = lambda done: report(args.points + done)
        validation = cross_validate(walked, tables, args.folds, args.by, later)
    chosen = replace(walked.spec_at(validation.chosen(args.rule)), sites=spec.sites)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # said at the end
        fit = run(begin(chosen, tables))
    return Found(walked, validation, args.rule, fit)


def show(found: Any, told: dict[str, Any], where: Path) -> None:
    from proxfl.cli.tables import show as table
    from proxfl.fit.path_figures import sizes

    path, validation = found.path, found.validation
    rows: list[Sequence[Any]] = []
    for rule, words in (("min", "least loss"), ("1se", "one standard error")):
        i = validation.chosen(rule)
        mark = "chosen" if rule == found.rule else ""
        numbers = [float(path.weights[i]), float(validation.mean[i]), float(validation.error[i])]
        rows.append([words, *numbers, int(sizes(path)[i]), mark])
    table("Choices", ["rule", path.key, "loss left out", "standard error", "size", ""], rows)
    entries = [[e["feature"], e["value"]] for e in found.fit.model.nonzeros()[:20]]
    if entries:
        table("The largest coefficients", ["feature", "value"], entries)
    if validation.chosen("min") == len(path.weights) - 1:
        print("The loss is least at the end of the path; a smaller --ratio would go on.")
    print(f"Results: {where}")
    print(f"Report: {where / 'report.html'}")
    print(f"Model: {where / 'model'}")


def as_json(told: dict[str, Any], where: Path) -> str:
    from proxfl.cli import results
    from proxfl.fit.folder import read

    keys = ("key", "weight", "weights", "rule", "by", "left_out_loss", "left_out_error")
    own = {name: told[name] for name in (*keys, "left_out_accuracy", "path_rounds", "fold_rounds")}
    return json.dumps(own | json.loads(results.as_json(read(where / "model"))))
