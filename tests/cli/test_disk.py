"""The disk fails at any write, or the power does: a sentence, and the same model in the end."""

import contextlib
import json
from collections import Counter
from pathlib import Path

import pytest

from proxfl.train import train as fitting
from proxfl.train.local import LocalFederation
from tests.cli.test_damage import write_sites
from tests.cli.world import proxfl
from tests.outcomes import soak
from tests.storage.faulty import BROKEN, FULL, READ_ONLY, PowerLoss, disk

RUN = "--target=y --loss=logistic --l1=0.02 --tol=1e-15 --rounds=2".split()
ROUNDS = 2
# Some operation of every kind, in every file; the long test takes them all.
SAMPLE = 5


@pytest.fixture(scope="module")
def sites(tmp_path_factory):
    return write_sites(tmp_path_factory.mktemp("disk") / "data")


@pytest.fixture
def visits(monkeypatch):
    """The rounds that were computed, by their number; every one is followed by a checkpoint."""
    seen, visit = [], LocalFederation.visit

    def counted(federation, algorithm, call, down):
        seen.append(call.round)
        return visit(federation, algorithm, call, down)

    monkeypatch.setattr(LocalFederation, "visit", counted)
    monkeypatch.setattr(fitting, "CHECKPOINT_SECONDS", 0.0)
    return seen


def train(sites, out: Path):
    return proxfl("train", *sites, *RUN, "--out", out)


def go_on(sites, out: Path):
    """As one would: resume if there is something to resume, else begin again."""
    begun = (out / "manifest.json").exists()
    return proxfl("train", "--resume", out) if begun else train(sites, out)


def straight(sites, folder: Path) -> tuple[dict[str, bytes], int]:
    """The files that count of a run on a sound disk, and the operations it took."""
    (folder / "sound").mkdir()
    with disk(folder / "sound") as sound:
        assert train(sites, folder / "sound" / "out").code == 3
    return contents(folder / "sound" / "out"), sound.done


def contents(out: Path) -> dict[str, bytes]:
    return {
        name: (out / name).read_bytes()
        for name in ("model.json", "model.safetensors", "history.jsonl")
    }


def refuse_disk(sites, folder: Path, wanted, at: int, error: int, visits: list[int]) -> str:
    """How a run ended whose disk failed at an operation, and went on to the same model."""
    folder.mkdir()
    out, before = folder / "new" / "out", len(visits)
    with disk(folder, at, error) as faulty:
        outcome = train(sites, out)
    assert faulty.done >= at
    if outcome.code == 3:  # it was the report, which is allowed to fail
        assert contents(out) == wanted
        return "the model is there, its report is not"
    first, *notes = outcome.err.splitlines()
    assert outcome.code == 4 and outcome.out == "" and len(notes) <= 1, (at, outcome)
    assert first.startswith(f"proxfl train: {out}") and "the disk" in first
    begun = (out / "manifest.json").exists()
    assert ("--resume" in outcome.err) == begun
    assert go_on(sites, out).code == 3
    assert contents(out) == wanted
    assert len(visits) - before <= ROUNDS + 1  # at most one round was computed twice
    assert json.loads((out / "manifest.json").read_text())["finished"]
    return "said, and resumed to the same model" if begun else "said, and begun again"


def lose_power(sites, folder: Path, wanted, at: int, entries_survive: bool) -> str:
    folder.mkdir()
    out = folder / "new" / "out"
    with disk(folder, at) as faulty, contextlib.suppress(PowerLoss):
        train(sites, out)
    faulty.after_power_loss(entries_survive)
    begun = (out / "manifest.json").exists()
    outcome = go_on(sites, out)
    assert outcome.code == 3, (at, outcome)
    assert contents(out) == wanted
    return "resumed to the same model" if begun else "begun again"


def test_a_disk_that_fails_costs_a_round_at_most(sites, tmp_path, visits):
    wanted, operations = straight(sites, tmp_path)
    for k, error in zip(range(1, operations, SAMPLE), 9 * (FULL, READ_ONLY, BROKEN), strict=False):
        refuse_disk(sites, tmp_path / str(k), wanted, k, error, visits)


def test_a_run_recovers_from_a_loss_of_power(sites, tmp_path, visits):
    wanted, operations = straight(sites, tmp_path)
    for k in range(2, operations, SAMPLE):
        lose_power(sites, tmp_path / str(k), wanted, k, entries_survive=bool(k % 2))


@pytest.mark.soak
def test_a_disk_that_fails_at_any_operation_costs_a_round_at_most(sites, tmp_path, visits):
    """A seed is an operation, and how the disk fails there."""
    wanted, operations = straight(sites, tmp_path)
    kinds = (FULL, READ_ONLY, BROKEN)

    def end(seed):
        at, kind = divmod(seed, len(kinds))
        return refuse_disk(sites, tmp_path / str(seed), wanted, 1 + at, kinds[kind], visits)

    seeds = range((operations - 1) * len(kinds))
    soak("disk_train", seeds, 10, lambda some: Counter(map(end, some)))


@pytest.mark.soak
def test_a_run_recovers_from_a_loss_of_power_at_any_operation(sites, tmp_path, visits):
    """A seed is an operation, and whether entries of folders survive."""
    wanted, operations = straight(sites, tmp_path)

    def end(seed):
        return lose_power(sites, tmp_path / str(seed), wanted, 1 + seed // 2, bool(seed % 2))

    soak("power_train", range(operations * 2), 10, lambda some: Counter(map(end, some)))


def test_the_folder_of_a_path_appears_whole_or_not_at_all(sites, tmp_path):
    along = "--target=y --loss=logistic --points=2 --folds=2 --tol=1e-2".split()
    path = lambda out: proxfl("path", *sites, *along, "--out", out)
    (tmp_path / "sound").mkdir()
    with disk(tmp_path / "sound") as sound:
        assert path(tmp_path / "sound" / "out").code == 0
    for k in range(1, sound.done, 9):
        folder = tmp_path / str(k)
        folder.mkdir()
        with disk(folder, k, FULL):
            outcome = path(folder / "out")
        whole = (folder / "out" / "path.json").exists()
        assert outcome.code == (0 if whole else 4), (k, outcome)
        assert whole or not (folder / "out").exists()


def test_all_that_is_written_is_written_through_the_file_functions(sites, tmp_path):
    with disk(tmp_path) as sound:
        assert train(sites, tmp_path / "out").code == 3
        assert proxfl("predict", tmp_path / "out", sites[0], "--out", tmp_path / "p.csv").code == 0
        found = {path for path in tmp_path.rglob("*") if path.is_file()}
    assert len(found) >= 7 and found <= sound.written
