"""A server in an attacker's hands: the table without a site's limits, and not one row within them.

Outliers are the exception: `outliers` of the red team finds some within the limits, as SECURITY.md
says.
"""

import os

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from proxfl.deploy.masking.messages import Charter
from proxfl.deploy.protocol.membership import Membership
from proxfl.deploy.protocol.study import make_study, read_table
from proxfl.deploy.protocol.wire import BadMessage
from proxfl.deploy.site import audit
from proxfl.deploy.site.following import PARTS, FollowingSite
from proxfl.deploy.site.guard import effective
from proxfl.deploy.site.office import Office
from proxfl.deploy.site.reception import Reception
from proxfl.losses import Logistic
from proxfl.losses.scores.cells import CELLS, WIDTH, cell_of
from proxfl.losses.targets import probabilities
from proxfl.problem import Problem
from proxfl.prox import L1
from proxfl.train.applied import SiteRows
from proxfl.train.choice import Choice
from proxfl.train.evaluate import drawn_sums, site_sums
from proxfl.train.spec import Spec
from tests.deploy.leaving import leaving
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


@pytest.mark.parametrize("batch", [None, 60])
def test_no_answer_of_a_small_site_hangs_on_fewer_rows_than_the_policy_counts(batch, tmp_path):
    """Of 60 rows, or of a batch of so many, the share alone would be three."""
    rows = 60 if batch is None else 200
    site, A, _ = victim(tmp_path, rows, features=4, batch=batch)
    attacker, w = Attacker(site), np.array([1.0, 0.0, 0.0, 0.0])
    p = 1 / (1 + np.exp(-longest(attacker, w, -1.5) * (A @ w - 1.5)))
    assert attacker.refused
    assert effective(p * (1 - p)) >= 0.95 * rows / (batch or rows) * USUAL.count


def test_no_products_of_gradients_hang_on_few_rows(tmp_path):
    """Robust standard errors weigh rows by the squares of their slopes: one row of a hundred was
    behind an answer about a model for which the rule on second derivatives had nothing to say."""
    site, A, y = victim(tmp_path, 100, features=4, loss="gamma", inference=True)
    attacker, w = Attacker(site), np.array([1.0, 0.0, 0.0, 0.0])
    far = 0.98 * longest(attacker, w, 0.0) * w
    assert attacker.about("hessian", far, 0.0) is not None
    assert attacker.about("information", far, 0.0) is None
    hoped = y * np.exp(-A @ far)  # over what is predicted, which is the second derivative
    assert effective((1 - hoped) ** 2) < USUAL.count <= effective(hoped)


def test_a_study_without_newton_s_method_tells_no_hessian(tmp_path):
    """With Hessians, the same questions tell most rows of a small site: SECURITY.md says so."""
    site, _, _ = victim(tmp_path, 60, features=4, algorithm="decoupled")
    attacker = Attacker(site)
    assert len(solve_more(attacker, 19)) == 0 and attacker.refused == 19


CORRECTIONS = [(1.0, 0.0), (0.0, 1.0), (0.5, -2.0), (-3.0, 7.0)]
CORRECTED = [  # each loss with two of them, each of them for two losses
    (loss, CORRECTIONS[(i + k) % 4])
    for i, loss in enumerate(("squared", "poisson", "gamma", "logistic"))
    for k in range(2)
]


@pytest.mark.parametrize(("loss", "by"), CORRECTED, ids=str)
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


def under_observation(folder, policy):
    """An attacker of a site with times until events, and the site's rows."""
    site, A, _ = victim(folder, 200, features=3, policy=policy, loss="squared")
    rng, names = np.random.default_rng(0), ("x0", "x1", "x2")
    times = {"t": rng.exponential(size=200), "e": np.arange(200) % 4 > 0}
    pd.read_csv(site.data).assign(**times).astype({"e": int}).to_csv(site.data, index=False)
    site.asks = Spec(loss="cox", time="t", event="e", features=names)
    return Attacker(site), A


