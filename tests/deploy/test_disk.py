"""Server and sites whose disks fail, or whose power does, end with the model of sound ones."""

import contextlib
from collections import Counter

import pytest

from proxfl.deploy.protocol.wire import BadMessage
from proxfl.deploy.server import status
from proxfl.deploy.server.inquiry import TooFewSites
from proxfl.deploy.server.status import ending
from proxfl.deploy.site.audit import Audit, faults
from proxfl.deploy.site.noise import secret
from proxfl.deploy.transport.memory import MemorySite, MemoryTransport
from proxfl.errors import DISK, DiskError
from tests.deploy.field import NAMES, Field
from tests.outcomes import soak
from tests.storage.faulty import FULL, PowerLoss, disk

PROBLEM = {"algorithm": "decoupled", "l1": 0.02, "rounds": 2, "tol": 1e-15}
SAMPLE = 47


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    monkeypatch.setattr(status, "BEAT_SECONDS", 1e6)  # so that operations have fixed numbers


def restart(field):
    """All processes anew, from what is on their disks."""
    field.sites = {site: MemorySite(lambda i=i: field.reception(i)) for i, site in enumerate(NAMES)}
    field.transport = MemoryTransport(field.sites)


def model(field):
    return (field.folder / "results" / "model.json").read_bytes()


def straight(folder):
    field = Field(folder, **PROBLEM)
    with disk(folder) as sound:
        field.run()
    return model(field), sound.done


def break_disk(folder, at, wanted):
    """How a run ended whose disks failed at an operation, and whose processes began anew."""
    field, end = Field(folder, **PROBLEM), "the same model after all"
    with disk(folder, at, FULL):
        try:
            field.run()
        except (DiskError, TooFewSites, BadMessage):
            end = "stopped, and resumed to the same model"
    restart(field)
    field.run()
    assert model(field) == wanted
    return end


def lose_power(folder, at, wanted, entries_survive):
    field = Field(folder, **PROBLEM)
    with disk(folder, at) as faulty, contextlib.suppress(PowerLoss):
        field.run()
    faulty.after_power_loss(entries_survive)
    restart(field)
    field.run()
    assert model(field) == wanted
    return "resumed to the same model"


def test_a_deployed_run_outlives_full_disks_and_losses_of_power(tmp_path):
    wanted, operations = straight(tmp_path / "sound")
    for k in range(1, operations, 2 * SAMPLE):
        break_disk(tmp_path / f"full {k}", k, wanted)
        lose_power(tmp_path / f"off {k}", k + SAMPLE, wanted, entries_survive=bool(k % 4 == 1))


@pytest.mark.parametrize("entries_survive", [False, True])
def test_a_line_of_the_audit_log_outlives_a_loss_of_power_once_it_is_entered(
    entries_survive, tmp_path
):
    """At any operation; an answer leaves after that. There may be one line more, never fewer."""
    entered, at = 0, 0
    while entered < 3:
        entered, at = 0, at + 1
        folder = tmp_path / str(at)
        folder.mkdir()
        with disk(folder, at) as faulty, contextlib.suppress(PowerLoss):
            log = Audit(folder)
            for number in range(3):
                log.enter("answer", "s", question=f"q{number}")
                entered += 1
        faulty.after_power_loss(entries_survive)
        assert entered <= Audit(folder).answers["s"] <= entered + 1
        assert not list(faults(folder))


@pytest.mark.soak
def test_a_deployed_run_outlives_a_full_disk_at_any_operation(tmp_path):
    """A seed is an operation."""
    wanted, operations = straight(tmp_path / "sound")
    end = lambda seed: break_disk(tmp_path / str(seed), seed, wanted)
    soak("disk_deployed", range(1, operations), 10, lambda some: Counter(map(end, some)))


@pytest.mark.soak
def test_a_deployed_run_outlives_a_loss_of_power_at_any_operation(tmp_path):
    """A seed is an operation, and whether entries of folders survive."""
    wanted, operations = straight(tmp_path / "sound")
    end = lambda seed: lose_power(tmp_path / str(seed), 1 + seed // 2, wanted, bool(seed % 2))
    soak("power_deployed", range(operations * 2), 10, lambda some: Counter(map(end, some)))


@pytest.mark.parametrize("error", [FULL, None])
def test_a_secret_is_whole_or_not_there(error, tmp_path):
    """One that a full disk cut short kept the site from answering for good."""
    ended = []
    for at in range(1, 12):
        folder = tmp_path / str(at)
        folder.mkdir()
        path = folder / "site" / "site.secret"
        with disk(folder, at, error) as faulty:
            try:
                secret(path)
            except (DiskError, PowerLoss):
                ended.append(at)
        if error is None:
            faulty.after_power_loss(entries_survive=bool(at % 2))
        assert secret(path) == secret(path)
    assert ended


def test_a_run_that_a_disk_ends_has_an_exit_code_of_its_own():
    assert ending(DiskError("x: the disk is full."))["code"] == DISK


def test_what_a_site_keeps_is_for_its_owner_alone(tmp_path):
    field = Field(tmp_path, **PROBLEM)
    field.run()
    kept = [path for name in NAMES for path in (tmp_path / name).rglob("*")]
    assert len(kept) > 9
    assert {path.stat().st_mode & 0o777 for path in kept if path.is_file()} == {0o600}
