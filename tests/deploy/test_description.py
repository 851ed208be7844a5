"""Table one over sites is that of the files; a site hides what few rows are behind, always."""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxfl.deploy.protocol.study import make_description
from proxfl.deploy.server import description
from proxfl.deploy.server.inquiry import TooFewSites
from proxfl.deploy.server.program import result_of
from proxfl.errors import InputError
from proxfl.tables import Schema
from proxfl.tables.describe import describe
from proxfl.tables.hiding import OVERALL
from proxfl.tables.survey import MISSING, QUESTIONS, REACH, Site, described_table, joined
from tests.deploy.field import LOOSE, NAMES, Field

SCHEMA = Schema.from_dict(
    {
        "a": {"kind": "number"},
        "days": {"kind": "count"},
        "ward": {"kind": "category", "levels": ["east", "north", "nobody"]},
        "y": {"kind": "boolean"},
        "who": {"kind": "identifier"},
        "elsewhere": {"kind": "number"},
    }
)
OPEN = LOOSE.replace(automatic=("train", "describe"))


def asked(folder, smallest=1, masked=False, policy=OPEN, schema=SCHEMA):
    field = Field(folder, policy=policy, masked=masked)
    for i, file in enumerate(field.files):
        table, rng = pd.read_csv(file), np.random.default_rng(i)
        table["days"] = rng.poisson(40, len(table))
        table.loc[:7, "days"] = np.nan
        table["ward"] = np.where(rng.random(len(table)) < 0.4, "east", "north")
        table.loc[3 * i : 3 * i + 1, "a"] = np.nan
        table["who"] = [f"{file.stem}-{j}" for j in range(len(table))]
        table.to_csv(file, index=False)
    about = ("columns", "field", NAMES, schema, smallest)
    field.study = make_description(*about, unmasked=not masked)
    if masked:
        field.confirm()
    return field


def found(field):
    run = field.life("told")
    field.propose()
    return result_of(run)


@pytest.mark.parametrize("masked", [False, True])
def test_it_is_that_of_the_files_to_1e_12(masked, tmp_path):
    field = asked(tmp_path, masked=masked)
    there, here = found(field), describe(field.files, SCHEMA, 1)
    for name, column in here.items():
        sites = [OVERALL] if masked else [OVERALL, *NAMES]
        assert list(there[name].counts) == sites
        assert there[name].counts == {site: column.counts[site] for site in sites}
        width = pytest.approx(column.resolution or 0.0, rel=1e-9)
        assert (there[name].resolution or 0.0) == width
        for site in sites if column.numbers else ():
            wanted = column.numbers[site]
            near = None if wanted is None else pytest.approx(wanted, rel=1e-12, abs=1e-12)
            assert there[name].numbers[site] == near
    assert here["ward"].counts[OVERALL]["nobody"] == 0
    assert here["elsewhere"].counts[OVERALL][MISSING] == 100
    description.save(field.life("told"), there)
    held = json.loads((tmp_path / "told" / "description.json").read_text())
    assert set(held["columns"]["a"]["sites"]) == (set() if masked else set(NAMES))
    assert pd.read_csv(tmp_path / "told" / "table-one.csv").columns[2] == OVERALL


@pytest.mark.parametrize("masked", [False, True])
def test_a_site_hides_what_few_rows_are_behind_whatever_the_study_asks(masked, tmp_path):
    field = asked(tmp_path, smallest=1, masked=masked, policy=OPEN.replace(count=5))
    file = field.files[1]
    table = pd.read_csv(file)
    table.loc[:2, "ward"] = "nobody"  # a level of three rows
    table.to_csv(file, index=False)
    there, exact = found(field), describe(field.files, SCHEMA, 1)
    if masked:  # which site hid it is not seen, nor that one did
        assert there["ward"].counts[OVERALL]["nobody"] == 0
        assert there["a"].counts[OVERALL][MISSING] == 0
        missing = exact["ward"].counts[OVERALL]["rows"] - sum(
            there["ward"].counts[OVERALL][part] for part in ("east", "north")
        )
        assert missing >= 5  # another level of that site is left out with it
    else:
        south = there["ward"].counts["south"]
        assert south["nobody"] is None and None in (south["east"], south["north"])
        assert there["ward"].counts[OVERALL]["nobody"] is None
        assert there["a"].counts["north"][MISSING] is None
        assert there["ward"].counts["west"] == exact["ward"].counts["west"]
    numbers, wanted = there["a"].numbers[OVERALL], exact["a"].numbers[OVERALL]
    assert abs(numbers["mean"] - wanted["mean"]) < 0.05 * wanted["sd"]
    assert abs(numbers["q50"] - wanted["q50"]) < 0.5 * wanted["sd"]
    assert there["elsewhere"].numbers[OVERALL] is None  # nobody has any


