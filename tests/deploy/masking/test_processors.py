"""Members whose processors round otherwise come to the questions of the run.

Stands in for a second kind of processor: numbers whose last digits are changed before a site's own
step; and, in `make soak`, the same program compiled for one without AVX and fused products, by a
compiler of full effort, where the tests' own has its effort turned down.
"""

import json
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from proxfl.deploy.masking.replica import Question
from proxfl.deploy.masking.training import MaskedTraining
from proxfl.deploy.server.inquiry import TooFewSites
from proxfl.deploy.site import following
from proxfl.engine import fixed_point
from proxfl.train.spec import Spec
from proxfl.train.train import read_tables
from tests.deploy.field import LOOSE, Field
from tests.deploy.masking.test_training import FEATURES, SPECS, Party
from tests.deploy.masking.test_training import files as files

ELSEWHERE = """
import json, sys
import jax
import numpy as np
from proxfl.deploy.masking.training import MaskedTraining
from proxfl.train.spec import Spec

jax.config.update("jax_enable_x64", True)
folder, asked = sys.argv[1], {}
sums = np.load(f"{folder}/sums.npz")

def ask(question):
    step = len(kinds)
    kinds.append(question.kind)
    asked.update({f"{step} {k}": v for k, v in question.rounded().numbers.items()})
    return sums[str(step)]

kinds = []
spec = Spec(**json.load(open(f"{folder}/spec.json"))).read_files()
MaskedTraining(spec, 3, ("a", "b", "c"))(ask)
np.savez(f"{folder}/asked.npz", kinds=np.array(kinds), **asked)
"""


def elsewhere(monkeypatch, ulps):
    """South follows runs with arithmetic that is off by so many last digits, wherever it counts
    nothing; as of backward stable algorithms, by what they start from."""
    train, drawn = following.PARTS["train"], np.random.default_rng(0)

    def off(total):
        moved = total * (1 + ulps * 2.0**-52 * drawn.uniform(-1, 1, total.shape))
        return np.where(total == np.round(total), total, moved)

    def parts(site, charter):
        run, answers = train(site, charter)
        there = lambda ask: run(lambda question: off(ask(question)))
        return (there if site.seat.name == "south" else run), answers

    monkeypatch.setitem(following.PARTS, "train", parts)


def made(folder, **options):
    field = Field(folder, masked=True, policy=LOOSE.replace(unmasked=False), **options)
    field.confirm()
    return field


@pytest.mark.filterwarnings("ignore:Not converged")
def test_a_site_that_rounds_otherwise_comes_to_the_model_of_the_others(tmp_path, monkeypatch):
    """By the members' answers each about their own places, which differ as their steps do."""
    fields = [made(tmp_path / name, **PROBLEM) for name in ("alike", "apart")]
    found = fields[0].run().model.coef
    elsewhere(monkeypatch, 100)
    np.testing.assert_allclose(fields[1].run().model.coef, found, rtol=1e-9)


PROBLEM = {"l1": 0.02, "algorithm": "decoupled", "rounds": 6, "precondition": False}


def test_where_rounding_decides_a_site_does_not_sign_the_model(tmp_path, monkeypatch):
    """Two columns that are almost one: the run ends in a sentence, and waits for nobody."""
    field = made(tmp_path / "field", l1=1e-4)
    for file in field.files:
        table = pd.read_csv(file)
        table.assign(e=table["d"] + 1e-3 * table["e"]).to_csv(file, index=False)
    elsewhere(monkeypatch, 1e4)
    words = r"south \(Site south does not sign: This is not the model that this run has come to"
    with pytest.raises(TooFewSites, match=words):
        field.run()


@pytest.mark.soak  # a second process that compiles all anew
def test_the_server_s_step_is_the_same_on_two_kinds_of_processor(files, tmp_path):
    options = {"sites": files, **SPECS[0]}
    spec = Spec(**options)
    party = Party(spec.read_files(), read_tables(spec), tmp_path)
    party.run()
    sums = [fixed_point.decode(exchange.words) for exchange in party.kept]
    np.savez(tmp_path / "sums.npz", **{str(i): total for i, total in enumerate(sums)})
    (tmp_path / "spec.json").write_text(json.dumps(options))
    flags = "--xla_cpu_max_isa=SSE4_2"
    command = [sys.executable, "-c", ELSEWHERE, str(tmp_path)]
    subprocess.run(command, check=True, env=os.environ | {"XLA_FLAGS": flags})
    theirs, own = np.load(tmp_path / "asked.npz"), []
    run = MaskedTraining(spec.read_files(), 3, FEATURES)
    run(lambda q: own.append(q) or sums[len(own) - 1])
    assert theirs["kinds"].tolist() == [q.kind for q in own] and len(own) > 4
    for i, question in enumerate(own):
        numbers = {name: theirs[f"{i} {name}"] for name in question.numbers}
        asked = Question(question.kind, numbers, question.length)
        assert asked.agrees(question), question.kind
