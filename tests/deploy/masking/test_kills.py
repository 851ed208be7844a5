"""Server and sites of a masked study lose their power between any two writes, and nothing is lost.

All that the package keeps is there: keys, members, charter, states, transcript and audit log of
each site, and the server's sums. Begun anew, they end with the model of sound machines, and no site
says two things to one request.
"""

from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from proxfl.deploy.masking.member import Member
from tests.deploy.field import LOOSE, Field
from tests.deploy.test_disk import PROBLEM, restart
from tests.deploy.test_disk import quiet as quiet
from tests.outcomes import soak
from tests.storage.faulty import PowerLoss, disk

STRICT = LOOSE.replace(unmasked=False)


@pytest.fixture
def spoken(monkeypatch):
    """What was said to each request, by site."""
    held: dict[tuple[str, bytes], set[bytes]] = {}
    answer = Member.answer

    def telling(self, call):
        said = answer(self, call)
        who = self.members.each[said.number].name
        held.setdefault((who, call.request.digest), set()).add(said.masked)
        return said

    monkeypatch.setattr(Member, "answer", telling)
    return held


def made(folder: Path) -> Field:
    field = Field(folder, masked=True, policy=STRICT, **PROBLEM)
    field.confirm()
    return field


def model(field: Field) -> bytes:
    return (field.folder / "results" / "model.safetensors").read_bytes()


def straight(folder: Path) -> tuple[bytes, int]:
    field = made(folder)
    with disk(folder) as sound:
        field.run()
    sound.let_go()
    return model(field), sound.done


def killed(folder: Path, at: int, wanted: bytes) -> None:
    """All at once, at an operation; of folders, every other time, the entries survive."""
    field = made(folder)
    with disk(folder, at) as faulty, suppress(PowerLoss):
        field.run()
    faulty.after_power_loss(entries_survive=at % 2 == 1)
    restart(field)
    field.run()
    assert model(field) == wanted, at


def test_a_masked_study_whose_power_fails_says_nothing_twice_and_ends_with_its_model(
    tmp_path, spoken
):
    wanted, operations = straight(tmp_path / "sound")
    for at in (operations // 3, operations // 2):
        killed(tmp_path / str(at), at, wanted)
    assert len(spoken) > 9 and all(len(said) == 1 for said in spoken.values())


@pytest.mark.soak
def test_a_masked_study_whose_power_fails_at_any_operation_does(tmp_path, spoken):
    """Seeds are all operations, in an order in which the first of them are of the whole run."""
    wanted, operations = straight(tmp_path / "sound")

    def run(seeds):
        for seed in seeds:
            spoken.clear()
            killed(tmp_path / str(seed), order[seed], wanted)
            assert spoken and all(len(said) == 1 for said in spoken.values())
        return Counter({"resumed to the same model, nothing said twice": len(seeds)})

    order = sorted(range(1, operations + 1), key=lambda at: (at * 0.6180339887498949) % 1)
    soak("masked_kills", range(operations), 5, run)
