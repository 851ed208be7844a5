"""`simulate(masked=True)` is the deployed masked run, bit for bit."""

import dataclasses

import jax
import numpy as np
import pytest

import proxfl as px
from proxfl.algorithms import REGISTRY
from proxfl.deploy.masking.answering import MaskedSite
from proxfl.deploy.masking.training import MaskedTraining
from proxfl.deploy.server.program import result_of
from proxfl.engine import fixed_point
from proxfl.engine.measure import ObjectiveValue
from proxfl.errors import InputError
from proxfl.precision import precision
from proxfl.problem import Problem
from proxfl.train.agreement import prepare, problem_of
from proxfl.train.drivers.fixed import refuse_method
from proxfl.train.spec import Spec
from proxfl.train.train import read_tables
from tests import cases
from tests.deploy.field import LOOSE, Field
from tests.deploy.masking.world import NAMES

MORE = {"proxskip": {"local_steps": 3, "seed": 5}}
ONE_STEP = ("proximal-gradient", "adaptive")


def simulated(spec, tables, agreement, algorithm, **options):
    """A study in the simulator, from its rows and from what its sites agreed on."""
    with precision(np.float64):
        sites = [prepare(table, spec, agreement) for table in tables]
        problem: Problem = problem_of(spec, agreement)
        about = algorithm, problem, sites
        how = {"weights": spec.weights, "seed": spec.seed, "every": 3, "progress": False}
        return px.simulate(*about, rounds=spec.rounds, **how, **options)


def same_bits(solution, run):
    """The server's state and the model of a deployed run and of a simulated one."""
    deployed, here = (solution.state.server, solution.x), (run.run.server, run.model)
    for one, other in zip(jax.tree.leaves(deployed), jax.tree.leaves(here), strict=True):
        assert np.asarray(one).tobytes() == np.asarray(other).tobytes()


