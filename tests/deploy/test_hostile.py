"""One bad site among honest ones: it may spoil a run, and never what a certificate means.

The gap by which a run that says "converged" is judged here is that of the library on the honest
sites' rows, in one process, at the model that the run returned. Under masks, where nobody sees who
says what, that holds of any one lie; here sums are added without masks, which change no bit.
"""

import json
import os
from collections import Counter
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from proxfl.deploy.masking.answering import MaskedSite
from proxfl.deploy.masking.training import MaskedTraining
from proxfl.deploy.protocol.study import read_table
from proxfl.deploy.server.inquiry import TooFewSites
from proxfl.deploy.server.ledger import NOBODY
from proxfl.deploy.server.program import result_of
from proxfl.engine.masked import total
from proxfl.errors import InputError
from proxfl.precision import precision
from proxfl.problem import shards_of
from proxfl.train.agreement import prepare, problem_of
from proxfl.train.drivers.driver import GAP, Look
from proxfl.train.local import LocalFederation
from proxfl.train.spec import Spec
from proxfl.train.train import begin, driver_of
from tests.deploy.field import NAMES, Field, write_data
from tests.deploy.hostile import HostileMember, HostileSite
from tests.outcomes import soak

BAD = "south"
REPLAYED = os.environ.get("PROXFL_FAULT_SEED")
BY_ROUNDS = {"rounds": 25, "algorithm": "decoupled"}  # whose updates are what is lied about
BY_NEWTON = {"rounds": 25, "algorithm": "newton"}
PROBLEMS = (
    {"l1": 0.02, "tol": 1e-3},
    {"loss": "squared", "l2": 0.1, "tol": 1e-4},
    {"loss": "poisson", "l1": 0.05, "tol": 1e-3},
    {"l1": 0.02, "tol": 1e-3, "local_steps": 3},
)


@pytest.fixture(scope="module")
def judges():
    """By problem, what gives the relative gap of a model on the honest rows."""
    made = {}

    def judge(spec, files):
        key = json.dumps(dict(spec.changed()), default=str)
        if key not in made:
            job = begin(spec.replace(sites=[str(file) for file in files]))
            with precision(np.float64):
                problem = problem_of(job.spec, job.agreement)
                examples = [prepare(table, job.spec, job.agreement) for table in job.tables]
                shards = shards_of(examples, list(job.agreement.weights))
                local = LocalFederation(problem, shards, job.agreement.sites)
                made[key] = driver_of(job.spec, local, problem, job.agreement)
        return partial(relative_gap, made[key])

    return judge


def relative_gap(driver, x):
    with precision(np.float64):
        objective = lambda x: driver.evaluate(x).loss + float(driver.problem.g.value(x))
        found = driver.evaluate(x)
        gap = driver.gap(driver, x, Look(objective(x), 0.0, 0.0, {}, found.gradient), np.inf)
        return gap / max(abs(objective(x)), abs(objective(driver.problem.x0)))


def attacked(folder, bad, options):
    """How a run with a bad site ends, whom its books name, and its solution if it has one."""
    field = Field(folder, **options)
    site = field.sites[BAD]
    field.propose()
    honest = site.worker.answer
    site.worker.answer = lambda request: bad.answer(honest, request)
    training = field.life()
    words, solution = "", None
    try:
        with training.status:
            solution = result_of(training).solution
    except (TooFewSites, InputError) as stop:
        words = str(stop)
    named = {fault.site for fault in training.federation.ledger.faults} - {NOBODY}
    named |= {site for site in NAMES if f"{site} (" in words or f"Site {site}" in words}
    return field, solution, named, words


