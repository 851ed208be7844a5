"""A server alone chooses no model: what takes most rows of a site in the clear gets no answer."""

import numpy as np
import pytest

from proxfl.deploy.site.following import FollowingSite
from proxfl.errors import InputError
from tests.deploy.field import LOOSE, NAMES, Field
from tests.deploy.masking.red_team import WAYS, Alone

PROBLEM = {"l1": 0.02, "algorithm": "proximal-gradient", "precondition": False, "rounds": 2}
STRICT = LOOSE.replace(unmasked=False)  # no rule but masks is in the way


@pytest.fixture
def told(monkeypatch):
    """What sites computed their part of, whoever asked."""
    held, sums = [], FollowingSite.sums

    def telling(self, question):
        held.append(question.content)
        return sums(self, question)

    monkeypatch.setattr(FollowingSite, "sums", telling)
    return held


def server_of(folder, **options):
    field = Field(folder, masked=True, policy=STRICT, **options)
    field.confirm()
    return Alone({name: field.reception(i) for i, name in enumerate(NAMES)}, field.study)


def test_no_long_model_is_answered_about_by_whatever_way(tmp_path, told):
    """The attack of `isolate`, a feature at each step; `benchmarks.red_team alone` has all."""
    server = server_of(tmp_path / "field", **PROBLEM, eta=0.1)

    def deviate(call):
        step, d = call.request.step, len(server.charter.features)
        if step % 2 and step > 1:
            server.ask_about(NAMES[step % 3], call, 1e7 * np.eye(d)[step % d], -3e6)

    server.run(deviate)
    assert told == [call.request.question for call in server.asked for _ in NAMES]
    assert not server.answered and all(server.tried[way.__name__] > 3 for way in WAYS)


STEPS = {
    "a step": {"eta": 1e9},
    "a step of the server": {"eta": 0.1, "eta_g": 1e9, "algorithm": "decoupled"},
    "many steps": {"eta": 0.1, "local_steps": 10**6, "algorithm": "decoupled"},
    "steps at sites": {"eta_g": 1e-9, "local_steps": 9, "algorithm": "decoupled"},
}


@pytest.mark.parametrize("by", STEPS)
def test_no_study_chooses_a_model_by_its_steps(by, tmp_path, told):
    """A long step with a weight for each feature was a model of the author's choosing: from the
    gradient at 0, which any study tells, the weights follow."""
    weights = {"a": 3.0, "b": 0.0, "c": 1.0, "d": 9.0, "e": 0.5}
    server = server_of(tmp_path / "field", **PROBLEM | STEPS[by], feature_weights=weights)
    with pytest.raises(InputError, match="the study would choose the models that sites tell about"):
        server.run()
    assert {call.question.kind for call in server.asked} == {"rows", "curvature x"}
