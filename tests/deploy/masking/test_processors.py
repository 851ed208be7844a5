"""Members whose processors round otherwise come to the questions of the run.

Stands in for a second kind of processor: the same program compiled for one without AVX and fused
products, by a compiler of full effort, where the tests' own has its effort turned down.
"""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from proxfl.deploy.masking.replica import Question
from proxfl.deploy.masking.training import MaskedTraining
from proxfl.engine import fixed_point
from proxfl.train.spec import Spec
from proxfl.train.train import read_tables
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
