"""A league nobody can call rigged: grids bracket, names are told apart, costs are counted."""

import numpy as np
import pandas as pd
import pytest

from proxfl.algorithms import Decoupled, FedProx, ProximalGradient
from proxfl.data import Design
from proxfl.engine.simulate import simulate
from proxfl.losses import Squared
from proxfl.precision import precision
from proxfl.problem import Problem
from proxfl.prox import L1, Simplex, Zero
from proxfl.research.league import standings, tuning
from proxfl.research.league.draws import draw_of
from proxfl.research.league.driven import driven
from proxfl.research.league.entrants import BUDGET, DRIVEN, ENTRANTS, FIELD, Axis, Entrant, mesh
from proxfl.research.league.show import printed
from proxfl.research.league.standings import Entry, may_enter, plateau, summary
from proxfl.research.league.work import work
from proxfl.research.shipped import CONDITIONS, PROBLEMS, lasso_of
from proxfl.research.styles import STYLES

TAU = 3


@pytest.fixture(scope="module")
def draw():
    return draw_of(PROBLEMS["l1-least-squares"](0))


def test_every_entrant_has_a_look_of_its_own():
    assert len(ENTRANTS) == len(FIELD) + len(DRIVEN)
    assert set(ENTRANTS) <= set(STYLES) and len(set(STYLES.values())) == len(STYLES)


@pytest.mark.parametrize("entrant", FIELD, ids=lambda entrant: entrant.name)
def test_first_grids_have_about_the_same_number_of_points(entrant):
    assert BUDGET <= len(mesh(entrant.grid)) <= 2 * BUDGET


@pytest.mark.parametrize("best", [1e-3, 0.5, 1.0, 3e3])
def test_the_grid_grows_until_the_best_point_is_inside(monkeypatch, draw, best):
    """Whatever the first grid, the value that is best is found to within a step of the grid."""
    entrant = Entrant(
        "made up", (Axis("a", (1.0, 2.0, 4.0)), Axis("b", (1.0, 4.0))), lambda p, u: p
    )
    distance = lambda p: abs(np.log(p["a"] / best)) + abs(np.log(p["b"] / 4.0))
    worst = lambda entrant, points, draws, tau, rounds: [(0, distance(p)) for p in points]
    monkeypatch.setattr(tuning, "judge", worst)
    monkeypatch.setattr(tuning, "EXTENSIONS", 20)
    found = tuning.tune(entrant, [draw], TAU, 1)
    assert abs(np.log2(found.point["a"] / best)) <= 1 and found.point["b"] == 4.0
    assert found.edge == []


def test_a_method_that_gets_better_for_ever_is_shown_at_its_edge(monkeypatch, draw):
    entrant = Entrant("made up", (Axis("a", (1.0, 2.0, 4.0)),), lambda p, u: p)
    for_ever = lambda entrant, points, draws, tau, rounds: [(0, -p["a"]) for p in points]
    monkeypatch.setattr(tuning, "judge", for_ever)
    assert tuning.tune(entrant, [draw], TAU, 1).edge == ["a"]


def test_choices_are_no_edge(monkeypatch, draw):
    entrant = Entrant("made up", (Axis("a", (1.0, 2.0), choices=True),), lambda p, u: p)
    monkeypatch.setattr(tuning, "judge", lambda e, points, *rest: [(0, -p["a"]) for p in points])
    assert tuning.tune(entrant, [draw], TAU, 1) == tuning.Tuned({"a": 2.0}, [], 2)


def test_a_point_is_as_good_as_its_worst_draw():
    good, slow, stalled = (np.geomspace(1, end, 50) for end in (1e-10, 1e-7, 1e-2))
    assert tuning.rank(good) < tuning.rank(slow) < tuning.rank(stalled)
    assert tuning.rank(np.full(50, np.inf))[0] == len(tuning.LEVELS)


