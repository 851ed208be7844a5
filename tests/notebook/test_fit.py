"""`px.fit` on data frames is `proxfl train` on the same frames in files."""

import io
import json
import re
import warnings
from contextlib import redirect_stderr, redirect_stdout

import numpy as np
import pandas as pd
import pytest

import proxfl as px
from proxfl.cli.main import main
from proxfl.console import progress
from proxfl.train.folder import read, read_model
from proxfl.train.train import ConvergenceWarning
from tests.hostile import names, visible
from tests.sentences import said

LASSO = {"target": "y", "loss": "logistic", "l1": 0.02, "standardise": True}


def frame(seed, rows, columns=("age", "bmi", "x 3")):
    rng = np.random.default_rng(seed)
    made = pd.DataFrame(rng.normal(size=(rows, len(columns))), columns=list(columns))
    score = made.iloc[:, 0] - made.iloc[:, 1] + rng.normal(size=rows)
    return made.assign(y=np.where(score > 0, "yes", "no"))


SITES = {"south": frame(0, 60), "north": frame(1, 25), "east": frame(2, 40)}


def files(folder, kind):
    for name, held in SITES.items():
        (held.to_csv if kind == "csv" else held.to_parquet)(folder / f"{name}.{kind}", index=False)
    return [str(folder / f"{name}.{kind}") for name in SITES]


def train(*words):
    with redirect_stdout(io.StringIO()):
        return main(["train", *map(str, words)])


@pytest.fixture(scope="module")
def fitted():
    return px.fit(SITES, **LASSO)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_it_is_the_model_of_the_command_line_bit_for_bit(kind, fitted, tmp_path):
    words = "--target y --loss logistic --l1 0.02 --standardise".split()
    assert train(*files(tmp_path, kind), *words, "--out", tmp_path / "out") == 0
    model, held = read_model(tmp_path / "out")
    np.testing.assert_array_equal(fitted.coef, model.coef)
    assert fitted.coef.index.tolist() == list(model.features)
    assert fitted.intercept == model.intercept
    assert fitted.certificate == held["certificate"]
    written, own = read(tmp_path / "out"), fitted.saved
    assert own.history == written.history
    told = ("fingerprints", "agreement", "sites", "ledger", "exchanges", "bytes_up", "bytes_down")
    for key in told:
        assert json.loads(json.dumps(own.manifest[key])) == written.manifest[key], key


def test_what_is_saved_is_a_folder_like_any_other(fitted, tmp_path):
    fitted.save(tmp_path / "out")
    assert read(tmp_path / "out").manifest["command"] == (
        "px.fit({'south': ..., 'north': ..., 'east': ...}, target='y', standardise=True, "
        "loss='logistic', l1=0.02)"
    )
    assert (tmp_path / "out" / "report.html").exists()
    rows = tmp_path / "rows.csv"
    SITES["north"].drop(columns="y").to_csv(rows, index=False)
    text = io.StringIO()
    with redirect_stdout(text):
        assert main(["predict", str(tmp_path / "out"), str(rows), "--proba"]) == 0
    expected = pd.read_csv(io.StringIO(text.getvalue()))
    assert fitted.predict(SITES["north"]).tolist() == expected["prediction"].tolist()
    found = fitted.probabilities(SITES["north"])
    np.testing.assert_allclose(found["yes"], expected["probability_yes"], rtol=1e-15)
    assert "is not empty; choose another" in said(fitted.save, tmp_path / "out")
    assert "is not empty" in said(px.fit, SITES, **LASSO, out=tmp_path / "out")


def test_sites_weigh_by_their_rows_unless_told_otherwise(fitted):
    np.testing.assert_allclose(fitted.sites["weight"], [60 / 125, 25 / 125, 40 / 125])
    assert fitted.sites["rows"].to_dict() == {"south": 60, "north": 25, "east": 40}
    pooled = px.fit([pd.concat(SITES.values())], **LASSO)
    assert fitted.objective == pytest.approx(pooled.objective, rel=1e-9)
    uniform = px.fit(SITES, **LASSO, weights="uniform")
    assert uniform.sites["weight"].tolist() == pytest.approx([1 / 3] * 3)
    assert uniform.objective != pytest.approx(fitted.objective, rel=1e-4)