@pytest.mark.parametrize("masked", [False, True])
def test_each_of_its_questions_is_an_answer_in_the_log(masked, tmp_path):
    field = asked(tmp_path, masked=masked)
    found(field)
    for i in range(3):
        assert field.office(i).audit.answers[field.study.id] == len(QUESTIONS)


def test_a_person_approves_it_and_policies_hold(tmp_path):
    field = asked(tmp_path, policy=LOOSE)
    with pytest.raises(TooFewSites, match="a person there decides about studies that describe"):
        field.propose()
    field = asked(tmp_path / "other", policy=OPEN.replace(exclude=("who",)))
    with pytest.raises(TooFewSites, match="its column who is not for studies"):
        field.propose()


def test_other_cells_are_not_asked_for_twice_in_a_study(tmp_path):
    """The difference of two histograms whose edges differ would be of few rows."""
    field = asked(tmp_path)
    found(field)
    sites = field.reach(field.study.id)
    names = [name for name in ("a", "days", "elsewhere")]
    cells = {f"{part} {n}": np.array(1.0) for n in names for part in ("mean", "spread", "whole")}
    with pytest.raises(TooFewSites, match="asked for histograms in this study before"):
        sites.ask("histograms", cells)
    assert found(field)["a"].counts[OVERALL]["rows"] == 100  # the same is answered again


def test_numbers_that_no_site_would_tell_are_refused_by_name(tmp_path):
    field = asked(tmp_path)
    with pytest.raises(InputError, match="Site west told other numbers"):
        description.read("west", np.zeros(3), 4)
    with pytest.raises(InputError, match="describes no column"):
        make_description("s", "field", NAMES, Schema({}), 1)
    assert field.study.words.startswith("describe")


@given(st.lists(st.integers(0, 9), min_size=1, max_size=30), st.integers(1, 6))
def test_no_told_cell_has_few_rows_and_no_row_is_lost_or_far_in_rank(counts, fewest):
    cells = np.array(counts)
    if 0 < cells.sum() < fewest:
        return  # of so few numbers nothing is told
    made = joined(cells, fewest)
    assert made.sum() == cells.sum() and ((made == 0) | (made >= fewest)).all()
    assert np.abs(np.cumsum(made) - np.cumsum(cells)).max() < 2 * fewest
    if (cells[cells > 0] >= fewest).all():
        np.testing.assert_array_equal(made, cells)


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=40))
def test_a_twentieth_of_any_numbers_at_most_is_beyond_the_cells(values):
    a = np.array(values)
    spread = REACH * a.std(ddof=1) * (1 + 1e-9) + 1e-9
    assert (a < a.mean() - spread).mean() <= 0.05 and (a > a.mean() + spread).mean() <= 0.05


def test_few_gaps_and_few_numbers_are_not_told(tmp_path):
    pd.DataFrame({"a": [1.0, 2.0, np.nan, 6.0, 7.0, 9.0]}).to_csv(tmp_path / "s.csv", index=False)
    schema = Schema.from_dict({"a": {"kind": "number"}})
    table = described_table(tmp_path / "s.csv", schema)
    rows, missing, number, total, _ = Site(schema, table, 5, -1.0)("columns", {})
    assert (rows, missing, number, total) == (6, -1, 6, 30.0)
    assert Site(schema, table, 6, -1.0)("columns", {})[2] == 0