def outcome(folder, seed, judge, tasks=("round",), how=BY_ROUNDS):
    """What became of a run with a bad site: the law holds, or this fails."""
    kinds = PROBLEMS if how is BY_ROUNDS else PROBLEMS[:3]  # Newton's method takes no local steps
    bad, options = HostileSite(seed, tasks), kinds[seed % len(kinds)] | how
    field, solution, named, words = attacked(folder, bad, options)
    print(bad, options, named, words)
    assert bad.numbers or bad.task not in ("round", "newton"), "It was not asked, and never lied."
    assert named <= {BAD}, (bad, named)
    if solution is None:
        assert named == {BAD}, bad
        return {"end": "stopped, the bad site named"}
    exact = options.get("local_steps", 1) == 1 and bad.task == "round"
    if exact and bad.lied and bad.when in ("always", "first"):
        raise AssertionError(f"Its first update is not its gradient, and nobody noticed: {bad}")
    if not solution.converged:
        return {"end": "not converged" + ", the bad site named" * bool(named)}
    gap = judge(field.spec, field.files)(solution.x)
    assert gap <= GAP * options["tol"] * (1 + 1e-6), (bad, gap)
    return {"end": "converged", "gap over tolerance": gap / options["tol"]}


def seeds(number, *more):
    all_of_them = [int(REPLAYED)] if REPLAYED else [*range(number), *more]
    return pytest.mark.parametrize("seed", all_of_them)


@seeds(12, 1666, 1862)  # these two had honest sites blamed, at which numbers then overflowed
@pytest.mark.filterwarnings("ignore:Not converged")
def test_no_update_forges_a_certificate_and_no_honest_site_is_named(seed, judges, tmp_path):
    """In the first edition updates times 1e6 gave "converged", and 1e300 named honest sites."""
    outcome(tmp_path, seed, judges)


@seeds(8)
@pytest.mark.filterwarnings("ignore:Not converged")
def test_no_answer_to_a_task_does_either(seed, judges, tmp_path):
    outcome(tmp_path, seed, judges, ("curvature", "evaluate", "imbalance", "conjugate"))


@seeds(8)
@pytest.mark.filterwarnings("ignore:Not converged")
def test_no_answer_about_a_newton_step_does_either(seed, judges, tmp_path):
    outcome(tmp_path, seed, judges, ("newton",), BY_NEWTON)


KINDS = {
    "decoupled": ("round", "evaluate", "curvature", "imbalance", "conjugate"),
    "newton": ("newton", "evaluate", "imbalance", "conjugate"),
}


def added_up(folder, files, options, bad):
    """A run from the sums of all, with one member that lies: its end, and its solution."""
    spec = Spec(target="y", **{"loss": "logistic"} | options)
    tables = [read_table(spec, file) for file in files]
    labels = sorted({label for table in tables for label in table.y.tolist()})
    labels = labels if spec.loss == "logistic" else []
    run = MaskedTraining(spec, len(NAMES), tuple(tables[0].features), labels)
    sites = []
    for name, table in zip(NAMES, tables, strict=True):
        (folder / name).mkdir(parents=True)
        sites.append(MaskedSite(run, table, folder / name))

    def ask(question):
        question = question.rounded()
        said = {n: site(question)[0] for n, site in zip(NAMES, sites, strict=True)}
        said[BAD] = bad.tells(question, said[BAD])
        try:
            return total(list(said.values()))
        except OverflowError as beyond:  # at a site: it sets its flag, and the run ends
            raise InputError(str(beyond)) from None

    try:
        run(ask)
    except InputError as stop:
        return spec, None, str(stop)
    return spec, run.found.solution, ""


