"""A server in an attacker's hands: the table without a site's limits, and not one row within them.

Outliers are the exception: `outliers` of the red team finds some within the limits, as SECURITY.md
says.
"""

import os

import numpy as np
import pandas as pd
import pytest

from proxfl.deploy.protocol.wire import BadMessage
from proxfl.deploy.site.guard import effective
from tests.deploy.red_team import (
    OFF,
    USUAL,
    Attacker,
    isolate,
    kinks,
    longest,
    recovered,
    solve_all,
    solve_more,
    tilt,
    victim,
)  # fmt: skip

ROWS = 2000
LENGTHS = (1e6, 100.0, 50.0, 20.0, 10.0, 5.0, 1.0, 0.5)
QUESTIONS = USUAL.questions(ROWS)


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda handle: None)


def attack(folder, **options):
    """An attacker of a site that answers about an honest model, and the site's rows."""
    site, A, _ = victim(folder, ROWS, **options)
    attacker = Attacker(site)
    assert attacker.gradient([0.1] * attacker.features, 0.0) is not None
    return attacker, A


def test_without_limits_most_rows_are_taken(tmp_path):
    attacker, A = attack(tmp_path, policy=OFF)
    assert recovered(A, isolate(attacker, 4000)) > 0.9 * ROWS


@pytest.mark.parametrize("length", [1e7, 30.0, 3.0])
def test_within_the_limits_no_row_is_isolated(length, tmp_path):
    attacker, A = attack(tmp_path)
    found = isolate(attacker, QUESTIONS, length)
    assert recovered(A, found) == 0 and attacker.refused + len(found) > 0


def test_within_the_limits_no_row_stands_out(tmp_path):
    attacker, A = attack(tmp_path)
    assert recovered(A, tilt(attacker, 40)) == 0 and attacker.refused > 0


def test_within_the_limits_answers_are_fewer_than_rows(tmp_path):
    """Sixty rows, since least squares for more take long; in four features no guess is near one."""
    for seed in range(3):
        site, A, _ = victim(tmp_path / str(seed), 60, features=4, seed=seed)
        attacker = Attacker(site)
        found = solve_all(attacker, 40, seed=seed)
        assert attacker.refused == 40 - USUAL.questions(60)
        assert len(found) == len(A) and recovered(A, found) == 0


ODD = {
    "many models": ("evaluate", lambda d: {"x": np.full((d, 500), 0.1)}),
    "many models, with Hessians": (
        "newton",
        lambda d: {
            "x": np.full((d, 9), 0.1),
            "u": np.full((d, 9), 0.1),
            "length": np.ones(()),
            "features": np.arange(d, dtype=np.int32),
        },
    ),
    "no model": ("evaluate", lambda d: {"x": "x"}),
    "a scale for each row": ("conjugate", lambda d: MODEL(d) | {"scale": np.ones(ROWS), **PAIR}),
    "a scale that most rows cannot bear": (
        "conjugate",
        lambda d: MODEL(d) | {"scale": np.asarray(1.5), **PAIR},
    ),
    "many corrections": (
        "conjugate",
        lambda d: MODEL(d) | {"scale": np.ones(()), "correction": np.zeros((2, 300))},
    ),
    "a huge Hessian": ("newton", lambda d: TO(d) | {"features": np.zeros(10**5, np.int32)}),
    "features of nobody": ("newton", lambda d: TO(d) | {"features": np.full(d + 1, 7, np.int32)}),
    "many lengths": (
        "newton",
        lambda d: TO(d) | {"length": np.ones(d), "features": np.zeros(0, np.int32)},
    ),
    "more than was asked for": ("evaluate", lambda d: MODEL(d) | {"other": np.ones(3)}),
}
PAIR = {"correction": np.zeros(2)}
MODEL = lambda d, name="x": {
    f"{name}.params.coef": np.full(d, 0.1),
    f"{name}.params.intercept": np.zeros(()),
}
TO = lambda d: MODEL(d) | MODEL(d, "u") | {"length": np.ones(())}


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("intercept", [True, False])
def test_no_question_is_many_in_one(odd, intercept, tmp_path):
    """Models side by side in one array once gave as many gradients in one answer."""
    site, _, _ = victim(tmp_path, 60, features=4, intercept=intercept)
    attacker = Attacker(site)
    name, payload = ODD[odd]
    told = payload(attacker.features)
    for points in ("", "x", "x u"):
        with pytest.raises(BadMessage):
            attacker.task(name, told, points)
    assert not site.office.audit.answers.total()


