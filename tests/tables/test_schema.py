"""A schema makes the same features of a column at every site, and says what does not fit it."""

import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxfl.tables import Schema, Wanted, read_features, read_site, read_sites
from proxfl.tables.kinds import KINDS, MOST_LEVELS
from proxfl.tables.propose import as_toml, draft, far_codes, schema_of
from proxfl.tables.values import to_days
from tests.sentences import said

rng = np.random.default_rng(0)
ROWS = 60
TABLE = pd.DataFrame(
    {
        "age": rng.normal(60, 10, ROWS).round(1),
        "visits": rng.poisson(2, ROWS),
        "smoker": rng.choice(["yes", "no"], ROWS),
        "stage": np.repeat(["I", "II", "III"], ROWS // 3),
        "pain": rng.choice(["mild", "moderate", "severe"], ROWS),
        "admitted": pd.date_range("2021-03-01", periods=ROWS).strftime("%Y-%m-%d"),
        "patient": [f"p{k:03}" for k in range(ROWS)],
        "y": rng.normal(size=ROWS),
    }
)
HELD = {
    "age": {"kind": "number"},
    "visits": {"kind": "count"},
    "smoker": {"kind": "boolean"},
    "stage": {"kind": "category", "levels": ["I", "II", "III", "IV"], "reference": "II"},
    "pain": {"kind": "ordered", "levels": ["mild", "moderate", "severe"]},
    "admitted": {"kind": "date", "since": "2021-01-01"},
    "patient": {"kind": "identifier"},
}
SCHEMA = Schema.from_dict(HELD)
SINCE = "admitted (days since 2021-01-01)"
FEATURES = ("age", "visits", "smoker", "stage=I", "stage=III", "stage=IV", "pain", SINCE)


def write(folder, table, kind="csv", stem="site"):
    path = folder / f"{stem}.{kind}"
    if kind == "csv":
        table.to_csv(path, index=False)
    elif kind == "parquet":
        table.to_parquet(path, index=False)
    else:
        text = lambda column: column.to_numpy(str if column.dtype.kind not in "iuf" else None)
        np.savez(path, **{name: text(table[name]) for name in table})
    return path


def read(path, schema=SCHEMA, target="y", missing="refuse", **wanted):
    return read_site(path, target, missing, Wanted(schema=schema, **wanted))


def expected(table=TABLE):
    """Made by hand."""
    stages = [(table["stage"] == level).astype(float) for level in ("I", "III", "IV")]
    columns = [table["age"], table["visits"], (table["smoker"] == "yes").astype(float), *stages]
    columns.append(table["pain"].map({"mild": 0.0, "moderate": 1.0, "severe": 2.0}))
    columns.append((pd.to_datetime(table["admitted"]) - pd.Timestamp("2021-01-01")).dt.days)
    return np.column_stack(columns).astype(float)


@pytest.mark.parametrize("kind", ["csv", "parquet", "npz"])
def test_features_are_those_made_by_hand(tmp_path, kind):
    table = read(write(tmp_path, TABLE, kind))
    assert table.features == FEATURES
    np.testing.assert_array_equal(table.A, expected())
    np.testing.assert_array_equal(table.y, TABLE["y"])


def test_sites_have_the_same_features_whichever_levels_their_rows_have(tmp_path):
    parts = np.array_split(np.arange(ROWS), 3)  # each with one stage of its own
    files = [write(tmp_path, TABLE.iloc[rows], stem=f"s{k}") for k, rows in enumerate(parts)]
    tables = read_sites(files, "y", "refuse", Wanted(schema=SCHEMA))
    assert {table.features for table in tables} == {FEATURES}
    np.testing.assert_array_equal(np.vstack([table.A for table in tables]), expected())


def test_a_schema_of_numbers_changes_nothing(tmp_path):
    numbers = pd.DataFrame(rng.normal(size=(9, 3)), columns=["a", "b", "y"])
    path = write(tmp_path, numbers)
    plain, told = read_site(path, "y"), read(path, Schema.from_dict({n: NUMBER for n in "ab"}))
    assert plain.fingerprint == told.fingerprint and plain.features == told.features


NUMBER = {"kind": "number"}


def test_all_spellings_of_yes_and_no_are_one(tmp_path):
    spellings = ["1,0,1", "1.0,0.0,1.0", "yes,No,YES", "True,False,True", "t,F,T", " y,n ,Y"]
    schema = Schema.from_dict({"a": NUMBER, "b": {"kind": "boolean"}, "y": {"kind": "boolean"}})
    made = []
    for k, words in enumerate(spellings):
        values = words.split(",")
        frame = pd.DataFrame({"a": [1, 2, 3], "b": values, "y": values})
        made.append(read(write(tmp_path, frame, stem=f"s{k}"), schema))
    typed = pd.DataFrame({"a": [1, 2, 3], "b": [True, False, True], "y": [1.0, 0.0, 1.0]})
    made.append(read(write(tmp_path, typed, "parquet"), schema))
    assert len({table.fingerprint for table in made}) == 1
    assert made[0].y.tolist() == [1.0, 0.0, 1.0] and schema.classes("y") == (0, 1)


def test_codes_are_levels_whether_written_as_text_whole_or_with_a_point(tmp_path):
    schema = Schema.from_dict({"c": {"kind": "category", "levels": [1, 2.0, "03"]}})
    for k, words in enumerate([["1", "2", "03"], ["1.0", " 2.0", "03"]]):
        table = pd.DataFrame({"c": words, "y": [0.0, 1.0, 2.0]})
        found = read(write(tmp_path, table, stem=f"s{k}"), schema)
        assert found.features == ("c=2", "c=03")
        np.testing.assert_array_equal(found.A, [[0, 0], [1, 0], [0, 1]])


def test_an_unknown_level_is_refused_or_is_the_reference_as_the_schema_says(tmp_path):
    path = write(tmp_path, TABLE.assign(stage=["I", "V"] * (ROWS // 2)))
    sentence = said(read, path)
    assert "column 'stage' holds a level that the schema does not have" in sentence
    assert "first in data row 2" in sentence and "'V'" not in sentence
    held = HELD | {"stage": HELD["stage"] | {"unknown": "reference"}}
    lenient = read(path, Schema.from_dict(held))
    np.testing.assert_array_equal(lenient.A[1, 3:6], 0.0)
    np.testing.assert_array_equal(lenient.A[0, 3:6], [1, 0, 0])


def test_all_columns_that_do_not_fit_are_named_at_once(tmp_path):
    wrong = TABLE.astype(object).copy()
    wrong.loc[2, "age"] = "old"
    wrong.loc[4, "visits"] = 1.5
    wrong.loc[5, "smoker"] = "maybe"
    wrong.loc[6, "admitted"] = "01/02/2021"
    sentence = said(read, write(tmp_path, wrong))
    for words in (
        "column 'age' is not a number, first in data row 3",
        "column 'visits' is not a whole number of at least 0, first in data row 5",
        "column 'smoker' is none of 0/1, yes/no, true/false, first in data row 6",
        "column 'admitted' is not a date as 2024-12-31, first in data row 7",
    ):
        assert words in sentence
    assert "maybe" not in sentence and "old" not in sentence


def test_without_a_schema_all_columns_of_text_are_named_with_what_to_do(tmp_path):
    sentence = said(read_site, write(tmp_path, TABLE), "y")
    names = "'smoker', 'stage', 'pain', 'admitted', 'patient'"
    assert f"columns {names} are not numeric" in sentence and "'proxfl schema'" in sentence
    wanted = Wanted(features=("visits", "age"))
    assert read_site(write(tmp_path, TABLE), "y", "refuse", wanted).features == ("visits", "age")
    texts = ("smoker", "stage", "pain", "admitted", "patient")
    kept = read_site(write(tmp_path, TABLE), "y", "refuse", Wanted(exclude=texts))
    assert kept.features == ("age", "visits")


def test_missing_values_are_settled_column_by_column(tmp_path):
    holes = TABLE.copy()
    holes.loc[1, "age"] = np.nan
    holes.loc[2, "stage"] = None
    holes.loc[3, "pain"] = None
    path = write(tmp_path, holes)
    assert "column 'age' has no value in data row 2" in said(read, path)
    rules = {"age": "indicator", "stage": "mean", "pain": "drop"}
    held = {name: told | {"missing": rules.get(name)} for name, told in HELD.items()}
    table = read(path, Schema.from_dict(held))
    assert table.dropped == 1 and table.rows == ROWS - 1
    assert table.features[:2] == ("age", "age=missing")
    np.testing.assert_array_equal(table.A[:3, 0], [holes["age"][0], np.nan, holes["age"][2]])
    np.testing.assert_array_equal(table.A[:3, 1], [0, 1, 0])
    assert np.isnan(table.A[2, 4:7]).all() and not np.isnan(table.A[3:]).any()
    assert "column 'pain' has no value in data row 4" in said(
        read_features, path, table.features, "refuse", Schema.from_dict(held)
    )


@pytest.mark.parametrize("rule", ["mean", "indicator"])
def test_a_draft_s_rule_for_missing_values_drops_no_target_and_adds_nothing_beside(tmp_path, rule):
    holes = TABLE.assign(pain=TABLE["pain"].where(TABLE.index != 4), y=TABLE["y"].abs())
    holes.loc[6, "y"] = np.nan
    held = HELD | {"pain": HELD["pain"] | {"missing": rule}}
    path, schema = write(tmp_path, holes), Schema.from_dict(held)
    with_y = Schema.from_dict(held | {"y": {"kind": "number", "missing": rule}})
    assert "target 'pain' has no value in data row 5" in said(read, path, schema, target="pain")
    assert read(path, schema, target="pain", missing="drop").rows == ROWS - 1
    assert "column 'y' has no value in data row 7" in said(
        read, path, with_y, target="age", beside=("y",)
    )
    found = read(path, with_y, target="age", missing="drop", beside=("y",))
    np.testing.assert_array_equal(found.beside["y"], holes["y"].dropna())
    assert found.rows == ROWS - 1 and not any(name.startswith("y") for name in found.features)


def test_rows_to_predict_have_the_features_of_training(tmp_path):
    path = write(tmp_path, TABLE.drop(columns=["y", "patient"]).iloc[:5])
    found = read_features(path, FEATURES[::-1], "refuse", SCHEMA)
    np.testing.assert_array_equal(found, expected(TABLE.iloc[:5])[:, ::-1])
    few = read_features(write(tmp_path, TABLE[["stage"]]), ("stage=IV", "stage=I"), schema=SCHEMA)
    np.testing.assert_array_equal(few, expected()[:, [5, 3]])
    assert "there is no column 'stage'" in said(
        read_features, write(tmp_path, TABLE[["age"]]), ("stage=I",), "refuse", SCHEMA
    )


def test_a_target_takes_its_classes_from_the_schema(tmp_path):
    held = {"age": NUMBER, "stage": HELD["stage"]}
    schema = Schema.from_dict(held)
    path = write(tmp_path, TABLE)
    assert read(path, schema, "stage").y.tolist() == TABLE["stage"].tolist()
    assert schema.classes("stage") == ("II", "I", "III", "IV")
    odd = write(tmp_path, TABLE.assign(stage="X"), stem="odd")
    assert "column 'stage' holds a level" in said(read, odd, schema, "stage")
    assert "'patient' cannot be predicted" in said(read, path, SCHEMA, "patient")


def test_what_was_chosen_is_checked_by_name(tmp_path):
    path = write(tmp_path, TABLE)
    assert "no column 'ages'; did you mean 'age'?" in said(read, path, features=("ages",))
    assert "'y' is the target" in said(read, path, Schema.from_dict(HELD | {"y": NUMBER}),
                                      features=("y",))  # fmt: skip
    assert read(path, features=("pain", "age"), exclude=("age",)).features == ("pain",)
    plain = said(read_site, path, "y", "refuse", Wanted(exclude=("ages",)))
    assert "no column 'ages'; the model needs it (did you mean 'age'?)" in plain


WRONG = [
    ({"a": {"kind": "numbers"}}, "column 'a' of the schema has no known kind; did you mean"),
    ({"a": "number"}, "column 'a' of the schema has no known kind"),
    ({"a": {"kind": "category"}}, "column 'a' of the schema: key 'levels' is missing"),
    ({"a": {"kind": "category", "levels": ["x"]}}, "must name 2 to 1000 levels, got 1"),
    ({"a": {"kind": "category", "levels": ["x", "y", "x"]}}, "has 'x' more than once"),
    ({"a": {"kind": "category", "levels": ["x", "y"], "reference": "z"}}, "'z' is none of the"),
    ({"a": {"kind": "category", "levels": ["x", "y"], "unknwn": "z"}}, "did you mean 'unknown'?"),
    ({"a": {"kind": "number", "missing": "median"}}, "key 'missing' must be one of refuse, drop"),
    ({"a": {"kind": "date", "since": "last year"}}, "key 'since' must be a date as 2024-12-31"),
    ({"a": {"kind": "boolean", "levels": ["x", "y"]}}, "there is no key 'levels'"),
    (
        {"a": {"kind": "category", "levels": [str(k) for k in range(10_000)]}},
        f"must name 2 to {MOST_LEVELS} levels, got 10000",
    ),
    (
        {"a": {"kind": "category", "levels": ["x", "y"]}, "a=y": {"kind": "number"}},
        "the schema makes two features called 'a=y'",
    ),
]


@pytest.mark.parametrize(("held", "words"), WRONG, ids=[words[:40] for _, words in WRONG])
def test_a_wrong_schema_is_refused_in_a_sentence(held, words):
    sentence = said(Schema.from_dict, held)
    assert words in sentence and len(sentence) < 250


def test_a_schema_file_that_cannot_be_read_is_named(tmp_path):
    assert "cannot be read; check the name" in said(Schema.read, tmp_path / "no.toml")
    (tmp_path / "bad.toml").write_text("[a\n")
    assert "bad.toml: this is not TOML" in said(Schema.read, tmp_path / "bad.toml")


def test_libsvm_takes_no_schema(tmp_path):
    (tmp_path / "a.svm").write_text("1 1:2\n")
    assert "which need no schema" in said(read, tmp_path / "a.svm")


def test_writing_and_reading_a_schema_gives_the_same():
    assert Schema.from_dict(SCHEMA.to_dict()) == SCHEMA


def test_a_draft_takes_the_columns_for_what_they_are(tmp_path):
    parts = np.array_split(np.arange(ROWS), 2)
    files = [write(tmp_path, TABLE.iloc[rows], stem=f"s{k}") for k, rows in enumerate(parts)]
    drafts = draft(files)
    kinds = {name: d.column.name for name, d in drafts.items()}
    assert kinds == {name: HELD[name]["kind"] for name in HELD} | {"y": "number"}
    assert drafts["stage"].column.levels == ("I", "II", "III")
    assert drafts["pain"].column.levels == ("mild", "moderate", "severe")
    assert drafts["admitted"].column.since == "2021-01-01"
    text = as_toml(drafts, "2 files")
    assert Schema.from_dict(tomllib.loads(text)) == schema_of(drafts)


DOUBTS = [
    ([[7] * 30, [7] * 30], "identifier", "one value at all sites"),
    ([range(30), range(30, 60)], "identifier", "every row has a number of its own"),
    ([[0, *range(99)], range(99, 199)], "count", "nearly every row of a site has a number of"),
    ([range(1, 31), range(1, 26)], "number", "nearly every row of a site has a number of its own"),
    ([np.arange(60) // 2, np.arange(60) // 3], "count", "has its rows next to one another"),
    ([[f"n{k}" for k in range(30)], [f"m{k}" for k in range(30)]], "identifier", "a text of its"),
    ([[f"n{k}" for k in range(60)] * 2, ["n1"] * 9], "identifier", "60 different texts are many"),
    ([[f"n{k}" for k in range(40)] * 2, ["n1"] * 9], "category", "its 40 levels are many: does it"),
    ([["n"] * 30, ["s"] * 30], "identifier", "it tells of sites, not rows"),
    ([[1, 2] * 15, [1, 2] * 15], "category", "two whole numbers, taken for codes"),
    ([[1, 2, 3] * 10, [1, 2] * 15], "number", "3 different whole numbers: codes"),
    ([[0.5] * 29 + ["?"], [1.5] * 30], "number", "no number in 1 row at 's0'"),
    ([["a", "A"] * 15, ["a", "b"] * 15], "category", "differ by spelling only"),
    ([["a", "b"] * 15, ["a", "c"] * 15], "category", "at one site only: 'b', 'c'"),
    (
        [["a", "a long text whose middle nobody reads: b"] * 15, ["a", "a long, c", "d", "e"] * 15],
        "category",
        "at one site only: 'a long text …dy reads: b', 'a long, c', 'd' and 1 more",
    ),
    ([[1.5, None] * 15, [1.5, 2.5] * 15], "number", "15 of 60 values are missing"),
    ([[1.5, None], [1.5, 2.5] * 15], "number", "1 of 32 values is missing"),
    ([["2024-03-01", "2024-04-01"] * 15, ["2025-03-02"] * 30], "date", "counted from 2024-01-01"),
    ([[None] * 30, [None] * 30], "identifier", "no value at any site"),
    ([["25/03/2024", "26/03/2024"] * 15, ["1/4/2024"] * 30], "identifier", "dates, it seems"),
    (
        [["25.03.24 10:30", "3.4.24 8:00"] * 8, ["26.03.24 9:00"] * 15],
        "identifier",
        "dates, it seems",
    ),
    ([["3 March 2024", "5 May 2024"] * 8, ["04-Apr-2024"] * 15], "identifier", "dates, it seems"),
    ([["2024-03-01"] * 29 + ["?"], ["2024-03-02"] * 30], "date", "no date in 1 row at 's0'"),
    ([[30.5, 40, 50, 999] * 9, [-9, *range(20, 60)]], "number", "is 999 a number, or does it"),
    ([[0, 1, 2, 3] * 9, [1, 2, 3, -9] * 9], "number", "is -9 a number, or does it stand for none"),
    ([range(30), ["low"] * 30], "category", "numbers at 's0', words at 's1'"),
    ([np.arange(60) / 7, ["low"] * 9], "identifier", "numbers at 's0', words at 's1'"),
]


@pytest.mark.parametrize(("sites", "kind", "doubt"), DOUBTS, ids=[d for _, _, d in DOUBTS])
def test_a_draft_says_what_it_is_unsure_of(tmp_path, sites, kind, doubt):
    files = [
        write(tmp_path, pd.DataFrame({"c": list(values), "k": "x"}), stem=f"s{i}")
        for i, values in enumerate(sites)
    ]
    found = draft(files)["c"]
    assert found.column.name == kind and doubt in "; ".join(found.doubts)


def doubted(folder, name, sites):
    """Whether a column of whole numbers is taken for one that names persons or groups."""
    for k, values in enumerate(sites):
        write(folder, pd.DataFrame({name: values, "k": "x"}), stem=f"s{k}")
    return "does it name" in "; ".join(draft(sorted(folder.iterdir()))[name].doubts)


# What is in the rows of three sites, and whether it is doubted.
WHOLE = {
    "patients with some visits each": (np.repeat(np.arange(1001, 1051), 3), True),
    "patients counted from 1 at each site": (np.tile(np.arange(1, 51), 3), True),
    "years, one after another": (np.repeat(np.arange(1980, 2010), 3), False),
    "amounts, sorted": (np.sort(np.random.default_rng(0).integers(0, 999, 200)), False),
    "amounts": (np.random.default_rng(0).integers(0, 60, 200), False),
}


@pytest.mark.parametrize("what", WHOLE)
def test_numbers_of_persons_are_doubted_by_their_rows_and_amounts_are_not(tmp_path, what):
    values, odd = WHOLE[what]
    assert doubted(tmp_path, "c", np.array_split(values, 3)) == odd


@pytest.mark.parametrize("name", ["id", "ID", "patient", "Patient ID", "childId", "visit_patient"])
def test_what_is_called_an_identifier_is_doubted_whatever_its_rows(tmp_path, name):
    assert doubted(tmp_path, name, np.array_split(WHOLE["amounts"][0], 3))


@pytest.mark.parametrize("name", ["paid", "acid", "patients", "idle", "id_count", "width"])
def test_what_is_called_something_else_is_not(tmp_path, name):
    assert not doubted(tmp_path, name, np.array_split(WHOLE["amounts"][0], 3))


cells = st.one_of(
    st.none(),
    st.integers(-3, 3),
    st.floats(-5, 5),
    st.sampled_from(["yes", "no", "x", "Y", "2020-02-03", "12", " 1.0", "NA", "low", "high", ""]),
)


@given(st.lists(st.lists(cells, min_size=3, max_size=30), min_size=1, max_size=3))
@settings(max_examples=60, deadline=None)
def test_files_fit_the_draft_made_of_them_but_for_what_it_doubts(tmp_path_factory, sites):
    folder = tmp_path_factory.mktemp("draft")
    for k, values in enumerate(sites):
        write(folder, pd.DataFrame({"c": values, "y": 1.0}), stem=f"s{k}")
    files = sorted(Path(folder).iterdir())
    found = draft(files)["c"]
    assert Schema.from_dict({"c": {"kind": found.column.name, **found.column.changed()}})
    if any(doubt.startswith(("no number in", "no date in")) for doubt in found.doubts):
        return
    schema = Schema.from_dict({"c": {"kind": found.column.name, **found.column.changed()}})
    for file in files:
        if schema.made_of("c"):
            assert read(file, schema).rows + read(file, schema).dropped == len(pd.read_csv(file))


@pytest.mark.parametrize(("mark", "words"), [(";", "semicolons"), ("\t", "tabs"), ("|", "bars")])
def test_columns_that_no_comma_separates_are_refused_not_drafted_as_one(tmp_path, mark, words):
    path = tmp_path / "a.csv"
    path.write_text(f"age{mark}size\n50{mark}1,70\n60{mark}1,80\n")
    assert f"a.csv: {words} seem to separate the columns" in said(draft, [path])


def test_an_end_of_numbers_that_lie_close_is_no_code():
    assert far_codes(np.array([20.0, 31, 55, 90, 99])) == []
    assert far_codes(np.array([20.0, 31, 55, 90, 999])) == [999]


@pytest.mark.parametrize("zone", [None, "Europe/Berlin", "Pacific/Auckland", "America/Lima"])
def test_a_date_is_that_which_is_written_in_whatever_zone_of_time(zone):
    moments = pd.Series(pd.date_range("2023-12-31 22:30", periods=9, freq="30min", tz=zone))
    days = [np.datetime64(str(moment.date())).astype(float) for moment in moments]
    np.testing.assert_array_equal(to_days(moments), days)
    np.testing.assert_array_equal(to_days(moments.map(str)), days)
    np.testing.assert_array_equal(to_days(moments.map(pd.Timestamp.isoformat)), days)


def test_every_kind_is_in_the_example():
    assert {told["kind"] for told in HELD.values()} == set(KINDS)
