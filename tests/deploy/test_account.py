"""Privacy noise at real sites: what is spent is counted on the disk, whoever asks, and again."""

import itertools
import math
import shutil

import jax
import numpy as np
import pandas as pd
import pytest
from scipy import stats

from proxfl.algorithms.accounting import composed, epsilon
from proxfl.deploy.masking.journal import Journal
from proxfl.deploy.masking.record import Transcript
from proxfl.deploy.ops.home import EXCHANGES
from proxfl.deploy.protocol.study import make_evaluation
from proxfl.deploy.server.inquiry import TooFewSites
from proxfl.deploy.server.options import RunOptions, refuse_options
from proxfl.deploy.server.program import result_of
from proxfl.deploy.site import account, audit
from proxfl.deploy.site.audit import Audit
from proxfl.deploy.site.noise import FILE
from proxfl.deploy.site.office import MASK, SECRET
from proxfl.deploy.site.store import Store
from proxfl.engine import fixed_point
from proxfl.errors import InputError
from proxfl.train.evaluate import How
from proxfl.train.federation import Call
from proxfl.train.folder import read
from proxfl.train.privacy import Noise
from tests.deploy.field import LOOSE, NAMES, Field

NOISE = {"target": "y", "loss": "squared", "eta": 0.02, "rounds": 4}
NOISE |= {"dp_clip": 1.0, "dp_noise": 8.0, "dp_delta": 1e-6}
HONEST = LOOSE.replace(honest=3)
TOLD = epsilon(8.0, 4, 1e-6)  # of a whole study


def noisy(folder, masked=False, **options):
    policy = options.pop("policy", LOOSE)
    field = Field(folder, policy=policy, masked=masked, **NOISE | options)
    if masked:
        field.confirm()
    return field


def noised(field, site="north"):
    lines = (audit.parsed(line) for line in audit.lines_of(field.folder / site))
    return [line for line in lines if line["what"] == audit.NOISED]


class Stop(BaseException):
    """As when a process is killed."""


class Hostile:
    """A server of an unmasked study, which asks about the models that it likes."""

    def __init__(self, field):
        field.propose()
        training = field.life("hostile")
        self.step, self.visit = 0, training.federation.visit

        def stop(*about):
            self.algorithm, _, self.down = about[:3]
            raise Stop

        training.federation.visit = stop
        with pytest.raises(Stop):
            result_of(training)

    def ask(self, shift, round=0):
        """The mean answer about a model, in the step that is due."""
        self.step += 1
        down = jax.tree.map(lambda a: a + shift, self.down)
        answers = self.visit(self.algorithm, Call(self.step, 0, round, 0), down)
        return flat(answers.received.mean)


def flat(point):
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(point)])


@pytest.mark.parametrize("masked", [False, True])
def test_a_study_spends_what_its_report_says_and_its_sites_have_counted(masked, tmp_path):
    field = noisy(tmp_path, masked)
    field.run()
    for site in NAMES:
        assert len(noised(field, site)) == 4
        office = field.office(NAMES.index(site))
        assert composed(office.spent("another"), 1e-6) == pytest.approx(TOLD)
    told = read(tmp_path / "results").model["privacy"]
    assert told["epsilon"] == pytest.approx(TOLD) and "the server, the other" in told["against"]
    trusted = "at least 1 of the sites" if masked else "no other has to"
    assert trusted in told["provided"]
    assert trusted in (tmp_path / "results" / "report.html").read_text()


def test_the_audit_tells_what_was_spent_and_what_it_does_not_cover(tmp_path):
    field = noisy(tmp_path)
    field.run()
    lines = lambda: [audit.parsed(line) for line in audit.lines_of(tmp_path / "north")]
    words = f"4 answers with privacy noise came to epsilon {TOLD:.4g} at delta 1e-06"
    assert words in account.told(lines(), 1e-6) and "Not covered" not in account.told(lines(), 1e-6)
    field.ask(target="y", loss="squared", l1=0.1)
    field.run("bare")
    assert "Not covered by it:" in account.told(lines(), 1e-6)
    assert account.told([], 1e-6) is None


def test_the_same_question_gets_the_same_bytes_and_spends_nothing_another_does(tmp_path):
    field = noisy(tmp_path)
    server = Hostile(field)
    first = server.ask(0.0)
    np.testing.assert_array_equal(first, server.ask(0.0))
    for site in field.sites.values():
        site.restart()
    np.testing.assert_array_equal(first, server.ask(0.0))
    assert len(noised(field)) == 1
    changes = [np.abs(server.ask(shift) - first).min() for shift in (1e-9, 1e-6)]
    changes.append(np.abs(server.ask(0.0, round=1) - first).min())
    assert min(changes) > 1e-4 and len(noised(field)) == 4  # noise of its own each time