def test_a_study_without_newton_s_method_tells_no_hessian(tmp_path):
    """With Hessians, the same questions tell most rows of a small site: SECURITY.md says so."""
    site, _, _ = victim(tmp_path, 60, features=4, algorithm="decoupled")
    attacker = Attacker(site)
    assert len(solve_more(attacker, 19)) == 0 and attacker.refused == 19


@pytest.mark.parametrize("loss", ["squared", "poisson", "gamma", "logistic"])
@pytest.mark.parametrize("by", [(1.0, 0.0), (0.0, 1.0), (0.5, -2.0), (-3.0, 7.0)], ids=str)
def test_no_correction_makes_sums_of_slopes_bend(loss, by, tmp_path):
    """By sign, as corrections were once, 74 rows were taken."""
    attacker, A = attack(tmp_path, loss=loss, l1=0.01)
    ask = lambda w, b: attacker.corrected(w, b, by)
    found = kinks(ask, attacker.features, LENGTHS, QUESTIONS - 1)
    assert recovered(A, found) == 0
    assert len(found) or loss == "logistic"  # whose conjugate is infinite beyond its slopes


def test_a_loss_that_bends_tells_rows_and_needs_its_owner_s_consent(tmp_path):
    with pytest.raises(BadMessage, match="'huber', whose slope bends, tell single rows"):
        attack(tmp_path / "refused", loss="huber")
    attacker, A = attack(tmp_path / "taken", loss="huber", policy=USUAL.replace(kinks=True))
    assert recovered(A, kinks(attacker.gradient, attacker.features, LENGTHS, QUESTIONS - 1)) > 20


def with_columns(folder, rows=200, loss="logistic", **columns):
    """A site whose file has more columns, which are no features."""
    site, A, _ = victim(folder, rows, features=4, loss=loss, precondition=False)
    pd.read_csv(site.data).assign(**columns).to_csv(site.data, index=False)
    site.asks = site.asks.replace(features=tuple(f"x{j}" for j in range(4)))
    return site, A


ONE = np.eye(200)[7]
SINGLES = {
    "a weight of one row": (ONE, dict(row_weights="odd")),
    "a weight that hides the others": (ONE + 1e-9 * np.arange(200), dict(row_weights="odd")),
    "twice the weight of one row": (1.0 + ONE, dict(row_weights="odd")),
    "an offset of one row": (ONE, dict(offset="odd")),
    "an exposure of one row": (1.0 + ONE, dict(exposure="odd", loss="poisson")),
    "a number to predict, of one row": (ONE, dict(target="odd", loss="squared")),
    "one of several numbers to predict": (ONE, dict(target=("y", "odd"), loss="squared")),
}


@pytest.mark.parametrize("odd", SINGLES)
def test_no_column_singles_rows_out_whatever_it_is_used_as(odd, tmp_path):
    """A mean over rows of which one has all the weight is that row."""
    column, options = SINGLES[odd]
    site, _ = with_columns(tmp_path, odd=column, loss=options.get("loss", "logistic"))
    site.asks = site.asks.replace(**options)
    with pytest.raises(BadMessage, match="declines: "):
        Attacker(site)
    assert not (site.folder / "studies").exists()


def test_weights_do_not_leave_few_of_the_rows_with_an_unusual_value(tmp_path):
    flag, kept = np.arange(200) < 20, np.arange(200) >= 19
    for k, weights in enumerate((1.0 * kept, np.where(kept, 1.0, 1e-9))):
        site, _ = with_columns(tmp_path / str(k), flag=1 * flag, odd=weights)
        site.asks = site.asks.replace(features=("x0", "flag"))
        Attacker(site)
        site.asks = site.asks.replace(row_weights="odd")
        with pytest.raises(BadMessage, match="an unusual value in some column"):
            Attacker(site)


def test_rows_without_weight_do_not_lower_the_number_behind_an_answer(tmp_path):
    """Else a column of weights would choose the few rows that a share is taken of."""
    weights = np.arange(200) % 2.0
    site, A = with_columns(tmp_path, odd=weights)
    site.asks = site.asks.replace(row_weights="odd")
    attacker, w = Attacker(site), np.array([1.0, 0.0, 0.0, 0.0])
    p = 1 / (1 + np.exp(-longest(attacker, w, 0.0) * A @ w))
    assert attacker.refused
    assert effective(weights * p * (1 - p)) == pytest.approx(USUAL.share * 200, rel=0.05)