def masked_outcome(folder, seed, judge):
    """What became of a run under masks with one lie in it: the law holds, or this fails."""
    options = PROBLEMS[seed // 2 % len(PROBLEMS)]
    options |= BY_NEWTON if seed % 2 and "local_steps" not in options else BY_ROUNDS
    files = [folder.parent / "data" / f"{name}.csv" for name in NAMES]
    if not files[0].exists():
        write_data(folder.parent / "data")
    bad = HostileMember(seed, KINDS[options["algorithm"]])
    spec, solution, words = added_up(folder, files, options, bad)
    print(bad, options, words)
    assert not any(name in words for name in NAMES)
    if solution is None:
        return {"end": "stopped"}
    if not solution.converged:
        return {"end": "not converged"}
    gap = judge(spec, files)(solution.x)
    assert gap <= GAP * options["tol"] * (1 + 1e-6), (bad, gap)
    return {"end": "converged", "gap over tolerance": gap / options["tol"]}


@seeds(12, 2012, 2460)  # by these two, honest numbers went beyond fixed point
@pytest.mark.filterwarnings("ignore:Not converged")
def test_under_masks_no_single_lie_forges_a_certificate(seed, judges, tmp_path):
    """Sums were not held to anything: by a first answer times 1e5 a model of zeros converged."""
    masked_outcome(tmp_path / "run", seed, judges)


@pytest.mark.parametrize("algorithm", KINDS)
def test_under_masks_a_first_answer_times_1e5_is_noticed(algorithm, tmp_path):
    bad = HostileMember(0, KINDS[algorithm])
    bad.kind = {"decoupled": "evaluate", "newton": "newton"}[algorithm]
    bad.change, bad.by, bad.turn, bad.part = "times", 1e5, 0, "all but the first"
    options = PROBLEMS[0] | {"algorithm": algorithm}
    files = write_data(tmp_path / "data")
    _, solution, words = added_up(tmp_path, files, options, bad)
    assert "Numbers of some site are false, and masks hide whose" in words and solution is None


MASS, ROWS, TOTAL, SITES, DROPPED = range(5)
COUNTS = {
    "rows that nobody has": ("rows", (ROWS, TOTAL, MASS), lambda n: n - 1e4),
    "half a row": ("rows", (ROWS, TOTAL, MASS), lambda n: n + 0.5),
    "more rows than there are people": ("rows", (ROWS, TOTAL, MASS), lambda n: 1e15),
    "rows that count twice": ("rows", (TOTAL, MASS), lambda n: 2 * n),
    "another weight": ("rows", (MASS,), lambda n: 2 * n),
    "two sites": ("rows", (SITES,), lambda n: 2.0),
    "no site": ("rows", (SITES,), lambda n: 0.0),
    "dropped rows that nobody has": ("rows", (DROPPED,), lambda n: -7.0),
    "more values than rows": ("sums", (0,), lambda n: 1e3 * n),
    "fewer values than none": ("sums", (1,), lambda n: -1e3 * n),
    "squares below 0": ("squares", (2,), lambda n: -1e3 * n),
}


@pytest.mark.parametrize("lie", COUNTS)
def test_counts_that_no_sites_have_end_a_masked_run_in_a_sentence(lie, tmp_path):
    """An invented number of rows was believed, whatever it was."""
    kind, places, change = COUNTS[lie]

    def tells(question, honest):
        told = honest.copy()
        if question.kind == kind:
            told[list(places)] = change(told[list(places)])
        return told

    files = write_data(tmp_path / "data")
    options = PROBLEMS[0] | {"standardise": True}
    _, solution, words = added_up(tmp_path, files, options, SimpleNamespace(tells=tells))
    assert "masks hide whose: all together told" in words and solution is None


@pytest.mark.soak
@pytest.mark.filterwarnings("ignore:Not converged")
@pytest.mark.parametrize(
    ("name", "ends_in", "seeds"),
    [
        ("hostile_sites", outcome, range(1_000, 2_000)),
        ("hostile_members", masked_outcome, range(2_000, 3_000)),
    ],
)
def test_a_thousand_lies_forge_no_certificate(name, ends_in, seeds, judges, tmp_path):
    def run(seeds):
        found = [ends_in(tmp_path / str(seed), seed, judges) for seed in seeds]
        gaps = [one["gap over tolerance"] for one in found if "gap over tolerance" in one]
        ends = Counter(one["end"] for one in found)
        # Those that name an honest site, or converge with a gap beyond GAP, fail the test.
        return ends + Counter({"largest gap over tolerance": max(gaps, default=0.0)})

    soak(name, seeds, 20, run)