@pytest.mark.filterwarnings("ignore:Not converged")
def test_the_simulator_with_the_same_sums_is_the_deployed_run_bit_for_bit(tmp_path):
    options = {"algorithm": "mime", "eta": 0.05, "rounds": 6, "standardise": True}
    field = Field(tmp_path, masked=True, policy=LOOSE.replace(unmasked=False), **options)
    field.confirm()
    field.propose()
    there = result_of(field.life())
    spec = field.spec.replace(sites=[str(file) for file in field.files])
    about = spec, read_tables(spec), there.agreement, there.solution.state.algorithm
    here, plain = (simulated(*about, masked=masked) for masked in (True, False))
    same_bits(there.solution, here)
    for one, near in zip(*map(jax.tree.leaves, (here.model, plain.model)), strict=True):
        np.testing.assert_allclose(one, near, rtol=1e-10, atol=1e-10)
    assert here.history.keys() == plain.history.keys()
    np.testing.assert_array_equal(here.history["round"], plain.history["round"])
    np.testing.assert_allclose(here.history["objective"], plain.history["objective"], rtol=1e-10)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Tables of one size, so that sites share their programs; the same with zeros, as LIBSVM."""
    folder, rng = tmp_path_factory.mktemp("data"), np.random.default_rng(3)
    made: dict[str, list[str]] = {"csv": [], "svm": []}
    for name in NAMES:
        A = np.round(rng.normal(size=(6, 2)) * (rng.random((6, 2)) < 0.7), 3)
        y = np.round(A @ [1.0, -2.0] + rng.normal(size=6), 3)
        rows = [",".join(map(str, [*row, value])) for row, value in zip(A, y, strict=True)]
        thin = [
            f"{value} " + " ".join(f"{j + 1}:{v}" for j, v in enumerate(row) if v)
            for row, value in zip(A.tolist(), y, strict=True)
        ]
        for end, lines in (("csv", ["a,b,y", *rows]), ("svm", thin)):
            path = folder / f"{name}.{end}"
            path.write_text("\n".join(lines) + "\n")
            made[end].append(str(path))
    return made


def from_sums(spec, tables, folder):
    """The program of the sites and of the server, over sums that nobody masked."""
    program, sites = MaskedTraining(spec.read_files(), len(NAMES), tuple(tables[0].features)), []
    for name, table in zip(NAMES, tables, strict=True):
        (folder / name).mkdir()
        sites.append(MaskedSite(program, table, folder / name))

    def ask(question):
        words, question = np.zeros((question.length, 2), np.uint64), question.rounded()
        for site in sites:
            words = fixed_point.add(words, fixed_point.encode(site(question)[0]))
        return fixed_point.decode(words)

    program(ask)
    return program


def compared(options, files, folder):
    spec = Spec(sites=files, loss="squared", eta=0.05, rounds=2, **options)
    tables = read_tables(spec)
    there = from_sums(spec, tables, folder)
    algorithm = there.found.solution.state.algorithm
    same_bits(
        there.found.solution, simulated(spec, tables, there.agreement, algorithm, masked=True)
    )


@pytest.mark.parametrize("name", sorted(REGISTRY.keys() - {"decoupled"}))  # which adapts at sites
@pytest.mark.filterwarnings("ignore:Not converged")
def test_every_method_is_deployed_under_masks_as_simulated_or_refused(name, files, tmp_path):
    steps = {} if name in ONE_STEP else {"local_steps": 2}
    options = {"target": "y", "algorithm": name, **steps, **MORE.get(name, {})}
    try:
        refuse_method(Spec(sites=files["csv"], loss="squared", eta=0.05, **options))
    except InputError as error:
        assert "which no option gives" in str(error)
        return
    compared(options, files["csv"], tmp_path)


@pytest.mark.parametrize("options", [{}, {"weights": "uniform"}], ids=["by rows", "uniform"])
@pytest.mark.filterwarnings("ignore:Not converged")
def test_sparse_rows_come_to_the_same_bits_too(options, files, tmp_path):
    compared(
        {"target": "y", "algorithm": "fedavg", "local_steps": 2, **options}, files["svm"], tmp_path
    )


def test_a_masked_simulation_goes_on_to_the_same_bits_and_stops_where_it_should():
    objective = {"objective": ObjectiveValue()}
    how = {"masked": True, "observe": objective, "progress": False}
    about = (px.Decoupled(0.05, 1.5, 3), cases.problem(), cases.sites(3, (7, 7, 7)))
    whole = px.simulate(*about, rounds=6, every=2, **how)
    half = px.simulate(*about, rounds=3, **how)
    rest = px.simulate(*about, rounds=3, run=half.run, **how)
    assert np.asarray(rest.model).tobytes() == np.asarray(whole.model).tobytes()
    assert whole.history["round"].tolist() == [0, 2, 4, 6]
    bound = whole.history["objective"][2]
    stopped = px.simulate(*about, rounds=6, every=2, until={"objective": bound}, **how)
    assert stopped.met and stopped.history["round"].tolist() == [0, 2, 4]
    blocked = px.simulate(*about, rounds=6, every=2, block=1, **how)  # of what is observed
    assert np.asarray(blocked.model).tobytes() == np.asarray(whole.model).tobytes()


def test_what_a_sum_has_no_room_for_ends_a_masked_simulation_in_a_sentence():
    about, how = (cases.problem(), cases.sites(3)), {"masked": True, "progress": False}
    with pytest.raises(OverflowError, match="to a sum, and fixed point has room for 1.2e.24: the"):
        px.simulate(px.Decoupled(1e30, 1.5, 3), *about, rounds=6, **how)
    with pytest.raises(px.DivergenceError, match="no longer finite"):
        px.simulate(px.Decoupled(1e200, 1.5, 3), *about, rounds=6, **how)


@pytest.mark.parametrize(
    ("algorithm", "options", "words"),
    [
        (px.FedAvg(0.1), {"cohort": 2}, "all clients and all of their rows"),
        (px.FedAvg(0.1), {"batch": 4}, "all clients and all of their rows"),
        (px.FedAvg(0.1), {"x0": np.zeros(cases.D, np.float32)}, "double precision, got an x0 of"),
        (px.Compressed(px.FedAvg(0.1), px.TopK(2)), {}, "Compressed compresses"),
        (px.DPSpider(0.3, 1.0, 1.0, 0.5, 5), {}, "DPSpider adds noise to each client's answer"),
        (px.Private(px.FedAvg(0.1), 1.0, 0.5), {}, "Private adds noise to each client's answer"),
    ],
)
def test_what_masks_do_not_go_with_is_refused_in_the_simulator_too(algorithm, options, words):
    cohort = options.pop("cohort", None)
    problem = dataclasses.replace(cases.problem(), **options)
    with pytest.raises(ValueError, match=words):
        px.simulate(algorithm, problem, cases.sites(), rounds=1, cohort=cohort, masked=True)
