"""SECURITY.md lists each kind of message, masked or declared, as the code has them."""

import re
from pathlib import Path

from proxfl.deploy.masking import evaluation, path
from proxfl.deploy.masking.training import SETUP
from proxfl.deploy.protocol import wire
from proxfl.deploy.protocol.wire import Header
from proxfl.tables.survey import QUESTIONS
from proxfl.train.tasks import TASKS
from tests.deploy.field import Field

KINDS = ("VISIT", "UPLINK", "DIVERGED", "TASK", "ANSWER", "REFUSAL", "HELLO", "STATE")
PAGE = Path(__file__).parents[3] / "SECURITY.md"


def replied(reception, channel, kind, task=""):
    """The kind of a reply on a channel, and what it says."""
    header = Header(kind, wire.tag(channel), 0, 1)
    frame = wire.decode(reception.answer(wire.encode(header, {"task": task}, {})))
    return frame.header.kind, frame.payload


def test_the_table_of_messages_is_that_of_the_code(tmp_path):
    """What is declared is found by asking a site for every kind and task, on each channel."""
    field = Field(tmp_path, masked=True)
    field.propose()
    reception = field.sites["north"].worker
    (worker,) = reception.open.values()
    assert not worker.tasks  # nothing but what `setup` has is answered
    masked = {*SETUP, *TASKS, "round", *path.KINDS, *evaluation.KINDS, *QUESTIONS} - {"survival"}
    names = {k: n.lower() for n, k in vars(wire).items() if n in KINDS}
    assert sorted(names) == list(range(1, 9)) and worker.answers.keys() <= names.keys()

    known, declared, refused = {*worker.setup, *masked, "propose"}, set(), set()
    for channel in (reception.membership.channel, field.study.id):
        for kind, name in names.items():
            found, _ = replied(reception, channel, kind)
            assert found in (wire.ANSWER, wire.REFUSAL)
            if kind in worker.answers and kind != wire.TASK:
                (declared if found == wire.ANSWER else refused).add(name)
            else:
                assert found == wire.REFUSAL
            declared.add("refusal")
        for task in known:
            found, said = replied(reception, channel, wire.TASK, task)
            elsewhere = "asked such things about a study only", "knows no task"
            if found == wire.ANSWER or not any(words in str(said) for words in elsewhere):
                declared.add(task)
            if "lapsed" in said:
                declared.add("lapsed")
    # The answer to a step is the one that is under masks, by what it asks.
    expected = dict.fromkeys(masked, "masked") | dict.fromkeys(refused - declared, "refused")
    expected |= dict.fromkeys(declared - {"step"}, "declared")
    rows = re.findall(r"^\| `(\w+)` \| (masked|declared|refused) \|", PAGE.read_text(), re.M)
    assert dict(rows) == expected and len(rows) == len(expected)
