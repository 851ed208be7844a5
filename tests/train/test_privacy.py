"""Privacy noise in one process: what one row can move, what hides it, what is said and refused."""

import json

import jax
import jax.flatten_util
import numpy as np
import pandas as pd
import pytest
from scipy import stats

from proxfl.algorithms.accounting import epsilon
from proxfl.algorithms.proximal_gradient import ProximalGradient
from proxfl.engine import fixed_point
from proxfl.errors import InputError
from proxfl.precision import precision
from proxfl.train import folder as results
from proxfl.train import noisy
from proxfl.train.agreement import problem_of, shards_for
from proxfl.train.federation import Call
from proxfl.train.privacy import noise_of
from proxfl.train.spec import Spec
from proxfl.train.tasks import TASKS
from proxfl.train.train import begin, federation_of, read_tables, run
from tests.cli import world
from tests.sentences import said

FEATURES, ROWS, SITES = list("abc"), 30, ("north", "south")
DP = {"dp_clip": 1.0, "dp_noise": 4.0, "dp_delta": 1e-6, "eta": 0.5, "rounds": 5}
SCHEMA = {"sick": {"kind": "category", "levels": ["no", "yes"]}}
SCHEMA |= {name: {"kind": "number"} for name in FEATURES}
CLASSES = {"target": "sick", "loss": "logistic", "schema": SCHEMA}
NUMBERS = {"target": "a", "loss": "squared"}


def frames(seed=0):
    rng, made = np.random.default_rng(seed), {}
    for site in SITES:
        A = rng.normal(size=(ROWS, len(FEATURES)))
        sick = np.where(A[:, 0] + rng.normal(size=ROWS) > 0, "yes", "no")
        made[site] = pd.DataFrame(A, columns=FEATURES).assign(sick=sick)
    return made


def job(held=None, **options):
    spec = Spec(**CLASSES | DP | options)
    return begin(spec, read_tables(spec, held or frames()))


def federation(job):
    problem = problem_of(job.spec, job.agreement)
    shards = shards_for(job.spec, job.tables, job.agreement, np.array(job.agreement.weights))
    return federation_of(job.spec, problem, shards, job.agreement.sites), problem


def answer(sites, x, step=1):
    """The sum over all rows, as the server gets it."""
    with precision(np.float64):
        told = sites.visit(ProximalGradient(0.5), Call(step, step - 1, step - 1, 0), x)
        return len(SITES) * ROWS * np.asarray(jax.flatten_util.ravel_pytree(told.received.mean)[0])


def test_whatever_one_row_holds_moves_the_sum_by_two_clips_at_most():
    """Rows of all lengths, at models of all lengths; some come near to the bound."""
    quiet = {"dp_noise": 1e-5, "dp_clip": 1.0}  # noise of 1e-5, to be looked through
    rng, farthest = np.random.default_rng(1), 0.0
    row = lambda: rng.normal(size=3) * 10.0 ** rng.uniform(-3, 90)
    with precision(np.float64):
        _, problem = federation(job(**quiet))
        for k in range(12):
            x = jax.tree.map(lambda a, k=k: a + rng.normal(size=a.shape) * 10.0**k, problem.x0)
            found = []
            for label in ("no", "yes"):
                held = frames()
                held["south"].loc[7, FEATURES] = row()
                held["south"].loc[7, "sick"] = label
                found.append(answer(federation(job(held, **quiet))[0], x))
            assert np.isfinite(found).all()
            farthest = max(farthest, np.linalg.norm(found[1] - found[0]))
    assert 1.0 < farthest < 2.0 + 1e-3


def test_noise_has_the_deviation_that_is_told_and_is_not_the_seeds():
    noisy_sites, problem = federation(job(dp_clip=0.5))
    quiet, _ = federation(job(dp_clip=0.5, dp_noise=1e-4))
    sums = np.array([answer(noisy_sites, problem.x0, step) for step in range(1, 101)])
    drawn = (sums - answer(quiet, problem.x0)) / (4.0 * 0.5)
    low, high = stats.chi2.interval(1 - 1e-6, drawn.size)
    assert low < (drawn**2).sum() < high and stats.kstest(drawn.ravel(), "norm").pvalue > 1e-6
    again, _ = federation(job(dp_clip=0.5))  # the same seed, rows and question
    assert not np.isin(answer(again, problem.x0), sums).any()


def test_with_a_long_clip_and_no_noise_to_speak_of_it_is_proximal_gradient():
    pooled = pd.concat(frames().values())
    A, y = pooled[FEATURES].to_numpy(), np.where(pooled["sick"] == "yes", 1.0, -1.0)
    coef, intercept = np.zeros(3), 0.0
    for _ in range(20):
        slopes = -y / (1 + np.exp(y * (A @ coef + intercept))) / len(y)
        coef, intercept = coef - 0.5 * A.T @ slopes, intercept - 0.5 * slopes.sum()
        coef = np.sign(coef) * np.maximum(np.abs(coef) - 0.5 * 0.05, 0)
    found = run(job(dp_clip=100.0, dp_noise=1e-7, rounds=20, l1=0.05)).model
    np.testing.assert_allclose([*found.coef, found.intercept], [*coef, intercept], atol=1e-5)
    assert 0 < (coef == 0).sum() < 3 and ((found.coef == 0) == (coef == 0)).all()


