"""A model from masked sums is that of `proxfl train` on the same files."""

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

from proxfl.deploy.masking.answering import MaskedSite
from proxfl.deploy.masking.conductor import Conductor, Lapsed
from proxfl.deploy.masking.member import Member
from proxfl.deploy.masking.training import MaskedTraining
from proxfl.engine import fixed_point
from proxfl.precision import precision
from proxfl.train.agreement import problem_of, shards_for
from proxfl.train.drivers.driver import solve
from proxfl.train.local import LocalFederation
from proxfl.train.model import Model
from proxfl.train.spec import Spec
from proxfl.train.train import begin, driver_of, read_tables, train
from tests.deploy.masking.world import NAMES, STUDY, members_of, signers_of

RNG = np.random.default_rng(0)
FEATURES = ("a", "b", "c")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder, made = tmp_path_factory.mktemp("data"), []
    for i, name in enumerate(NAMES):
        A = RNG.normal(size=(30 + 5 * i, 3)) * [1, 10, 0.1] + i
        y = A @ [1.0, 0.1, 5.0] + RNG.normal(size=len(A))
        made.append(folder / f"{name}.csv")
        frame = pd.DataFrame(A, columns=list(FEATURES))
        frame = frame.assign(y=y, k=np.where(y > y.mean(), "yes", "no"), t=np.exp(-y / 5).round(1))
        frame.assign(t=frame["t"] + 0.1).to_csv(made[-1], index=False)
    return [str(path) for path in made]


SCHEMA = {name: {"kind": "number"} for name in FEATURES} | {
    "k": {"kind": "category", "levels": ["no", "yes"]},
    "y": {"kind": "number"},
    "t": {"kind": "number"},
}
SPECS = [
    {"target": "y", "loss": "squared", "l1": 0.05, "features": FEATURES, "tol": 1e-9},
    {"target": "k", "loss": "logistic", "l1": 0.01, "schema": SCHEMA, "features": FEATURES},
    {
        "target": "y",
        "loss": "squared",
        "standardise": True,
        "weights": "uniform",
        "features": FEATURES,
    },
    {"time": "t", "event": "k", "loss": "cox", "l1": 0.02, "features": FEATURES, "schema": SCHEMA},
    {"target": "y", "loss": "huber", "l2": 0.1, "features": FEATURES, "algorithm": "decoupled"},
    {
        "target": "y",
        "loss": "squared",
        "l1": 0.1,
        "features": FEATURES,
        "algorithm": "decoupled",
        "local_steps": 3,
        "tol": 1e-9,
    },
]


class Party:
    """Members that train, each with its table, and a server."""

    def __init__(self, spec, tables, folder):
        self.spec, self.tables, self.folder = spec, tables, folder
        self.signers = signers_of(NAMES)
        self.members, self.kept = members_of(self.signers), []
        self.restart()

    def restart(self):
        """New processes at all sites, from what is on their disks."""
        self.processes = [self.process(*site) for site in zip(NAMES, self.tables, strict=True)]

    def process(self, name, table):
        run, folder = MaskedTraining(self.spec, len(NAMES), FEATURES), self.folder / name
        folder.mkdir(parents=True, exist_ok=True)
        about = (self.signers[name], self.members, name, STUDY, name.encode().ljust(32), folder)
        return Member(*about, run, MaskedSite(run, table, folder))

    def send(self, call):
        if [member.hello for member in self.processes] != list(call.hellos):
            raise Lapsed
        return [member.answer(call) for member in self.processes]

    def run(self, send=None):
        """What the server's own run knows at its end, and the model as it is signed."""
        greet = lambda: [member.hello for member in self.processes]
        program = MaskedTraining(self.spec, len(NAMES), FEATURES)
        about = (self.members, STUDY, greet, send or self.send, self.kept.append, list(self.kept))
        return program, Conductor(*about).run(program)


