"""What a column cannot hold is refused with file, column and row, and nothing is written."""

import numpy as np
import pandas as pd
import pytest

from tests.cli.world import proxfl

SCHEMA = """
age = { kind = "number" }
ward = { kind = "category", levels = ["A", "B"] }
days = { kind = "number" }
died = { kind = "boolean" }
years = { kind = "number" }
times = { kind = "number" }
visits = { kind = "count" }
"""
COUNTS = "--target visits --loss poisson --features age ward"
COX = "--loss cox --time days --event died --features age ward"


def rows(seed):
    rng, n = np.random.default_rng(seed), 12
    table = {"age": rng.normal(50, 5, n).round(2), "ward": rng.choice(["A", "B"], n)}
    table |= {"days": 2 + rng.integers(40, size=n), "died": np.arange(n) % 2}
    table |= {"years": 1.5, "times": 1.0, "visits": rng.integers(5, size=n)}
    return pd.DataFrame(table).astype(object)


def changed(column, value, row=None):
    """The second site's table, with one value, or all of a column, as given."""
    table = rows(1)
    table.loc[slice(None) if row is None else row - 1, column] = value
    return table


# The table of the second site, the options, and what is said of it.
CASES = {
    "unknown level": (
        changed("ward", "Z", 8),
        COUNTS,
        "b.csv: column 'ward' holds a level that the schema does not have, first in data row 8",
    ),
    "text among numbers": (
        changed("age", "old", 4),
        COUNTS,
        "b.csv: column 'age' is not a number, first in data row 4",
    ),
    "no count": (
        changed("visits", 1.5, 2),
        COUNTS,
        "b.csv: column 'visits' is not a whole number of at least 0, first in data row 2",
    ),
    "neither yes nor no": (
        changed("died", "perhaps", 3),
        COX,
        "b.csv: column 'died' is none of 0/1, yes/no, true/false, first in data row 3",
    ),
    "no events": (changed("died", 0), COX, "b.csv: column 'died' is 0 in all 12 rows"),
    "time 0": (changed("days", 0, 6), COX, "b.csv: column 'days' is not positive in data row 6"),
    "negative time": (
        changed("days", -3, 6),
        COX,
        "b.csv: column 'days' is not positive in data row 6",
    ),
    "late entry": (
        changed("years", 99, 5),
        f"{COX} --entry years",
        "b.csv: column 'years' is not before the time in data row 5",
    ),
    "negative exposure": (
        changed("years", -1, 10),
        f"{COUNTS} --exposure years",
        "b.csv: column 'years' is not positive in data row 10",
    ),
    "negative exposure after rows that were dropped": (
        changed("years", -1, 10).assign(age=[*[None] * 3, *[50.0] * 9]),
        f"{COUNTS} --exposure years --missing drop",
        "b.csv: column 'years' is not positive in data row 10",
    ),
    "no weight": (
        changed("times", 0),
        f"{COUNTS} --row-weights times",
        "b.csv: column 'times' is 0 in all rows; leave the site out",
    ),
    "negative weight": (
        changed("times", -1, 3),
        f"{COUNTS} --row-weights times",
        "b.csv: column 'times' is below 0 in data row 3",
    ),
    "two of one name": (
        rows(1).rename(columns={"years": "age"}),
        COUNTS,
        "b.csv: more than one column is named 'age'; rename one",
    ),
}


def refused(folder, words, *command):
    """Whether a command ends in one sentence, with these words, and writes nothing."""
    before = sorted(folder.rglob("*"))
    outcome = proxfl(*command)
    assert outcome.code == 2 and outcome.out == "" and words in outcome.err, outcome.err
    assert outcome.err.count("\n") == 1 and sorted(folder.rglob("*")) == before


def tables(folder, table=None):
    rows(0).to_csv(folder / "a.csv", index=False)
    (rows(1) if table is None else table).to_csv(folder / "b.csv", index=False)
    (folder / "schema.toml").write_text(SCHEMA)