def test_names_orders_and_indices_of_frames_change_nothing(fitted):
    """A list has names of its own; columns go by their names, rows by their places."""
    shuffled = [held.iloc[:, ::-1].set_axis(np.zeros(len(held))) for held in SITES.values()]
    found = px.fit(shuffled, **LASSO, features=("age", "bmi", "x 3"))
    pd.testing.assert_series_equal(found.coef, fitted.coef)
    assert found.sites.index.tolist() == ["site 1", "site 2", "site 3"]
    turned = px.fit(dict(reversed(SITES.items())), **LASSO)
    assert turned.sites["weight"].to_dict() == pytest.approx(fitted.sites["weight"].to_dict())
    assert turned.objective == pytest.approx(fitted.objective, rel=1e-9)


def test_predictions_have_the_index_of_their_rows(fitted):
    rows = SITES["east"].set_index(pd.Index(range(100, 140)))
    found = fitted.predict(rows)
    assert found.index.equals(rows.index) and set(found) <= {"yes", "no"}
    assert "the data frame: there is no column 'bmi'" in said(
        fitted.predict, rows.drop(columns="bmi")
    )


def test_scores_are_those_of_the_command_line(fitted, tmp_path):
    fitted.save(tmp_path / "out")
    with redirect_stdout(io.StringIO()) as told:
        assert main(["evaluate", str(tmp_path / "out"), *files(tmp_path, "csv"), "--json"]) == 0
    written, found = json.loads(told.getvalue()), fitted.evaluate(SITES)
    for site, scores in {"overall": written["overall"], **written["sites"]}.items():
        intervals = scores.pop("intervals")
        assert found["value"][site].to_dict() == pytest.approx(scores, rel=1e-12)
        low, high = intervals["auc"]
        assert found.loc[(site, "auc"), ["low", "high"]].tolist() == pytest.approx([low, high])
    assert "threshold must be between 0 and 1" in said(fitted.evaluate, SITES, threshold=1.0)
    assert "south: there is no column 'y'" in said(
        fitted.evaluate, {"south": SITES["south"].drop(columns="y")}
    )


def test_intercepts_of_sites_are_told_by_name():
    found = px.fit(SITES, target="y", loss="logistic", site_intercepts=True)
    scores = found.evaluate(SITES, draws=0, intercepts={"south": 0.5, "north": -1.0, "east": 0.0})
    for name, b in {"south": 0.5, "north": -1.0}.items():
        right = found.predict(SITES[name], b) == SITES[name]["y"]
        assert scores.loc[(name, "accuracy"), "value"] == pytest.approx(right.mean())
    assert "none is given for 'north'" in said(found.evaluate, SITES, intercepts={"south": 0.5})


def test_the_certificate_and_the_costs_are_told(fitted):
    assert fitted.converged and fitted.optimality <= 1e-6 and 0 <= fitted.duality_gap < 1e-6
    assert fitted.history["objective"].iloc[-1] == pytest.approx(fitted.objective)
    assert len(fitted.history) == fitted.certificate["rounds"]
    assert fitted.history.dtypes.ne(object).all()
    assert fitted.exchanges > 0 and fitted.bytes_up > 0 and fitted.bytes_down > 0
    assert fitted.inference is None
    text = repr(fitted)
    assert text.startswith("y: a logistic model from 3 sites. Converged after ")
    assert text.endswith(" of 3 coefficients are not zero.")


