"""`px.schema` drafts of data frames what `proxfl schema` drafts of files, and `px.fit` takes it."""

import io
import tomllib
from contextlib import redirect_stdout

import numpy as np
import pandas as pd
import pytest

import proxfl as px
from proxfl.cli.main import main
from tests.hostile import names, visible
from tests.sentences import said


def ward(seed, rows):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "patient": np.repeat(np.arange(rows // 2) + 1000 * seed, 2),
            "age": np.where(rng.random(rows) < 0.1, np.nan, rng.normal(60, 9, rows).round()),
            "stage": rng.choice(["I", "II", "III"], rows),
            "seen": pd.Timestamp("2024-03-01") + pd.to_timedelta(rng.integers(0, 99, rows), "D"),
            "pain": rng.choice(["mild", "moderate", "severe"], rows),
            "ill": rng.choice(["yes", "no"], rows),
            "size": rng.normal(size=rows),
        }
    )


SITES = {"north": ward(1, 60), "south": ward(2, 80)}


def drafted_by_command(folder, kind):
    for name, frame in SITES.items():
        (frame.to_csv if kind == "csv" else frame.to_parquet)(
            folder / f"{name}.{kind}", index=False
        )
    with redirect_stdout(io.StringIO()) as text:
        assert main(["schema", *(str(folder / f"{name}.{kind}") for name in SITES)]) == 0
    return text.getvalue()


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_it_is_the_draft_of_the_command_line(kind, tmp_path):
    written, own = drafted_by_command(tmp_path, kind), px.schema(SITES)
    assert repr(own).splitlines()[2:] == written.splitlines()[2:]  # below what it was drafted from
    assert dict(own) == tomllib.loads(written)
    own.save(tmp_path / "schema.toml")
    assert (tmp_path / "schema.toml").read_text() == repr(own)
    assert "choose another name" in said(own.save, tmp_path / "schema.toml")


def test_a_model_is_fitted_by_it_and_by_what_a_person_makes_of_it():
    draft = px.schema(SITES)
    assert list(draft) == list(SITES["north"]) and len(draft) == 7
    assert (
        draft["ill"] == {"kind": "boolean"} and "next to one another" in draft.doubts["patient"][0]
    )
    how = {"target": "ill", "loss": "logistic", "l2": 0.1}
    fitted = px.fit(SITES, schema=draft, exclude=["patient"], **how)
    edited = px.fit(SITES, schema={**draft, "patient": {"kind": "identifier"}}, **how)
    np.testing.assert_array_equal(fitted.coef, edited.coef)
    assert {"age=missing", "seen (days since 2024-01-01)", "pain"} & set(fitted.coef.index)
    assert fitted.converged


def test_a_cell_shows_kinds_and_doubts_and_hostile_names_as_text():
    frame = pd.DataFrame({name: [1.5, 2.5] * 20 for name in names(3, 15)} | {"id": range(40)})
    shown = px.schema([frame, frame])._repr_html_()
    assert "Schema of 2 data frames" in shown and "a number of its own" in shown
    assert visible(shown) and "<script>" not in shown