def test_no_step_of_a_hazard_tells_the_rows_that_left(tmp_path):
    """By steps of one event each, rows were taken with as many questions as features, and one."""
    attacker, _ = under_observation(tmp_path / "as it is", USUAL)
    assert len(leaving(attacker)) == 0
    told = attacker.task("survival", {"x": np.zeros(3)})
    hazard = told["['hazard']"][told["['known']"]]
    assert len(hazard) > 10 and (np.diff(hazard) > 0).all()
    attacker, A = under_observation(tmp_path / "without the rule", USUAL.replace(count=0))
    assert recovered(A, leaving(attacker)) > 0


@pytest.mark.parametrize("name", ["loss", "deviance", "log_loss", "brier"])
def test_of_a_row_that_is_alone_in_its_cell_an_evaluation_tells_no_more_than_the_cell(name):
    """By its cell a row is seen in each draw, so that all draws together would tell its loss.

    A score that is told with all digits has room for all columns of a row.
    """
    rng, places = np.random.default_rng(0), 7 * np.arange(-30, 30)
    z, y = WIDTH * (places + rng.uniform(0.05, 0.95, 60)), np.where(np.arange(60) % 2, 1.0, -1.0)
    rows = SiteRows(z, y, probabilities(np.stack([0 * z, z], axis=1)), np.ones(60))
    sums = site_sums(Logistic(), rows, 0.5)
    in_cells = [a for a in sums.values() if np.shape(a) == (CELLS,)]
    assert all(np.array_equal(a, np.rint(a)) for a in in_cells)
    drawn = drawn_sums(Logistic(), rows, rng.poisson(1.0, (200, 60)).astype(float), 0.5)
    seen = (drawn["positives"] + drawn["negatives"])[:, cell_of(z)]
    each = np.linalg.lstsq(seen, drawn[name])[0] / (2.0 if name == "deviance" else 1.0)
    at = np.linspace(-1.0, 1.0, 200_001)
    told = lambda sign: np.logaddexp(0.0, -sign * at) if name != "brier" else expit(-sign * at) ** 2
    found = [at[np.abs(told(sign) - loss).argmin()] for sign, loss in zip(y, each, strict=True)]
    assert np.median(np.abs(found - z)) > WIDTH / 4  # as far off as the middles of cells are


def with_columns(folder, rows=200, loss="logistic", **columns):
    """A site whose file has more columns, which are no features."""
    site, A, _ = victim(folder, rows, features=4, loss=loss, precondition=False)
    pd.read_csv(site.data).assign(**columns).to_csv(site.data, index=False)
    site.asks = site.asks.replace(features=tuple(f"x{j}" for j in range(4)))
    return site, A


