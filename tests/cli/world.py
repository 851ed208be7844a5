"""Site files written from scikit-learn's data sets, and the command line run in this process."""

import contextlib
import io
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from sklearn import datasets

from proxfl.cli.main import main
from tests.undrawn import undrawn


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


def proxfl(*args, drawn: bool = False) -> Outcome:
    """The command; figures of a report, which take longer than fits, only if `drawn`."""
    out, err = io.StringIO(), io.StringIO()
    quiet = contextlib.redirect_stdout(out), contextlib.redirect_stderr(err)
    with quiet[0], quiet[1], contextlib.nullcontext() if drawn else undrawn():
        try:
            code = main([str(arg) for arg in args])
        except SystemExit as exit:
            code = exit.code
    return Outcome(code, out.getvalue(), err.getvalue())


def pictures(folder: Path) -> set[str]:
    """The files of a folder that begin as a picture does."""
    begins = (b"\x89PNG", b"<?xml")
    return {path.name for path in folder.iterdir() if path.read_bytes().startswith(begins)}


def frame(name: str, target: str) -> pd.DataFrame:
    held = getattr(datasets, f"load_{name}")()
    names = [str(feature) for feature in held.feature_names]
    return pd.DataFrame(held.data, columns=names).assign(**{target: held.target})


def cancer() -> pd.DataFrame:
    return frame("breast_cancer", "benign")


def diabetes() -> pd.DataFrame:
    return frame("diabetes", "progression")


def wine() -> pd.DataFrame:
    return frame("wine", "cultivar")


def digits() -> pd.DataFrame:
    table = frame("digits", "digit")
    return table[table["digit"] < 4].iloc[:200]


def mixed() -> pd.DataFrame:
    """A table with words, holes and an identifier; sites of it in order lack some wards."""
    table = diabetes()
    table.insert(0, "ward", np.repeat(["north", "east", "south"], [200, 142, 100]))
    table.insert(0, "patient", [f"p{k}" for k in range(len(table))])
    table["sex"] = np.where(table["sex"] > 0, "male", "female")
    table.loc[[3, 200], "bp"] = np.nan
    return table


def made(table: pd.DataFrame) -> pd.DataFrame:
    """The features that the schema makes of the mixed table, by hand."""
    made = {"age": table["age"], "sex=male": (table["sex"] == "male").astype(float)}
    made |= {f"ward={w}": (table["ward"] == w).astype(float) for w in ("east", "south", "west")}
    made |= {"bmi": table["bmi"], "bp": table["bp"], "bp=missing": table["bp"].isna() * 1.0}
    return pd.DataFrame(made)


SCHEMA = """
[patient]
kind = "identifier"
[ward]
kind = "category"
levels = ["east", "north", "south", "west"]
reference = "north"
unknown = "reference"
[age]
kind = "number"
[sex]
kind = "category"
levels = ["female", "male"]
[bmi]
kind = "number"
[bp]
kind = "number"
missing = "indicator"
"""


def parts(table: pd.DataFrame, sites: int) -> list[pd.DataFrame]:
    """Rows in their order, nearly the same number for each site."""
    return [table.iloc[rows] for rows in np.array_split(np.arange(len(table)), sites)]


def by_label(table: pd.DataFrame) -> pd.DataFrame:
    """As unlike as sites can be: sorted by the target, which is the last column."""
    return table.sort_values(table.columns[-1], kind="stable")


def write(folder: Path, table: pd.DataFrame, sites: int, kind: str = "csv") -> Path:
    """One file per site, of the given kind; the target is the last column."""
    folder.mkdir()
    for i, part in enumerate(parts(table, sites)):
        path, target = folder / f"site{i}.{kind}", part.columns[-1]
        if kind == "csv":
            part.to_csv(path, index=False)
        elif kind == "parquet":
            part.to_parquet(path, index=False)
        elif kind == "npz":
            features = part.drop(columns=target)
            arrays = {"X": features.to_numpy(), "y": part[target].to_numpy()}
            np.savez(path, **arrays, features=np.array(features.columns, str))
        else:
            X, y = part.drop(columns=target).to_numpy(), part[target].to_numpy()
            datasets.dump_svmlight_file(X, y, str(path), zero_based=False)
    return folder