def test_a_server_that_asks_for_more_than_the_study_says_is_refused(tmp_path):
    """Whatever it makes of models, steps, restarts and lives of its own."""
    field = noisy(tmp_path)
    server = Hostile(field)
    for k in range(3):
        server.ask(1e-3 * k)
    for site in field.sites.values():
        site.restart()
    server = Hostile(field)
    server.ask(5.0)
    for shift in (6.0, 1e-12):
        with pytest.raises(TooFewSites, match="has given 4 answers with noise, as many as the stu"):
            server.ask(shift)
    assert len(noised(field)) == 4


@pytest.mark.parametrize("task", ["evaluate", "curvature", "newton"])
def test_a_study_with_noise_answers_rounds_and_nothing_else(task, tmp_path):
    field = noisy(tmp_path)
    Hostile(field)
    with pytest.raises(TooFewSites, match=f"knows no task '{task}'"):
        field.life("other").federation.ask(task, {"x": np.zeros(6)})


@pytest.mark.parametrize("masked", [False, True])
def test_what_other_studies_spent_counts_and_a_spent_budget_is_refused(masked, tmp_path):
    policy = LOOSE.replace(epsilon=1.2 * TOLD)  # one study, and not two, which come to 1.4 of one
    field = noisy(tmp_path, masked, policy=policy)
    field.run("first")
    field.ask(**NOISE, l1=0.1)
    with pytest.raises(TooFewSites, match="declines: with all that it has answered, noised answ"):
        field.propose()
    field.ask(**NOISE | {"rounds": 1}, l1=0.1)  # which it has room for
    field.run("third")
    assert len(noised(field)) == 5


@pytest.mark.parametrize("masked", [False, True])
def test_studies_that_each_fit_alone_do_not_fit_together(masked, tmp_path):
    """Both were taken part in before either had asked: the second one stops in the middle."""
    field = noisy(tmp_path, masked, policy=LOOSE.replace(epsilon=1.2 * TOLD))
    field.propose()
    second = field.study
    field.ask(**NOISE, l1=0.1)
    field.run("first")
    field.study = second
    with pytest.raises(TooFewSites, match="noised answers would come to epsilon"):
        result_of(field.life("second"))
    assert 4 <= len(noised(field)) < 8


@pytest.mark.parametrize(
    "policy, options, words",
    [
        ({"epsilon": 0.9 * TOLD}, {}, "noised answers would come to epsilon"),
        ({"epsilon": TOLD * 1.01, "delta": 1e-7}, {}, "at delta 1e-07"),
        ({"honest": 1}, {"dp_honest": 2}, "would be enough only where 2 sites add theirs"),
        ({"epsilon": 9e9}, dict.fromkeys(("dp_clip", "dp_noise", "dp_delta")), "noise only"),
    ],
)
def test_a_study_with_less_noise_than_a_site_wants_is_declined(policy, options, words, tmp_path):
    field = noisy(tmp_path, masked=True, **options)
    field.sites["south"].worker.office.given = LOOSE.replace(**policy)
    with pytest.raises(TooFewSites, match=f"south declines: .*{words}"):
        field.propose()
    assert not noised(field, "south")


def test_a_site_that_wants_noise_evaluates_no_model(tmp_path):
    field = noisy(tmp_path)
    field.run()
    text = (tmp_path / "results" / "model.json").read_text()
    field.study = make_evaluation("how", "field", NAMES, text, How(0.5, 0, 0))
    strict = LOOSE.replace(epsilon=100.0, automatic=("train", "evaluate"))
    field.sites["south"].worker.office.given = strict
    with pytest.raises(TooFewSites, match="south declines: it answers with privacy noise only"):
        field.propose()


SECRETS = (FILE, SECRET, MASK)
# What was written last when the site was killed; its reply had not left.
LEDGER, RECORD, STORE = (Audit, "enter"), (Transcript, "add"), (Store, "remember")


def keep_secrets(one, other):
    """Give the sites of another field the secrets of these."""
    for site, secret in itertools.product(NAMES, SECRETS):
        (other.folder / site).mkdir(exist_ok=True)
        if (path := one.folder / site / secret).exists():
            shutil.copy(path, other.folder / site / secret)


