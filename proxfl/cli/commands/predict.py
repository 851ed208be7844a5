"""`proxfl predict MODEL FILE`: a line of CSV for each row of a file."""

import argparse
import csv
import io
import sys
from pathlib import Path

from proxfl.errors import InputError


def arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("model", type=Path, metavar="MODEL", help="a result folder or model.json")
    add("file", type=Path, metavar="FILE", help="the rows, with the model's columns")
    add("--out", type=Path, metavar="FILE.csv", help="write there, not to stdout")
    add("--proba", action="store_true", help="add a probability for each class")


def main(args: argparse.Namespace) -> int:
    from proxfl.storage.files import write_text

    text = predictions(args.model, args.file, args.proba)
    if args.out is None:
        sys.stdout.write(text)
    else:
        write_text(args.out, text)
        print(f"Predictions: {args.out}", file=sys.stderr)
    return 0


def predictions(path: Path, file: Path, proba: bool) -> str:
    import numpy as np

    from proxfl.tables import read_features
    from proxfl.train.folder import read_model

    model, held = read_model(path)
    if proba and not model.classes:
        raise InputError(f"A {model.loss} model has no probabilities; leave out --proba.")
    fill = held["fill"]
    A = read_features(file, model.features, "refuse" if fill is None else "mean")
    A = A if isinstance(A, np.ndarray) else A.toarray()
    A = A if fill is None else np.where(np.isnan(A), np.array(fill), A)
    columns = {"prediction": model.predict(A).tolist()}
    if proba:
        each = model.probabilities(A)
        names = [f"probability_{label}" for label in model.classes]
        columns |= dict(zip(names, np.asarray(each).T.tolist(), strict=True))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return text.getvalue()
