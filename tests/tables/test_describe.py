"""Table one is what pandas says of the pooled rows, and small cells do not follow from others."""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from proxfl.tables import Schema
from proxfl.tables.describe import QUANTILES, describe, over_files
from proxfl.tables.kinds import Category
from proxfl.tables.survey import MISSING, OVERALL, Surveyed
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


tables = arrays.arrays(
    int,
    st.tuples(st.integers(2, 5), st.integers(1, 5)),
    elements=st.sampled_from([0, 1, 2, 4, 5, 6, 30, 200]),
)


@given(tables)
def test_no_hidden_count_follows_from_those_shown(table):
    """Unless nothing else is in its line, where the total of the line is it."""
    parts = [f"level {i}" for i in range(len(table) - 1)] + [MISSING]
    counts = {
        f"s{j}": {"rows": int(column.sum()), **dict(zip(parts, column.tolist(), strict=True))}
        for j, column in enumerate(table.T)
    }
    # A category has two levels or more, so one that nobody has may have to stand in.
    levels = [*parts[:-1], "none", "nor this"]
    told = {s: dict.fromkeys(("none", "nor this"), 0) | held for s, held in counts.items()}
    rows = {site: held.pop("rows") for site, held in told.items()}
    told = Surveyed(Category(levels=levels), rows, told, {}, np.zeros(0))
    shown = over_files(told, 5).counts
    secret = np.array([[shown[site][part] is None for site in counts] for part in parts])
    small = (table > 0) & (table < 5)
    assert (secret | ~small).all()
    assert not (secret & (table == 0)).any()
    for lines, held in ((secret, table), (secret.T, table.T)):
        for line, values in zip(lines, held, strict=True):
            assert line.sum() != 1 or (values > 0).sum() == 1
    known = np.array([shown[OVERALL][part] is not None for part in parts])
    total = table.sum(axis=1)
    assert (known == ~((total > 0) & (total < 5))).all()
    if not small.any():
        assert not secret.any()


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