def test_files_differ_in_what_the_noise_covers_and_in_nothing_else(tmp_path, monkeypatch):
    """Two tables that differ in a row, under the same noise: all else that is told is the same."""
    monkeypatch.setattr(noisy.secrets, "token_bytes", bytes)
    other = frames()
    other["north"].loc[3] = [9.0, -9.0, 9.0, "yes"]
    told = []
    for held in (frames(), other):
        fit = run(job(held))
        saved = results.write(tmp_path / str(len(told)), fit, "command")
        model, manifest = dict(saved.model), dict(saved.manifest)
        covered = [model.pop(key) for key in ("coef", "intercept", "nonzeros")]
        passing = [manifest.pop(key) for key in ("seconds", "date", "files")]
        assert covered and passing
        told.append((covered, json.dumps([model, manifest, saved.history])))
    assert told[0][0] != told[1][0] and told[0][1] == told[1][1]


def test_what_is_told_is_what_the_accountant_says():
    fit = run(job(dp_noise=None, dp_epsilon=2.0))
    told = results.model_of(fit)["privacy"]
    assert 1.99 < told["epsilon"] <= 2.0 and told["delta"] == 1e-6 and told["rounds"] == 5
    assert told["epsilon"] == epsilon(told["noise"], 5, 1e-6)
    assert fit.solution.converged is False and len(fit.records) == 5


def test_no_task_is_answered_in_one_process_either():
    sites, problem = federation(job())
    for task in TASKS:
        with pytest.raises(ValueError, match=f"the task '{task}' carries no noise"):
            sites.ask(task, {"x": problem.x0})


@pytest.mark.parametrize(
    "options, words",
    [
        ({"dp_clip": None}, "key 'dp_noise' needs 'dp_clip' beside it"),
        ({"dp_delta": None}, "key 'dp_clip' needs 'dp_delta' beside it"),
        ({"dp_noise": None}, "needs either 'dp_noise' or 'dp_epsilon'"),
        ({"dp_epsilon": 1.0}, "needs either 'dp_noise' or 'dp_epsilon'"),
        ({"dp_noise": 1e-7}, "is lost in rounding"),
        ({"dp_clip": 1e30}, "or too large to be added up"),
        ({"eta": None}, "a step cannot be found from the data; give 'eta'"),
        ({"algorithm": "newton"}, "leave 'algorithm' out"),
        ({"algorithm": "decoupled"}, "leave 'algorithm' out"),
        ({"local_steps": 2}, "leave 'local_steps' out"),
        ({"batch": 5}, "leave 'batch' out"),
        ({"cohort": 1}, "leave 'cohort' out"),
        ({"inference": True}, "leave 'inference' out"),
        ({"standardise": True}, "leave 'standardise' out"),
        ({"precondition": True}, "leave 'precondition' out"),
        ({"weights": "uniform"}, "leave 'weights' out"),
        ({"row_weights": "c"}, "leave 'row_weights' out"),
        ({"site_intercepts": True}, "leave 'site_intercepts' out"),
        ({"tol": 1e-3}, "leave 'tol' out"),
        ({"missing": "mean"}, "no mean of a column is told"),
        ({"schema": None}, "the classes must be known beforehand"),
        ({"dp_honest": 2}, "'dp_honest' is for real sites"),
    ],
)
def test_what_cannot_keep_the_promise_is_refused_in_a_sentence(options, words):
    assert words in said(lambda: run(job(**options)))


def test_a_loss_that_compares_rows_is_refused():
    with pytest.raises(InputError, match="protects single rows, and the loss 'cox' compares rows"):
        Spec(time="t", event="e", loss="cox", **DP)


def test_rounding_is_counted_as_part_of_a_row():
    """With more rows and numbers the deviation grows, and is never below its share of the clip."""
    noise = noise_of(Spec(**NUMBERS, **DP))
    exact = 4.0 / fixed_point.STEP
    found = [noise.deviation(*size) for size in ((1, 1), (10**4, 10), (10**6, 10**4))]
    assert exact < found[0] < found[1] < found[2] < 1.01 * exact
    half = noise._replace(honest=4).deviation(1, 1)
    assert half == pytest.approx(found[0] / 2, rel=1e-9)


def test_the_command_ends_well_and_says_whom_it_protects(tmp_path):
    for site, frame in frames().items():
        frame.to_csv(tmp_path / f"{site}.csv", index=False)
    levels = 'kind = "category"\nlevels = ["no", "yes"]\n'
    numbers = "".join(f'[{name}]\nkind = "number"\n' for name in FEATURES)
    (tmp_path / "schema.toml").write_text(f"[sick]\n{levels}{numbers}")
    files = [tmp_path / f"{site}.csv" for site in SITES]
    asked = [*files, "--target", "sick", "--loss", "logistic", "--schema", tmp_path / "schema.toml"]
    asked += ["--eta", 0.5, "--dp-clip", 1, "--dp-epsilon", 2, "--dp-delta", 1e-6]
    out = tmp_path / "out"
    done = world.proxfl("train", *asked, "--rounds", 3, "--out", out)
    assert done.code == 0, done.err
    report = (out / "report.html").read_text()
    for text in (done.out, report):
        assert "one row of one site has other contents" in text
        assert "No certificate: it would tell of the rows without noise." in text
    assert "SHA-256 of its data" not in report
    assert not (out / "checkpoint.npz").exists()
    again = world.proxfl("train", "--resume", out, "--rounds", 9)
    assert again.code == 2 and "the noise of the run" in again.err
    apart = world.proxfl(
        "train", *asked, "--dp-honest", 2, "--dp-noise", 3, "--out", tmp_path / "no"
    )
    assert apart.code == 2 and "needs either" in apart.err and not (tmp_path / "no").exists()
    path = world.proxfl("path", *asked)
    assert path.code == 2 and "of which none carries noise" in path.err
