"""Damaged files are refused in a sentence that names them; no prediction is silently another.

Every case is a seed: it picks a file that a command reads, and does something to it. A command then
does what it does with the sound file, or ends with exit code 2 and names the file. Where the digest
was made to fit the damage nothing can tell them apart but types, shapes and finiteness; then any
outcome is right that is no traceback.
"""

import logging
import random
import shutil
import traceback
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import numpy as np
import pandas as pd
import pytest

from proxfl.cli.commands.federate import join, serve
from proxfl.deploy.masking.conductor import Exchange
from proxfl.deploy.masking.kept import Kept
from proxfl.deploy.masking.messages import SIGNATURE
from proxfl.deploy.masking.replica import Question
from proxfl.deploy.masking.reply import Reply
from proxfl.deploy.masking.states import States
from proxfl.deploy.ops import home as homes
from proxfl.deploy.ops.stopping import Stopped
from proxfl.deploy.protocol import wire
from proxfl.deploy.protocol.membership import Membership
from proxfl.deploy.protocol.study import make_study, read_table
from proxfl.deploy.protocol.wire import BadMessage, Header
from proxfl.deploy.server.path import KeptSums
from proxfl.deploy.site.noise import secret
from proxfl.deploy.site.office import SECRET, Office
from proxfl.deploy.site.site import Site
from proxfl.deploy.site.store import Store
from proxfl.deploy.site.told import Told
from proxfl.deploy.transport.flower import launch
from proxfl.train.federation import Call
from proxfl.train.spec import Spec
from tests import mutations
from tests.cli.world import Outcome, proxfl
from tests.deploy.field import NAMES, Field
from tests.outcomes import soak

TAG = wire.tag("an experiment")
SOUND = (0, 2, 3, 130)


class Target(NamedTuple):
    """A folder of which each case gets a copy, the files in it to damage, and what reads them."""

    folder: Path
    files: tuple[str, ...]
    read: Callable[[Path], Outcome]
    digested: bool = True  # else another content may be as sound as the first
    may_lack: bool = False  # whether a file that is not there is as one not written yet
    called: str = ""  # how a sentence names the file, if not by its name


def write_sites(folder: Path) -> list[Path]:
    folder.mkdir()
    rng, files = np.random.default_rng(0), [folder / f"{name}.csv" for name in ("north", "south")]
    for file in files:
        A = rng.normal(size=(20, 3))
        y = np.where(A[:, 0] + rng.normal(size=20) > 0, "yes", "no")
        pd.DataFrame(A, columns=["a", "b", "c"]).assign(y=y).to_csv(file, index=False)
    return files


@pytest.fixture(scope="module")
def targets(tmp_path_factory) -> dict[str, Target]:
    home = tmp_path_factory.mktemp("sound")
    files, found = write_sites(home / "data"), {}
    base = ["train", *files, "--target=y", "--loss=logistic", "--l1=0.02"]
    assert proxfl(*base, "--tol=1e-3", "--out", home / "done").code == 0
    assert proxfl(*base, "--tol=1e-15", "--rounds=3", "--out", home / "open").code == 3
    (home / "rows").mkdir()
    table = pd.read_csv(files[0])
    table.to_csv(home / "rows" / "rows.csv", index=False)
    table.to_parquet(home / "rows" / "rows.parquet", index=False)
    np.savez(home / "rows" / "rows.npz", **{name: table[name] for name in "abc"})
    all_files = ("model.json", "manifest.json", "history.jsonl", "model.safetensors")
    done, rows = home / "done", home / "rows"
    for name in ("rows.csv", "rows.parquet", "rows.npz"):
        read = lambda folder, name=name: proxfl("predict", done, folder / name)
        found[f"predict {name}"] = Target(rows, (name,), read, digested=False)
    predict = lambda folder: proxfl("predict", folder, files[0], "--proba")
    found["predict"] = Target(done, ("model.json",), predict)
    found["inspect"] = Target(done, ("model.json",), lambda folder: proxfl("inspect", folder))
    found["evaluate"] = Target(
        done, ("model.json",), lambda folder: proxfl("evaluate", folder, files[0], "--draws=0")
    )
    found["report"] = Target(done, all_files, lambda folder: proxfl("report", folder))
    resume = lambda folder: proxfl("train", "--resume", folder, "--json")
    found["resume finished"] = Target(done, all_files, resume)
    more = lambda folder: proxfl("train", "--resume", folder, "--rounds=4", "--json")
    found["resume"] = Target(home / "open", ("manifest.json", "checkpoint.npz"), more)
    return found | of_server(home, files) | of_site(home, files) | of_run(home)