@pytest.mark.parametrize("command", ["train", "path"])
@pytest.mark.parametrize("name", CASES)
def test_it_is_refused_with_file_column_and_row(tmp_path, monkeypatch, name, command):
    table, told, words = CASES[name]
    tables(tmp_path, table)
    monkeypatch.chdir(tmp_path)
    refused(tmp_path, words, command, "a.csv", "b.csv", *told.split(), "--schema", "schema.toml")


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """By their options; those of counts have an exposure and weights, those of times an entry."""
    home = tmp_path_factory.mktemp("models")
    tables(home)
    made = {}
    for name, told in {
        COUNTS: "--exposure years --row-weights times",
        COX: "--entry years",
    }.items():
        made[name] = home / str(len(made))
        about = [*name.split(), *told.split(), "--missing", "drop", "--l2", 1, "--out", made[name]]
        files = [home / "a.csv", home / "b.csv", "--schema", home / "schema.toml"]
        assert proxfl("train", *files, *about).code == 0
    return made


# A model can be judged without an event, and predicts rows whatever their target is.
OF_FEATURES = ["unknown level", "text among numbers", "negative exposure", "two of one name"]
APPLIED = [("evaluate", name) for name in CASES if name not in ("no events", "no weight")]


@pytest.mark.parametrize(
    ("command", "name"), [*APPLIED, *(("predict", name) for name in OF_FEATURES)]
)
def test_so_are_rows_that_a_model_is_applied_to(tmp_path, monkeypatch, models, name, command):
    table, told, words = CASES[name]
    tables(tmp_path, table)
    monkeypatch.chdir(tmp_path)
    model = models[COX if told.startswith(COX) else COUNTS]
    refused(tmp_path, words, command, model, "b.csv", "--out", tmp_path / "made")


@pytest.mark.parametrize("name", ["no events", "no weight"])
def test_rows_that_tell_nothing_are_judged_as_not_known(tmp_path, models, name):
    table, told, _ = CASES[name]
    tables(tmp_path, table)
    model = models[COX if told.startswith(COX) else COUNTS]
    outcome = proxfl("evaluate", model, tmp_path / "b.csv", "--draws", 2)
    assert outcome.code == 0 and outcome.err == "" and "not known" in outcome.out


@pytest.mark.parametrize(
    ("name", "words"),
    {
        "age = 1\n": "column 'age' of the schema has no known kind",
        'age = { kind = "category", levels = ["A", "A"] }\n': "has 'A' more than once",
        'age = { kind = "number", unit = "kg" }\n': "there is no key 'unit'",
        "age = \n": "this is not TOML",
    }.items(),
)
@pytest.mark.parametrize("command", [["path"], ["federate", "init"]], ids=["path", "init"])
def test_so_is_a_schema_before_anything_is_written(tmp_path, monkeypatch, name, words, command):
    tables(tmp_path)
    (tmp_path / "schema.toml").write_text(name)
    monkeypatch.chdir(tmp_path)
    where = ["made", "--sites", "a", "b"] if "init" in command else ["a.csv", "b.csv"]
    refused(tmp_path, words, *command, *where, *COUNTS.split(), "--schema", "schema.toml")


def test_a_category_of_ten_thousand_levels_is_refused_and_not_drafted(tmp_path):
    table = pd.concat([rows(0)] * 1000, ignore_index=True)
    table["code"] = [f"c{k % 10_000}" for k in range(len(table))]
    table.to_csv(tmp_path / "a.csv", index=False)
    drafted = proxfl("schema", tmp_path / "a.csv")
    assert '[code]\nkind = "identifier"' in drafted.out
    levels = ", ".join(f'"c{k}"' for k in range(10_000))
    path = tmp_path / "schema.toml"
    path.write_text(f'{SCHEMA}code = {{ kind = "category", levels = [{levels}] }}\n')
    outcome = proxfl(
        "train", tmp_path / "a.csv", "--target", "visits", "--loss", "poisson", "--schema", path
    )
    assert outcome.code == 2 and "schema.toml: column 'code'" in outcome.err
    assert "2 to 1000 levels, got 10000" in outcome.err and len(outcome.err) < 400
