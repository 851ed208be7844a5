"""Table one is what pandas says of the pooled rows, and small cells do not follow from others."""

import json
import math
import re

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import linprog

from proxfl.report.description import table
from proxfl.tables import Schema
from proxfl.tables.describe import QUANTILES, describe
from proxfl.tables.hiding import OVERALL, hidden
from proxfl.tables.survey import MISSING
from tests.cli import world
from tests.cli.world import proxfl
from tests.sentences import said


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    table = world.mixed()
    table["visits"] = np.arange(len(table)) * 7 % 23
    return sorted(world.write(tmp_path_factory.mktemp("d") / "x", table, 3).iterdir())


SCHEMA = Schema.from_dict(
    {
        "patient": {"kind": "identifier"},
        "ward": {"kind": "category", "levels": ["east", "north", "south", "west"]},
        "sex": {"kind": "category", "levels": ["male", "female"]},
        "bmi": {"kind": "number"},
        "bp": {"kind": "number"},
        "visits": {"kind": "count"},
    }
)


def frames(files):
    parts = {path.stem: pd.read_csv(path) for path in files}
    return {OVERALL: pd.concat(parts.values())} | parts


def test_numbers_are_those_of_pandas(files):
    found = describe(files, SCHEMA, 5)
    for site, frame in frames(files).items():
        for name in ("bmi", "bp", "visits"):
            held, column = found[name].numbers[site], frame[name]
            assert held["mean"] == pytest.approx(column.mean(), rel=1e-12, abs=1e-15)
            assert held["sd"] == pytest.approx(column.std(), rel=1e-12)
            for q in QUANTILES:
                ends = [column.quantile(q, way) for way in ("lower", "higher")]
                resolution = found[name].resolution
                assert ends[0] - resolution <= held[f"q{round(100 * q):02}"] <= ends[1] + resolution
    assert found["visits"].resolution == 0
    spread = frames(files)[OVERALL]["bmi"]
    assert 0 < found["bmi"].resolution <= (spread.max() - spread.min()) / 50


def test_counts_are_those_of_pandas_where_they_are_shown(files):
    found = describe(files, SCHEMA, 1)
    for site, frame in frames(files).items():
        assert found["bp"].counts[site][MISSING] == frame["bp"].isna().sum()
        assert found["patient"].counts[site] == {"rows": len(frame), MISSING: 0}
        for level in SCHEMA.columns["ward"].levels:
            assert found["ward"].counts[site][level] == (frame["ward"] == level).sum()


def test_a_site_without_the_column_has_it_missing(files, tmp_path):
    pd.DataFrame({"bmi": [1.0] * 9}).to_csv(tmp_path / "other.csv", index=False)
    found = describe([*files, tmp_path / "other.csv"], SCHEMA, 5)
    assert found["ward"].counts["other"] == dict.fromkeys(("east", "north", "south", "west"), 0) | {
        "rows": 9, MISSING: 9
    }  # fmt: skip
    assert found["bp"].numbers["other"] is None and found["bmi"].numbers["other"]["mean"] == 1.0


def random_tables():
    """Few levels and sites; of some sites one level only, or a total that is small itself."""
    for seed in range(60):
        rng = np.random.default_rng(seed)
        shape = rng.integers(2, 5), rng.integers(1, 5)
        values = [[0, 1, 2, 4, 5, 6, 30, 200], [0, 0, 0, 1, 3, 4000], [0, 0, 1, 2]][seed % 3]
        yield pytest.param(rng.choice(values, shape), id=str(seed))
    yield pytest.param(np.array([[4042, 382, 90], [1, 0, 0], [0, 0, 0]]), id="one in all")


def least_and_most(table, secret, cell):
    """A count's least and most, given all that is shown; as totals go, both are whole."""
    known = np.where(secret, np.nan, table)
    bounds = [(0, None) if np.isnan(value) else (value, value) for value in known.ravel()]
    lines, columns = np.indices(table.shape).reshape(2, -1)
    of_line = [np.where(columns == 0, -1.0, 1.0) * (lines == i) for i in range(len(table))]
    of_column = [1.0 * (columns == j) for j in range(table.shape[1])]
    sums = [0.0] * len(table) + table.sum(axis=0).tolist()
    ends = [
        linprog(sign * np.eye(table.size)[cell], A_eq=of_line + of_column, b_eq=sums, bounds=bounds)
        for sign in (1, -1)
    ]
    return ends[0].fun, np.inf if ends[1].status == 3 else -ends[1].fun