@pytest.mark.parametrize("name", [*PROBLEMS, *sorted(set(CONDITIONS) - {"wide"})])
def test_methods_without_g_enter_only_where_there_is_none(name):
    one = draw_of((PROBLEMS | CONDITIONS)[name](0))
    able = {e.name for e in FIELD if may_enter(e, one, TAU)}
    with precision(np.float64):
        smooth = name in ("least-squares", "logistic")
    assert ("FedAvg" in able) == smooth and "Algorithm 1" in able
    assert ("ProxSkip" in able) == (one.cohort is None)


def test_fedexprox_with_a_constant_extrapolation_is_fedprox_with_a_longer_server_step():
    """FedExProx (Li, Acharya, Richtarik 2024): x + alpha (mean of prox_{gamma f_i}(x) - x)."""
    rng, gamma, alpha = np.random.default_rng(0), 0.5, 1.7
    A, y = rng.normal(size=(3, 12, 4)), rng.normal(size=(3, 12))
    H, b = np.einsum("nij,nik->njk", A, A) / 12, np.einsum("nij,ni->nj", A, y) / 12
    x = rng.normal(size=4)
    near = [
        np.linalg.solve(np.eye(4) + gamma * h, x + gamma * c) for h, c in zip(H, b, strict=True)
    ]
    expected = x + alpha * (np.mean(near, axis=0) - x)
    eta = 1 / (np.linalg.eigvalsh(H).max() + 1 / gamma)
    method = FedProx(eta, alpha, 200, 1 / gamma)  # so many steps solve a client's problem
    problem = Problem(Zero(), x, Squared())
    found = simulate(method, problem, list(zip(A, y, strict=True)), rounds=1, progress=False)
    np.testing.assert_allclose(found.model, expected, rtol=1e-12)


def test_costs_are_those_of_the_messages(draw):
    with precision(np.float64):
        cost = work(Decoupled(0.01, 1.0, TAU), draw.problem, draw.shards)
    assert (cost.exchanges, cost.gradients) == (1, TAU)
    assert cost.bytes_up == cost.bytes_down == 8 * 20


def test_a_full_gradient_costs_as_many_as_there_are_batches_in_the_rows(draw):
    with precision(np.float64):
        batched = Problem(draw.problem.g, draw.problem.x0, draw.problem.loss, batch=5)
        cost = work(ProximalGradient(0.01), batched, draw.shards)
    assert cost.gradients == float(draw.shards.size[0]) / 5


@pytest.mark.parametrize("name", ["sigmoid", "minibatches", "half-the-clients", "single-precision"])
def test_newton_stays_out_where_it_is_not_a_method(name):
    one = draw_of((PROBLEMS | CONDITIONS)[name](0))
    assert not any(may_enter(entrant, one, TAU) for entrant in DRIVEN)


def test_newton_on_sets_enters_where_hessians_are_too_large_and_coefficients_stand_alone(draw):
    wide = Design(clients=2, rows=5, features=2000, correlation=0.0)
    able = lambda g: [may_enter(e, draw_of(lasso_of(wide, 0, g)), TAU) for e in DRIVEN]
    assert able(L1(0.3)) == [False, True] and able(Simplex(1.0)) == [False, False]
    assert [may_enter(entrant, draw, TAU) for entrant in DRIVEN] == [True, False]