ONE = np.eye(200)[7]
SPREAD = np.arange(200) / 200
FEW = np.where(np.arange(200) < 10, 0.9999, 1.0)
COUNTS = dict(features=("x0", "x1"), loss="poisson")
SINGLES = {
    "no weight for one row": (1.0 - ONE, dict(row_weights="odd")),
    "no weight for one row, and a little less for some": (FEW * (1 - ONE), dict(row_weights="odd")),
    "a weight apart from all others": (1.0 - ONE + 1e-9 * SPREAD, dict(row_weights="odd")),
    "an offset apart from all others": (ONE + 1e-9 * SPREAD, dict(offset="odd")),
    "a number to predict, apart": (ONE + 1e-9 * SPREAD, dict(target="odd", loss="squared")),
    "a feature apart from all others": (1e6 + ONE + 1e-9 * SPREAD, dict(features=("x0", "odd"))),
    "a weight of one row": (ONE, dict(row_weights="odd")),
    "a weight that hides the others": (ONE + 1e-9 * np.arange(200), dict(row_weights="odd")),
    "twice the weight of one row": (1.0 + ONE, dict(row_weights="odd")),
    "an offset of one row": (ONE, dict(offset="odd")),
    "an exposure of one row": (1.0 + ONE, dict(exposure="odd", loss="poisson")),
    "an exposure of almost nothing": (
        1.0 + SPREAD - ONE * (1 + SPREAD - 1e-300),
        COUNTS | dict(exposure="odd"),
    ),
    "an offset that few weigh, by itself": (
        SPREAD + 30 * ONE,
        COUNTS | dict(offset="odd", row_weights="odd"),
    ),
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


TURNS = ("row_weights", "offset", "target")


def in_turn(folder, role, by):
    """A site with two columns that differ by so much, each used once, and its rows."""
    one, other = 1.0 + SPREAD, 1.0 + SPREAD + by
    site, A = with_columns(folder, one=one, other=other, loss="squared")
    site.asks = site.asks.replace(**{role: "one"})
    return Attacker(site), site.asks.replace(**{role: "other"}), A


@pytest.mark.parametrize("role", TURNS)
def test_columns_that_differ_in_one_row_are_not_used_in_turn(role, tmp_path):
    attacker, second, _ = in_turn(tmp_path, role, 0.5 * ONE)
    with pytest.raises(BadMessage, match="rows that differ in fewer than 5 from those it told of"):
        attacker.propose("second", second)


@pytest.mark.parametrize("role", TURNS[1:])
def test_columns_that_differ_in_every_row_tell_the_one_in_which_they_differ_most(role, tmp_path):
    """Which SECURITY.md says."""
    attacker, second, A = in_turn(tmp_path, role, 0.5 * ONE + 1e-9 * SPREAD)
    first = attacker.gradient([0.1] * 4, 0.0)
    attacker.propose("second", second)
    apart = attacker.gradient([0.1] * 4, 0.0) - first
    np.testing.assert_allclose(apart[1:] / apart[0], A[7], atol=1e-6)


def test_features_that_differ_in_one_row_tell_it(tmp_path):
    """Which SECURITY.md says: a difference of two numbers is that row's slope, at any model."""
    one = 1.0 + SPREAD
    site, A = with_columns(tmp_path, one=one, other=one + 0.5 * ONE, loss="squared")
    site.asks = site.asks.replace(features=("x0", "one", "other"), standardise=False)
    attacker = Attacker(site)
    ask = lambda w: np.subtract(*attacker.gradient(w, 0.0)[[3, 2]])
    still = ask([0.0, 0.0, 0.0])
    row = [2 * (ask(w) - still) / 0.5 for w in np.eye(3)[:2]]  # slopes are score less target
    np.testing.assert_allclose(np.array(row) / row[1] * one[7], [A[7, 0], one[7]], rtol=1e-6)


def with_stages(folder, few):
    """A site of 200 rows, `few` of them at the last of four stages; and its study by a list."""
    stage = np.array(list("ABC"))[np.arange(200) % 3]
    stage[:few] = "D"
    site, A = with_columns(folder, stage=stage)
    numbers = {f"x{j}": {"kind": "number"} for j in range(4)} | {"y": {"kind": "boolean"}}
    stages = lambda levels: numbers | {"stage": {"kind": "ordered", "levels": list(levels)}}
    return site, A, lambda levels: site.asks.replace(features=(), schema=stages(levels))


def test_no_list_of_levels_moves_a_few_rows_alone(tmp_path):
    """With a level that nobody has before the last, one row was told by two Hessians at 0."""
    for few, policy in ((1, USUAL), (1, USUAL.replace(count=0)), (5, USUAL)):
        folder = tmp_path / f"{few} rows, {policy.count}"
        site, A, asks = with_stages(folder, few)
        site.office.given, site.asks = policy, asks("ABCD")
        if few < policy.count:
            with pytest.raises(BadMessage, match="an unusual value in some column"):
                Attacker(site)
            continue
        attacker = Attacker(site)
        first = attacker.hessian(np.zeros(5), 0.0)
        attacker.propose("second", asks("ABCED"))
        apart = np.zeros((6, 6))
        apart[np.triu_indices(6)] = 4 * (attacker.hessian(np.zeros(5), 0.0) - first)[6:]
        np.testing.assert_allclose(apart[:4, 4], A[:few].sum(axis=0), atol=1e-9)


def test_a_study_with_weights_is_about_the_rows_that_count(tmp_path):
    """Two studies that leave other rows out are as far apart as those rows."""
    some, more = np.arange(200) >= 20, np.arange(200) >= 21
    site, _ = with_columns(tmp_path, some=1 * some, more=1 * more)
    attacker = Attacker(site)
    attacker.propose("some", site.asks.replace(row_weights="some"))
    with pytest.raises(BadMessage, match="rows that differ in fewer than 5"):
        attacker.propose("more", site.asks.replace(row_weights="more"))


def test_a_label_of_few_rows_is_not_told_where_these_do_not_count(tmp_path):
    rare = np.arange(200) < 3
    label, weights = np.where(rare, 2, np.arange(200) % 2), 1 * (np.arange(200) >= 9)
    site, _ = with_columns(tmp_path, label=label, odd=weights)
    site.asks = site.asks.replace(target="label", loss="softmax", row_weights="odd")
    with pytest.raises(BadMessage, match="declines: a label, a gap or an unusual value"):
        Attacker(site)


def test_a_negative_weight_is_declined_and_the_site_s_log_has_why(tmp_path):
    site, _ = with_columns(tmp_path, odd=1.0 - 2 * ONE)
    site.asks = site.asks.replace(row_weights="odd")
    with pytest.raises(BadMessage, match="declines: its file cannot be read for the study"):
        Attacker(site)
    (line,) = map(audit.parsed, audit.lines_of(site.folder))
    assert line["decision"] == "declines"
    assert any("is below 0" in told for told in site.office.news.values())


def test_columns_of_which_few_values_are_held_are_columns_like_others(tmp_path):
    """Of 200 rows, one alone has the last feature."""
    A = np.random.default_rng(0).normal(size=(200, 3)).round(3)
    rows = [f"{i % 2} " + " ".join(f"{j + 1}:{a}" for j, a in enumerate(A[i])) for i in range(200)]
    for last, decision in ((range(7, 8), "declines"), (range(0, 200, 9), "takes part")):
        lines = [row + (" 4:1" if i in last else "") for i, row in enumerate(rows)]
        folder = tmp_path / decision.replace(" ", "-")
        folder.mkdir()
        (folder / "data.libsvm").write_text("\n".join(lines) + "\n")
        membership, office = Membership("clinic", ("north",)), Office(folder / "site", USUAL)
        site = Reception(membership, "north", folder / "data.libsvm", office)
        study = make_study("first", "clinic", ("north",), Spec(target="y", loss="logistic"))
        assert site.decide(study)[0] == decision


def test_few_rows_of_a_fold_are_as_few_as_of_a_table(tmp_path):
    """Ten rows of a thousand are enough, the two or so of them in each of five folds are not."""
    site, _ = with_columns(tmp_path, rows=1000, odd=1.0 * (np.arange(1000) >= 10))
    policy = USUAL.replace(automatic=("train", "path"), questions_per_row=10.0)
    site.office.given = policy
    spec = site.asks.replace(row_weights="odd")
    for choice, decision in ((None, "takes part"), (Choice(points=3, folds=5), "declines")):
        asked = make_study("first", "clinic", ("north",), spec, unmasked=True, choice=choice)
        assert site.decide(asked)[0] == decision


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


@pytest.mark.parametrize("choice", [None, Choice(points=3, folds=4)], ids=["train", "path"])
def test_under_masks_and_on_paths_too_the_share_is_of_all_rows(choice, tmp_path):
    """Of every second row that counts, twice the share; in folds more, as they were dealt."""
    site, _ = with_columns(tmp_path, odd=np.arange(200) % 2.0)
    spec, policy = site.asks.replace(row_weights="odd"), USUAL.replace(share=0.1)
    study = make_study("first", "clinic", ("north", "south", "west"), spec, choice=choice)
    site.office.given, table = policy, read_table(spec, site.data)
    following = FollowingSite(study, "north", table, site.office)
    _, answers = PARTS[study.ask](following, Charter(table.features, (0, 1)))
    found = answers.guarded(Problem(L1(0.0), np.zeros(4), Logistic())).loss.share
    assert found == pytest.approx(0.2) if choice is None else 0.2 < found < 0.4