def of_server(home: Path, files: list[Path]) -> dict[str, Target]:
    """What the commands of a server read, with nothing started."""
    folder = home / "federation"
    folder.mkdir()
    sites, at = ("north", "south"), homes.Home(folder)
    Membership("heart", sites).write(folder)
    make_study("heart", "heart", sites, Spec(target="y", loss="logistic")).write(at.study("heart"))
    at.server.mkdir()
    address = {"sites": "0.0.0.0:9092", "inside": "127.0.0.1:1", "secure": True, "pid": 1}
    homes.write_json(at.address, address)
    homes.write_json(at.registered, {"sites": {"north": {"key": "k", "node": "1"}}})
    status = {"state": "finished", "run": "1", "pid": 1, "out": "results", "sites": ["north"]}
    status |= {"present": [], "options": {}, "round": 3, "rounds": 9, "optimality": 1e-3}
    status |= {"tolerance": 1e-6, "left": None, "answered": 1, "away": [], "bytes_up": 10}
    homes.write_json(at.status, status | {"bytes_down": 10, "faults": 0})
    found = ("address.json", "registered.json", "status.json")
    read = tuple(f"server/{name}" for name in found)
    run = lambda action, *more: lambda folder: proxfl("federate", action, folder, *more)
    plan, join = ("federation.toml",), ("--data", files[0], "--server", "127.0.0.1:9")
    return {
        "federate status": Target(folder, (read[0], read[2]), run("status"), may_lack=True),
        "federate run": Target(folder, (read[0], read[2]), run("run"), may_lack=True),
        "federate serve": Target(folder, read[1:2], run("serve"), may_lack=True),
        "federate status of a plan": Target(folder, plan, run("status"), digested=False),
        "federate join": Target(folder, plan, run("join", *join), digested=False),
    }


def of_site(home: Path, files: list[Path]) -> dict[str, Target]:
    """What a site reads when it starts, and when it is asked."""
    field = Field(home / "field", rounds=2, tol=1e-9)
    field.run()
    table = read_table(field.spec, field.files[0])
    office = lambda folder: Office(folder, field.policy)

    def experiment(folder: Path) -> Outcome:
        return attempt(lambda: Site(field.study, NAMES[0], table, office(folder)).experiment())

    agreed = f"studies/{field.study.id}/agreement.json"
    header = Header(wire.VISIT, TAG, 0, 2, 1, 2)
    first = {"v": np.zeros(3)}
    store = Store(home / "store", TAG, "here")
    store.remember(header._replace(step=1, counted=wire.NEVER, round=1), b"q", b"a", first)
    step = str(store.path(1).relative_to(home / "store"))

    def recall(folder: Path) -> Outcome:
        return attempt(lambda: Store(folder, TAG, "here").recall(header, first))

    (home / "joined").mkdir()
    homes.write_json(home / "joined" / homes.SITE_STATUS, {"pid": 1, "sentence": "It runs."})
    speak = lambda folder: attempt(join.speaker(folder))
    return {
        "site": Target(home / "field" / NAMES[0], (agreed,), experiment, may_lack=True),
        "site state": Target(home / "store", (step,), recall, called="step 1"),
        "site status": Target(home / "joined", (homes.SITE_STATUS,), speak),
    }


@pytest.fixture(scope="module")
def kept(tmp_path_factory) -> dict[str, Target]:
    """What is kept for masked runs and paths, and the secrets and hashes of a site."""
    folder = tmp_path_factory.mktemp("kept") / "sound"
    (file,) = write_sites(folder.with_name("data"))[:1]
    first = {"v": np.zeros(3), "n": np.asarray(0)}
    States(folder).remember(Call(1, 0, 0, 0), {"v": np.arange(3.0), "n": np.asarray(1)})
    question = Question("gradient", {"x": np.arange(2.0)}, 4)
    KeptSums(folder / "path", "tables").keep(
        *KeptSums(folder / "path", "tables").place(question), np.arange(4.0)
    )
    words = np.arange(6, dtype=np.uint64).reshape(3, 2)
    Kept(folder / "steps").add(Exchange(words, [Reply(0, b"masked", bytes(SIGNATURE))]))
    secret(folder / SECRET)
    table = read_table(Spec(target="y", loss="logistic"), file)
    Told(folder).once("here", table, 1)
    (rows,) = (folder / "rows").iterdir()

    def sum_at(folder: Path) -> object:
        kept = KeptSums(folder / "path", "tables")
        return kept.sum_at(*kept.place(question))

    readers = {
        "state under masks": ("state-1.sealed", lambda at: States(at).recall(1, first)),
        "sum of a path": ("path/00000001.sealed", sum_at),
        "step under masks": ("steps/00000001.sealed", lambda at: Kept(at / "steps")[:]),
        "secret": (SECRET, lambda at: secret(at / SECRET)),
        "rows told of": (f"rows/{rows.name}", lambda at: Told(at).before()),
    }
    return {
        name: Target(folder, (file,), partial(reading, read), may_lack=name != "state under masks")
        for name, (file, read) in readers.items()
    }