def test_newtons_exchanges_bytes_and_work_are_all_counted(draw):
    """For a squared loss one Hessian is enough, and the second exchange confirms the optimum."""
    table, d = driven(DRIVEN[0], [draw], 50), 20
    assert table["exchange"].tolist() == [0, 1, 2, 3] and plateau(table).max() < 1e-9
    tries = 10  # losses at shorter ways; two numbers more are the loss and whether all is finite
    down, up = 8 * (2 * d + 1), 8 * (1 + d + tries) + 1
    assert table["bytes_down"].tolist() == [0, down + 4 * d, *[2 * down + 4 * d] * 2]
    assert table["bytes_up"].diff().iloc[1:].tolist() == [up + 8 * d * (d + 1) // 2, up, 0]
    assert table["gradients"].diff().iloc[1:].tolist() == [1 + tries + d, 1 + tries, 0]


def entry(levels, exchanges=100):
    """A made-up entrant whose draws fall to these levels: any table of this form can take part."""
    at = np.arange(exchanges)
    tables = [
        pd.DataFrame(
            {"seed": seed, "exchange": at, "optimality": np.geomspace(1, level, exchanges)}
        )
        for seed, level in enumerate(levels)
    ]
    spent = {"nonzeros": 5, "bytes_up": 8, "bytes_down": 16, "gradients": 2}
    table = pd.concat(tables).assign(nonzeros=5)
    return Entry(
        "Algorithm 1", table.assign(**{k: table["exchange"] * v for k, v in spent.items()})
    )


def test_a_line_of_the_table_has_medians_and_what_they_cost():
    row = summary(entry([1e-12] * 10), 1e-9)
    assert row["verdict"] == "exact" and row["exact below"] == 1e-9
    needed = row["exchanges to 1e-06"]
    assert 40 < needed < 60 and row["bytes down to 1e-06"] == 16 * needed
    assert row["low to 1e-06"] == row["high to 1e-06"] == needed


def test_draws_that_never_arrive_count_as_never():
    row = summary(entry([1e-12] * 4 + [1e-3] * 6), 1e-9)
    assert row["exchanges to 1e-06"] == np.inf and row["low to 1e-06"] < np.inf


def judged(levels, least=1e-9):
    """The verdict on draws whose optimality after each exchange is this."""
    made = entry([1e-3] * 5, len(levels))
    noise = np.random.default_rng(0).uniform(0.8, 1.25, (5, len(levels))).ravel()
    table = made.table.assign(optimality=np.tile(levels, 5) * noise)
    return summary(made._replace(table=table), least)["verdict"]


@pytest.mark.parametrize("exchanges", [150, 600])
def test_what_still_falls_is_slow_however_slowly_and_however_short_the_run(exchanges):
    k = np.arange(1.0, exchanges + 1)
    assert judged(k**-0.5) == judged(1 / k) == judged(np.geomspace(1, 1e-3, exchanges)) == "slow"
    assert judged(0.02 + np.geomspace(1, 1e-30, exchanges)) == judged(np.full(exchanges, 0.02))
    assert judged(np.full(exchanges, 0.02)) == "stalled"
    assert judged(np.full(exchanges, 1e-12)) == "exact"
    assert judged(np.full(exchanges, 1e9)) == judged(np.full(exchanges, np.inf)) == "diverged"


def test_exact_is_what_the_precision_of_a_league_allows():
    """In single precision nothing can be at 1e-9; what is biased is far above its rounding."""
    assert standings.exact(np.float64) == 1e-9
    at = lambda level: judged(np.full(600, level), standings.exact(np.float32))
    assert at(1e-6) == "exact" and at(1e-3) == "stalled"


def test_a_draw_that_diverged_is_not_hidden_by_the_median():
    flat = entry([1e-12] * 10).table.assign(optimality=1e-12)
    line = lambda table: pd.DataFrame([summary(Entry("Mime", table), 1e-9)])
    told = lambda table: printed(line(table))["verdict"][0]
    assert told(flat) == "exact"
    assert told(flat.where(flat["seed"] > 1, flat.assign(optimality=1e3))) == "exact in most draws"


def test_an_interrupted_league_plays_no_entrant_twice(monkeypatch, tmp_path):
    played = []

    def once(entrant, *rest):
        played.append(entrant.name)
        if len(played) == 2:
            raise KeyboardInterrupt
        return entry([1e-12] * 4)._replace(name=entrant.name)

    monkeypatch.setattr(standings, "simulated", once)
    problem, settings = PROBLEMS["simplex"], dict(tau=TAU, rounds=5, seeds=1)
    play = lambda: standings.play(
        FIELD[:3], problem, tmp_path, report=lambda *done, **told: None, **settings
    )
    with pytest.raises(KeyboardInterrupt):
        play()
    shown = play()
    assert [one["row"]["method"] for one in shown] == [e.name for e in FIELD[:3]]
    assert played == [FIELD[k].name for k in (0, 1, 1, 2)]