@pytest.mark.parametrize("masked, last", [(0, LEDGER), (0, STORE), (1, LEDGER), (1, RECORD)])
def test_a_kill_between_ledger_and_reply_loses_nothing(masked, last, tmp_path, monkeypatch):
    """Nor is anything spent twice: the run ends with the model of one that was never disturbed."""
    masked = bool(masked)
    calm = noisy(tmp_path / "calm", masked)
    wanted = calm.run().model
    field = Field(tmp_path / "killed", policy=LOOSE, masked=masked, **NOISE)
    keep_secrets(calm, field)
    if masked:
        field.confirm()
    owner, name = last
    write, killed = getattr(owner, name), []

    def kill(self, *about, **more):
        write(self, *about, **more)
        if not killed and len(noised(field)) == 2:
            killed.append(last)
            raise Stop

    monkeypatch.setattr(owner, name, kill)
    with pytest.raises(Stop):
        field.run()
    for site in field.sites.values():
        site.restart()
    found = field.run().model
    np.testing.assert_array_equal(found.coef, wanted.coef)
    assert killed and [len(noised(field, site)) for site in NAMES] == [4, 4, 4]


def test_a_lost_secret_makes_the_same_question_spend_again(tmp_path):
    field = noisy(tmp_path)
    server = Hostile(field)
    first = server.ask(0.0)
    (tmp_path / "north" / FILE).unlink()
    assert np.abs(server.ask(0.0) - first).min() > 1e-4
    assert len(noised(field)) == 2 and len(noised(field, "south")) == 1


@pytest.mark.parametrize("masked", [False, True])
def test_other_rows_get_other_noise_though_their_site_has_forgotten_the_first(masked, tmp_path):
    """With one noise, the difference of two answers would be that of the rows."""
    first = noisy(tmp_path / "first", masked, rounds=1)
    first.run()
    again = Field(tmp_path / "again", policy=LOOSE, masked=masked, **NOISE | {"rounds": 1})
    keep_secrets(first, again)
    if masked:
        again.confirm()
    changed = pd.read_csv(again.files[0])
    changed.loc[0, "a"] += 1.0
    changed.to_csv(again.files[0], index=False)
    again.run()
    names = lambda field, site: [line["noised"] for line in noised(field, site)]
    assert names(first, "north") != names(again, "north")
    assert names(first, "south") == names(again, "south")


def test_a_restored_folder_has_forgotten_and_a_copied_head_tells(tmp_path):
    """Old questions get their old answers; what was spent since is not known any more."""
    field = noisy(tmp_path)
    server = Hostile(field)
    first = server.ask(0.0)
    shutil.copytree(tmp_path / "north", tmp_path / "backup")
    server.ask(1.0)
    head = audit.head_of(tmp_path / "north")
    shutil.rmtree(tmp_path / "north")
    shutil.move(tmp_path / "backup", tmp_path / "north")
    field.sites["north"].restart()
    assert len(noised(field)) == 1 and list(audit.faults(tmp_path / "north", head))
    np.testing.assert_array_equal(first, server.ask(0.0))
    assert len(noised(field)) == 1


@pytest.mark.parametrize("honest", [1, 3])
def test_the_noise_of_all_sites_in_a_masked_sum_is_as_much_as_was_asked_for(honest, tmp_path):
    """With a step that moves nothing, all rounds ask for the same sum and differ in noise only."""
    field = noisy(tmp_path, True, rounds=20, eta=1e-90, dp_honest=honest, policy=HONEST)
    field.run()
    steps = Journal(tmp_path / "results" / EXCHANGES)[1:]
    sums = np.array([fixed_point.decode(step.words) for step in steps])
    assert sums.shape == (20, 6)
    drawn = (sums - sums.mean(axis=0)) / (8.0 * math.sqrt(3 / honest))
    low, high = stats.chi2.interval(1 - 1e-6, 19 * 6)
    assert low < (drawn**2).sum() < high


def test_no_member_can_take_its_own_noise_out_below_what_was_asked_for():
    """What is left once all but `honest` sites have told theirs is the noise that is promised."""
    noise = Noise(1.0, 8.0, 4, 1e-6, 3)
    own = noise.deviation(30, 6) * fixed_point.STEP
    assert math.sqrt(3) * own == pytest.approx(8.0, rel=1e-9) and math.sqrt(3) * own >= 8.0
    drawn = [fixed_point.decode(noise.words(bytes([k]), 500, 30)) for k in range(3)]
    low, high = stats.chi2.interval(1 - 1e-6, 500)
    assert low < ((sum(drawn) / 8.0) ** 2).sum() < high
    assert np.abs(np.corrcoef(drawn)[0, 1:]).max() < 0.25


def test_noise_that_a_study_itself_makes_too_little_is_refused(tmp_path):
    with pytest.raises(InputError, match="each must add all of its noise; leave dp_honest out"):
        noisy(tmp_path / "clear", dp_honest=2)
    with pytest.raises(InputError, match="dp_honest must be at most the 3 sites, got 4"):
        noisy(tmp_path / "many", True, dp_honest=4)
    study = noisy(tmp_path / "rounds", True).study
    for change in ({"rounds": 9}, {"tol": 1e-3}):
        with pytest.raises(InputError, match="is for its own 4 rounds, and its sites count it so"):
            refuse_options(study, RunOptions(**change))