@pytest.mark.parametrize("options", SPECS, ids=lambda options: options["loss"])
def test_a_masked_run_finds_the_model_of_the_files(options, files, tmp_path):
    spec = Spec(sites=files, **options)
    tables = read_tables(spec)
    party = Party(spec.read_files(), tables, tmp_path)
    program, model = party.run()
    for member in party.processes:
        assert member.sign(model, party.kept[-1].replies)
    expected = train(spec)
    assert program.found.solution.converged
    found = Model.of(spec.loss, program.agreement, program.found.solution.x)
    # Local steps are as long as the most curved site allows, which a sum does not tell: then the
    # two runs differ, and their models by what certificates leave open.
    near = {"rtol": 1e-9, "atol": 1e-10} if spec.local_steps == 1 else {"rtol": 1e-6, "atol": 1e-6}
    np.testing.assert_allclose(found.coef, expected.model.coef, **near)
    np.testing.assert_allclose(found.intercept, expected.model.intercept, **near)
    assert program.found.solution.objective == pytest.approx(expected.solution.objective, rel=1e-10)


@pytest.mark.parametrize("options", [SPECS[0], SPECS[-1]], ids=["newton", "decoupled"])
def test_a_masked_run_is_that_of_unmasked_fixed_point_sums_bit_for_bit(options, files, tmp_path):
    spec = Spec(sites=files, **options)
    tables, program = read_tables(spec), MaskedTraining(spec.read_files(), len(NAMES), FEATURES)
    sites = []
    for name, table in zip(NAMES, tables, strict=True):
        (tmp_path / "plain" / name).mkdir(parents=True)
        sites.append(MaskedSite(program, table, tmp_path / "plain" / name))

    def ask(question):
        words, question = np.zeros((question.length, 2), np.uint64), question.rounded()
        for site in sites:
            words = fixed_point.add(words, fixed_point.encode(site(question)[0]))
        return fixed_point.decode(words)

    _, found = Party(spec.read_files(), tables, tmp_path / "masked").run()
    assert found.content == program(ask).rounded().content


@pytest.mark.parametrize("options", [SPECS[0], SPECS[-1]], ids=["newton", "decoupled"])
def test_a_run_whose_sites_and_server_were_killed_ends_with_the_same_bits(options, files, tmp_path):
    spec = Spec(sites=files, **options)
    tables = read_tables(spec)
    _, expected = Party(spec.read_files(), tables, tmp_path / "one").run()
    party = Party(spec.read_files(), tables, tmp_path / "other")

    def send(call):
        if call.request.step in (2, 4, 9) and call.request.step not in seen:
            seen.add(call.request.step)
            party.send(call)  # answered, and the replies are lost with the server
            party.restart()
            raise ConnectionError
        return party.send(call)

    seen, found = set(), None
    while found is None:
        try:
            _, found = party.run(send)
        except ConnectionError:
            continue
    assert found.content == expected.content and len(seen) > 1


def test_steps_that_were_halved_to_nothing_end_a_run_in_a_sentence(files):
    """As with a tolerance below what fixed point tells: no loss is below the last any more."""
    job = begin(Spec(sites=files, **SPECS[-1]))
    with precision(np.float64):
        problem = problem_of(job.spec, job.agreement)
        shards = shards_for(job.spec, job.tables, job.agreement, np.array(job.agreement.weights))
        federation = LocalFederation(problem, shards, job.agreement.sites, 0)
        driver = driver_of(job.spec, federation, problem, job.agreement)
        state = driver.begin()
        assert driver.obstacle(state) is None
        short = state._replace(eta=jnp.asarray(1e-101))
        found = solve(driver, short)
        assert not found.converged and "halved to 1.0e-101" in found.obstacle
        near = state._replace(known=state.known._replace(x=state.known.gradient))
        assert driver.obstacle(near) is None
        assert driver.obstacle(near._replace(eta=jnp.asarray(1e-30))).endswith("the tolerance.")