@pytest.mark.parametrize("table", list(random_tables()))
@pytest.mark.parametrize("one", [False, True], ids=["levels", "missing"])
def test_no_hidden_count_is_settled_by_those_shown(table, one):
    """Every hidden one may have two values at least, whichever totals are known."""
    table = np.vstack([table[0], table[1:].sum(axis=0)]) if one else table
    parts = [MISSING] if one else [*(f"level {i}" for i in range(len(table) - 1)), MISSING]
    counts = {
        f"s{j}": {"rows": int(column.sum()), **dict(zip(parts, column.tolist(), strict=False))}
        for j, column in enumerate(table.T)
    }
    shown = hidden(counts, 5, parts)
    sites = [OVERALL, *counts]
    table = np.column_stack([table.sum(axis=1), table])
    secret = np.array([[shown[site][part] is None for site in sites] for part in parts])
    secret = np.vstack([secret, secret]) if one else secret
    small = (table > 0) & (table < 5)
    assert [shown[site]["rows"] for site in sites] == table.sum(axis=0).tolist()
    assert (secret | ~small).all() and (small.any() or not secret.any())
    for cell in np.flatnonzero(secret):
        least, most = least_and_most(table, secret, cell)
        assert most > least + 0.5


@pytest.mark.parametrize("sizes", [[1, 50], [1, 2, 50], [3, 3], [2, 2], [0, 9], [4, 6, 0]])
def test_numbers_of_few_rows_do_not_follow_from_those_of_others(tmp_path, sizes):
    """What is hidden has five rows or more, or what is overall is hidden, too."""
    for k, size in enumerate(sizes):
        values = [float(k)] * size + [None] * (9 - min(size, 9))
        pd.DataFrame({"a": values, "b": 1}).to_csv(tmp_path / f"s{k}.csv", index=False)
    schema = Schema.from_dict({"a": {"kind": "number"}})
    numbers = describe(sorted(tmp_path.iterdir()), schema, 5)["a"].numbers
    untold = sum(size for k, size in enumerate(sizes) if numbers[f"s{k}"] is None)
    assert all(size >= 5 or numbers[f"s{k}"] is None for k, size in enumerate(sizes))
    assert (numbers[OVERALL] is None) == (0 < untold < 5)


def test_few_rows_are_not_described(tmp_path):
    pd.DataFrame({"a": [1.5, 2.5, 3.5]}).to_csv(tmp_path / "few.csv", index=False)
    schema = Schema.from_dict({"a": {"kind": "number"}})
    assert describe([tmp_path / "few.csv"], schema, 5)["a"].numbers == {OVERALL: None, "few": None}


def test_the_command_draws_up_the_table_from_a_draft_or_a_schema(files, tmp_path):
    folder = files[0].parent
    outcome = proxfl("describe", folder, "--out", tmp_path / "one.csv")
    assert outcome.code == 0 and "mean (sd)" in outcome.out and "hidden" in outcome.out
    written = pd.read_csv(tmp_path / "one.csv")
    assert list(written.columns[2:]) == [OVERALL, "site0", "site1", "site2"]
    assert written.iloc[0, 2:].tolist() == ["442", "148", "147", "147"]
    (tmp_path / "schema.toml").write_text(world.SCHEMA)
    told = ["--schema", tmp_path / "schema.toml", "--smallest-cell", "1", "--json"]
    found = json.loads(proxfl("describe", folder, *told).out)
    assert found["smallest_cell"] == 1
    assert found["columns"]["bp"]["overall"]["counts"] == {"rows": 442, "missing": 2}
    assert found["columns"]["ward"]["sites"]["site0"]["counts"]["north"] == 148
    for words, more in (
        ("must be at least 1", ["--smallest-cell", "0"]),
        ("such a file already", ["--out", tmp_path / "one.csv"]),
    ):
        refused = proxfl("describe", folder, *more)
        assert refused.code == 2 and words in refused.err


def test_a_level_that_the_schema_lacks_is_refused(files):
    held = {"ward": {"kind": "category", "levels": ["north", "east"]}}
    assert "column 'ward' holds a level" in said(describe, files, Schema.from_dict(held), 5)
    held["ward"]["unknown"] = "reference"
    found = describe(files, Schema.from_dict(held), 5)["ward"].counts[OVERALL]
    assert found == {"rows": 442, "north": 300, "east": 142, MISSING: 0}


def test_shown_quartiles_have_no_digits_below_their_resolution(tmp_path):
    rng = np.random.default_rng(0)
    spread = rng.normal(3e4, 9e3, 400).round(2)
    mostly = np.r_[np.zeros(150), np.ones(200), 0.3 * np.ones(50)]
    file = tmp_path / "s.csv"
    pd.DataFrame({"income": spread, "share": mostly}).to_csv(file, index=False)
    schema = Schema.from_dict({name: {"kind": "number"} for name in ("income", "share")})
    found = describe([file], schema, 1)
    _, rows = table(found, 1)
    shown = {name: cells[0] for name, what, *cells in rows if what == "median [quartiles]"}
    for name, values in (("income", spread), ("share", mostly)):
        numbers = re.findall(r"-?[\d,]*\.?\d+", shown[name])
        width = found[name].resolution
        assert width is not None
        for text, q in zip(numbers, (0.5, 0.25, 0.75), strict=True):
            told, place = float(text.replace(",", "")), 10 ** math.floor(math.log10(width))
            assert abs(told - np.quantile(values, q, method="inverted_cdf")) <= width + place
            assert abs(told / place - round(told / place)) < 1e-6
