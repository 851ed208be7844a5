"""SECURITY.md lists each kind of message, masked or declared, as the code has them."""

import re
from pathlib import Path

import pytest

from proxfl.deploy.masking import evaluation, path
from proxfl.deploy.masking.training import SETUP, refuse_unmaskable
from proxfl.errors import InputError
from proxfl.tables.survey import QUESTIONS
from proxfl.train.spec import Spec
from proxfl.train.tasks import TASKS
from tests.deploy.field import Field

PAGE = Path(__file__).parents[3] / "SECURITY.md"


def test_the_table_of_messages_is_that_of_the_code(tmp_path):
    field = Field(tmp_path, masked=True)
    field.propose()
    (worker,) = field.sites["north"].worker.open.values()
    assert not worker.tasks  # nothing but what `setup` has is answered
    with pytest.raises(InputError, match="its own hazard, which is no sum"):
        refuse_unmaskable(Spec(time="t", event="e", loss="cox"))
    asked = {*SETUP, *TASKS, "round", *path.KINDS, *evaluation.KINDS, *QUESTIONS} - {"survival"}
    declared = {"propose"} | worker.setup.keys() - {"step"}
    found = dict(re.findall(r"^\| `(\w+)` \| (masked|declared) \|", PAGE.read_text(), re.M))
    assert found == dict.fromkeys(declared, "declared") | dict.fromkeys(asked, "masked")