def test_standard_errors_are_a_table():
    options = {"target": "y", "loss": "squared", "inference": True}
    found = px.fit(
        [held.assign(y=held["age"] + held["bmi"] ** 2) for held in SITES.values()], **options
    )
    assert found.inference.index.tolist() == ["age", "bmi", "x 3", "intercept"]
    assert (found.inference["lower"] < found.inference["upper"]).all()
    assert "no probabilities" in said(found.probabilities, SITES["north"])


def test_rounds_used_up_are_warned_about():
    with pytest.warns(ConvergenceWarning, match="after 1 round"):
        found = px.fit(SITES, **LASSO, rounds=1)
    assert not found.converged and "Not converged after 1 round" in found._repr_html_()


@pytest.mark.parametrize(
    ("sites", "options", "words"),
    [
        (SITES, {"l2": -1}, "key 'l2' must be a non-negative number, got -1; it is"),
        (SITES, {"lambda1": 1}, "there is no key 'lambda1'; "),
        (SITES, {"target": "z"}, "south: there is no column 'z' among 4; check the target."),
        (SITES, {"exclude": ["sex"]}, "south: there is no column 'sex'"),
        ({}, {}, "sites must be data frames, in a dict by name or in a list, got none; "),
        ("hospitals/", {}, "sites must be data frames, .* got a str; for files there is"),
        (SITES["north"], {}, "sites must be data frames, .* got a DataFrame; "),
        ({"a": [1, 2]}, {}, "site 'a' must be a pandas DataFrame, got a list."),
        ({1: SITES["north"], "1": SITES["east"]}, {}, "two of the sites '1', '1' are called alike"),
        ([SITES["north"].drop(columns="age"), SITES["east"]], {}, "site site 2 has extra 'age'"),
        ([SITES["north"].iloc[:0]], {}, "site 1: there are no rows of data"),
        ([SITES["north"].assign(age="old")], {}, "site 1: column 'age' is not numeric"),
        (
            [SITES["north"].rename(columns={"age": "bmi"})],
            {},
            "more than one column is named 'bmi'",
        ),
    ],
)
def test_what_cannot_be_fitted_is_refused_in_a_sentence(sites, options, words):
    assert re.search(words, said(px.fit, sites, **LASSO | options))


def test_names_from_anywhere_are_harmless_in_a_notebook():
    """Whatever columns, sites and labels are called, the markup is ours."""
    for seed in range(3):
        site, target, low, high, *columns = names(seed, 12)
        made = frame(seed, 40, columns).rename(columns={"y": target})
        made[target] = made[target].map({"yes": high, "no": low})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            found = px.fit({site: made}, target=target, loss="logistic", l2=0.1, rounds=2)
        shown = found._repr_html_()
        tags = set(re.findall(r"<[^>]*>", shown))
        ours = ("div", "p", "strong", "table", "thead", "tbody", "tr", "th", "td", "code")
        assert tags <= {f"<{end}{tag}>" for tag in ours for end in ("", "/")}
        assert visible(shown) and visible(repr(found))
    strange = {"age": "<script>alert(1)</script>"}
    sites = {f"<{name}>": held.rename(columns=strange) for name, held in SITES.items()}
    named = px.fit(sites, **LASSO)
    shown = named._repr_html_()
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in shown and "<script" not in shown
    assert "<td>&lt;north&gt;</td>" in shown


def test_several_classes_are_columns():
    wide = [held.assign(y=np.arange(len(held)) % 3) for held in SITES.values()]
    found = px.fit(wide, target="y", loss="softmax", l2=0.1)
    assert found.coef.shape == (3, 3) and found.coef.columns.tolist() == [0, 1, 2]
    assert found.intercept.index.tolist() == [0, 1, 2]
    np.testing.assert_allclose(found.probabilities(wide[0]).sum(axis=1), 1)
    assert "Intercept: 0 " in found._repr_html_()


def test_nothing_is_printed_where_nobody_watches(monkeypatch):
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.0)
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        px.fit(SITES, **LASSO)
    assert out.getvalue() == err.getvalue() == ""
