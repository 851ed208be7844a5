"""The commands for comparing methods: what they write, and what they refuse."""

import numpy as np
import pandas as pd
import pytest

from proxfl.research.shipped import PROBLEMS
from tests.cli.world import pictures, proxfl

FEW = ["--method", "Algorithm 1", "--method", "FedDA", "--method", "FedMid"]


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    out = tmp_path_factory.mktemp("compare") / "out"
    return proxfl("compare", "--quick", *FEW, "--rounds", 60, "--out", out), out


def test_a_league_table_tells_exact_methods_from_biased_ones(compared):
    outcome, out = compared
    assert outcome.code == 0, outcome.err
    table = pd.read_csv(out / "l1-least-squares" / "table.csv").set_index("method")
    assert set(table.index) == {"Algorithm 1", "FedDA", "FedMid"}
    ended = table["final optimality"]
    assert ended["Algorithm 1"] < ended["FedMid"]
    assert table.verdict["FedMid"] == "stalled"
    ours = table.loc["Algorithm 1"]
    vector = 8 * 20
    assert (
        ours["bytes up to 1e-03"]
        == ours["bytes down to 1e-03"]
        == (vector * ours["exchanges to 1e-03"])
    )
    assert ours["gradients to 1e-03"] == 5 * ours["exchanges to 1e-03"]  # one per local step
    assert (out / "report.html").exists() and (out / "l1-least-squares" / "league.png").exists()
    assert "--method &#39;FedDA&#39;" in (out / "report.html").read_text()
    assert "| edge |" in (out / "tables.md").read_text()
    assert not list((out / "l1-least-squares").glob("parts*"))


def test_a_league_on_own_files(data, tmp_path):
    config = tmp_path / "fit.toml"
    config.write_text('target = "progression"\nloss = "squared"\nl1 = 1.0\nstandardise = true\n')
    files = sorted((data / "diabetes").iterdir())
    args = ["--method", "Algorithm 1", "--rounds", 20, "--local-steps", 2, "--draws", 1]
    outcome = proxfl(
        "compare", "--sites", *files, "--config", config, *args, "--out", tmp_path / "out"
    )
    assert outcome.code == 0, outcome.err
    assert "your sites" in outcome.out
    outcome = proxfl("compare", "--sites", *files, "--out", tmp_path / "none")
    assert outcome.code == 2 and "--sites needs --config FILE" in outcome.err
    assert not (tmp_path / "none").exists()


def test_an_unknown_method_or_problem_is_named_with_those_there_are(tmp_path):
    for option in ("--method", "--problem"):
        outcome = proxfl("compare", option, "nonsense", "--out", tmp_path / "out")
        assert outcome.code == 2 and "There is no" in outcome.err and "nonsense" in outcome.err
    assert not (tmp_path / "out").exists()


def test_a_sweep_writes_a_row_per_point(tmp_path):
    spans = ["--eta", "0.01:0.1:2", "--eta-g", "1:2:2", "--theta", "0.01:0.1:2"]
    more = ["--tau", 1, 2, "--seeds", 2, "--rounds", 10]
    outcome = proxfl("sweep", *spans, *more, "--out", tmp_path, drawn=True)
    assert outcome.code == 0, outcome.err
    table = pd.read_csv(tmp_path / "sweep.csv")
    assert len(table) == 8 * 2 * 2 and np.isfinite(table.optimality).all()
    assert pictures(tmp_path) == {"sweep.png", "sweep.svg"}


def test_a_random_sweep_stays_in_its_ranges(tmp_path):
    ranges = ["--eta", "0.01:0.1:2", "--eta-g", "1:2:2", "--random", 5]
    outcome = proxfl("sweep", *ranges, "--tau", 1, "--batch", 5, "--rounds", 10, "--out", tmp_path)
    assert outcome.code == 0, outcome.err
    table = pd.read_csv(tmp_path / "sweep.csv")
    assert len(table) == 5 and table.eta.nunique() == 5
    assert table.eta.between(0.01, 0.1).all() and table.eta_g.between(1, 2).all()


def test_a_sweep_refuses_a_span_it_cannot_read(tmp_path):
    outcome = proxfl("sweep", "--eta", "1:0.1:3", "--out", tmp_path / "out")
    assert outcome.code == 2 and "needs 0 < LOW <= HIGH" in outcome.err


# The linearised rounds of these have hundreds of unknowns.
LARGE = ("l1-logistic", "ill-conditioned", "nuclear")


@pytest.mark.parametrize(
    "problem",
    [pytest.param(name, marks=[pytest.mark.soak] * (name in LARGE)) for name in PROBLEMS],
)
def test_steps_are_proposed_and_judged(problem):
    """The paper's, ours, and the limit near the solution; what is an estimate covers nothing."""
    outcome = proxfl("steps", "--problem", problem, "--local-steps", 3)
    assert outcome.code == 0, outcome.err
    told = outcome.out
    assert "ours, Theorem A" in told and "to try first" in told
    assert "stable up to, an estimate by the sites' Hessians" in told
    assert "by this estimate, " in told and "E is an estimate" in told  # its hypotheses are not met
    line = lambda start: [x for x in told.splitlines() if x.startswith(f"│ {start}")]
    [strong] = line("mu, strong convexity")
    covered = [x for x in line("the paper's Theorem 3.7") if "covered" in x]
    convex = "proven" in strong and float(strong.split("│")[2]) > 0
    assert bool(covered) == (convex and problem != "simplex")
    assert bool(line("the paper's Theorem 3.5")) == (problem != "simplex")  # B_g is infinite


def test_steps_of_one_s_own_are_judged():
    judged = proxfl("steps", "--eta", 1e-9, "--eta-g", 100, "--local-steps", 3).out
    assert "The steps you gave" in judged and "1/(10 L)" in judged
    [ours] = [x for x in judged.splitlines() if x.startswith("│ A ")]
    assert "yes" in ours
    batches = proxfl("steps", "--batch", 5, "--eta", 1e-9, "--local-steps", 3).out
    rows = {x.split()[1] for x in batches.splitlines() if x.startswith("│ C")}
    assert rows == {"C1", "C2"} and "│ A " not in batches  # which is of full gradients


@pytest.mark.parametrize(
    "command",
    ["steps --local-steps 0", "compare --quick --rounds 0", "compare --draws -1", "sweep --tau 0"],
)
def test_a_count_below_one_is_refused_before_anything_runs(command, tmp_path):
    more = [] if command.startswith("steps") else ["--out", tmp_path / "out"]
    outcome = proxfl(*command.split(), *more)
    assert outcome.code == 2 and "needs a whole number of at least 1" in outcome.err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("command", ["reproduce fig1", "demo", "compare", "sweep"])
def test_a_file_where_results_should_go_is_refused_before_anything_runs(command, tmp_path):
    (tmp_path / "taken").write_text("mine")
    outcome = proxfl(*command.split(), "--out", tmp_path / "taken" / "inside")
    assert outcome.code == 2 and "is a file; name a folder" in outcome.err
    assert (tmp_path / "taken").read_text() == "mine"


def test_a_league_of_other_settings_is_not_shown_as_this_one(compared):
    _, out = compared
    again = proxfl("compare", "--quick", *FEW, "--rounds", 60, "--out", out)
    assert again.code == 0, again.err  # the same: nothing is run twice
    other = proxfl("compare", "--quick", *FEW, "--rounds", 61, "--out", out)
    assert other.code == 2 and "holds runs of other settings" in other.err