def reading(read: Callable[[Path], object], folder: Path) -> Outcome:
    return attempt(lambda: read(folder))


def of_run(home: Path) -> dict[str, Target]:
    """A server's program that goes on from its checkpoint."""
    field = Field(home / "running", rounds=2, tol=1e-9)
    field.run("results")

    def resumed(folder: Path) -> Outcome:
        def go_on():
            training = field.life(folder)
            return training.run().model.coef.tolist()

        return attempt(go_on)

    found = ("checkpoint.npz", "manifest.json")
    return {"server": Target(home / "running" / "results", found, resumed)}


class Heard(logging.Handler):
    """What is logged, which is where a site says what it does not tell the server."""

    def __init__(self):
        super().__init__()
        self.said: list[str] = []

    def emit(self, record):
        self.said.append(record.getMessage())


def attempt(work: Callable[[], object]) -> Outcome:
    """A part of a command as if it were one: a refusal is exit code 2."""
    log, heard = logging.getLogger("proxfl.deploy"), Heard()
    log.addHandler(heard)
    try:
        return Outcome(0, repr(work()), "")
    except (ValueError, BadMessage) as error:
        return Outcome(2, "", " ".join([str(error), *heard.said]) + "\n")
    finally:
        log.removeHandler(heard)


def starting(*args, **options):
    raise Stopped


def run_cases(targets: dict[str, Target], folder: Path, seeds: range) -> Counter[str]:
    """Each seed a case; how often a command came to which end, with the digest forged or not."""
    patches = [
        mock.patch.object(launch, "healthy", lambda *args: False),
        mock.patch.object(serve, "start", starting),
        mock.patch.object(join, "start", starting),
        mock.patch("proxfl.deploy.ops.services.runs", lambda pid: False),
    ]
    ends: Counter[str] = Counter()
    wrong: list[tuple] = []
    logging.getLogger("proxfl").addHandler(logging.NullHandler())
    with patches[0], patches[1], patches[2], patches[3]:
        sound = {name: copied(target, folder)[1] for name, target in targets.items()}
        for seed in seeds:
            rng = random.Random(seed)
            name = rng.choice(list(targets))
            target, file = targets[name], rng.choice(targets[name].files)
            try:
                how, outcome = copied(target, folder, file, rng)
            except Exception as error:
                wrong.append((seed, name, file, traceback.format_exception(error)[-3:]))
                continue
            same = outcome._replace(err="") == sound[name]._replace(err="")
            where = outcome.err if outcome.code == 2 else outcome.out
            told = outcome.code == 2 or name == "federate status"  # which goes on to say the rest
            named = told and (target.called or Path(file).stem) in where
            one_line = outcome.err.count("\n") <= 1 or outcome.code != 2
            lacking = target.may_lack and how in ("gone", "a link to itself")
            free = how.startswith("forged") or not target.digested or lacking
            if outcome.code not in SOUND or not one_line or not (same or named or free):
                wrong.append((seed, name, file, how, outcome))
            kind = ", forged" * how.startswith("forged")
            ends[f"{name}{kind}: {'as before' if same else 'refused' if named else 'other'}"] += 1
    assert not wrong, "\n".join(map(str, wrong[:20]))
    return ends


def copied(target: Target, folder: Path, file: str = "", rng=None) -> tuple[str, Outcome]:
    """What a command does with a copy of the folder, in which a file may be damaged."""
    case = folder / "case"
    shutil.copytree(target.folder, case)
    try:
        how = mutations.damage(case / file, rng) if file else ""
        return how, target.read(case)
    finally:
        shutil.rmtree(case)


def test_damaged_files_are_refused_by_name(targets, tmp_path):
    run_cases(targets, tmp_path, range(300))


def test_damaged_files_of_masked_runs_and_paths_are_too(kept, tmp_path):
    run_cases(kept, tmp_path, range(300))


@pytest.mark.parametrize("seed", [3258, 6805], ids=["losses overflow", "no server runs"])
def test_what_ten_thousand_damaged_files_have_found(seed, targets, tmp_path):
    run_cases(targets, tmp_path, range(seed, seed + 1))


@pytest.mark.soak
def test_ten_thousand_damaged_files_are_refused_by_name(targets, tmp_path):
    run = lambda seeds: run_cases(targets, tmp_path, seeds)
    soak("damage", range(1_000, 11_000), 250, run)


@pytest.mark.soak
def test_so_are_as_many_of_masked_runs_and_paths(kept, tmp_path):
    soak("damage_kept", range(10_000), 1_000, lambda seeds: run_cases(kept, tmp_path, seeds))
