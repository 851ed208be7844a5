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
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import pandas as pd
import pytest

from proxfl.cli.commands.federate import join, serve
from proxfl.deploy.masking.conductor import SummedStep
from proxfl.deploy.masking.journal import Journal
from proxfl.deploy.masking.messages import SIGNATURE
from proxfl.deploy.masking.replica import Question
from proxfl.deploy.masking.reply import Reply
from proxfl.deploy.masking.states import States
from proxfl.deploy.ops import home as homes
from proxfl.deploy.ops.keys import make_server_keys, make_site_keys
from proxfl.deploy.ops.stopping import Stopped
from proxfl.deploy.protocol import wire
from proxfl.deploy.protocol.membership import Membership
from proxfl.deploy.protocol.study import make_study, read_table
from proxfl.deploy.protocol.wire import BadMessage, Header
from proxfl.deploy.server.epoch import next_epoch
from proxfl.deploy.server.path import KeptSums
from proxfl.deploy.server.program import result_of
from proxfl.deploy.site.confirmed import Confirmed
from proxfl.deploy.site.noise import secret
from proxfl.deploy.site.office import SECRET, Office
from proxfl.deploy.site.policy_file import write_policy
from proxfl.deploy.site.store import Store
from proxfl.deploy.site.told_rows import ToldRows
from proxfl.deploy.site.training import TrainingSite
from proxfl.deploy.transport.flower import launch
from proxfl.errors import INTERRUPTED
from proxfl.report import description
from proxfl.storage.files import write_bytes, write_text
from proxfl.tables.describe import describe
from proxfl.tables.propose import draft, schema_of
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
    code: int = 0  # with which the command ends if nothing is damaged
    digested: bool = True  # else another content may be as sound as the first
    may_lack: bool = False  # whether a file that is not there is as one not written yet
    called: str = ""  # how a sentence names the file, if not by its name
    tells: int = 2  # the exit code with which it says so


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
    found["resume"] = Target(home / "open", ("manifest.json", "checkpoint.npz"), more, code=3)
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
    homes.write_json(at.registered, {"keys": {"ab" * 16: {"site": "north", "node": "1"}}})
    for site in sites:
        public = make_site_keys(home / "keys", site).public
        write_bytes(at.public_keys / public.name, public.read_bytes())
    homes.write_json(at.status, status_of("finished"))
    found = ("address.json", "registered.json", "status.json")
    read = tuple(f"server/{name}" for name in found)
    run = lambda action, *more: lambda folder: proxfl("federate", action, folder, *more)
    plan, join = ("federation.toml",), ("--data", files[0], "--server", "127.0.0.1:9")
    began: dict[str, Any] = {"code": INTERRUPTED}
    lacks, alike = {"may_lack": True}, {"digested": False}
    return {
        "federate status": Target(folder, (read[0], read[2]), run("status"), **lacks, tells=0),
        "federate run": Target(folder, (read[0], read[2]), awake(run("run")), **began, **lacks),
        "federate serve": Target(folder, read[1:2], run("serve"), **began, **lacks),
        "federate status of a plan": Target(folder, plan, run("status"), **alike),
        "federate join": Target(folder, plan, run("join", *join), **began, **alike),
    }


def status_of(state: str) -> dict[str, Any]:
    """How a run stands."""
    status = {"state": state, "run": "1", "pid": 1, "out": "results", "sites": ["north"]}
    status |= {"present": [], "options": {}, "round": 3, "rounds": 9, "optimality": 1e-3}
    status |= {"tolerance": 1e-6, "left": None, "answered": 1, "away": [], "bytes_up": 10}
    return status | {"bytes_down": 10, "faults": 0}


def awake(command: Callable[[Path], Outcome]) -> Callable[[Path], Outcome]:
    """A command that finds a server, and is interrupted as it gives a run to it."""

    def run(folder: Path) -> Outcome:
        with (
            mock.patch.object(launch, "healthy", lambda *args: True),
            mock.patch.object(launch, "submit", interrupted),
        ):
            return command(folder)

    return run


def interrupted(*args, **options):
    raise KeyboardInterrupt


def of_site(home: Path, files: list[Path]) -> dict[str, Target]:
    """What a site reads when it starts, and when it is asked."""
    field = Field(home / "field", rounds=2, tol=1e-9)
    field.run()
    table = read_table(field.spec, field.files[0])
    office = lambda folder: Office(folder, field.policy)

    def experiment(folder: Path) -> Outcome:
        return attempt(
            lambda: TrainingSite(field.study, NAMES[0], table, office(folder)).experiment()
        )

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
    Journal(folder / "steps").add(SummedStep(words, [Reply(0, b"masked", bytes(SIGNATURE))]))
    secret(folder / SECRET)
    spec = Spec(target="y", loss="logistic")
    ToldRows(folder).once("here", read_table(spec, file), spec, 1)
    rows, *_ = sorted((folder / "rows").iterdir())

    def sum_at(folder: Path) -> object:
        kept = KeptSums(folder / "path", "tables")
        return kept.sum_at(*kept.place(question))

    readers = {
        "state under masks": ("state-1.sealed", lambda at: States(at).recall(1, first)),
        "sum of a path": ("path/00000001.sealed", sum_at),
        "step under masks": ("steps/00000001.sealed", lambda at: Journal(at / "steps")[:]),
        "secret": (SECRET, lambda at: secret(at / SECRET)),
        "rows told of": (f"rows/{rows.name}", lambda at: ToldRows(at).before()),
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
            return result_of(training).model.coef.tolist()

        return attempt(go_on)

    found = ("checkpoint.npz", "manifest.json")
    return {"server": Target(home / "running" / "results", found, resumed)}


@pytest.fixture(scope="module")
def federation(tmp_path_factory) -> dict[str, Target]:
    """What people write for a federation, and what a site and a server keep of studies."""
    home = tmp_path_factory.mktemp("federation")
    files = write_sites(home / "data")
    return of_studies(home, files) | of_office(home) | of_summaries(home, files)


def of_studies(home: Path, files: list[Path]) -> dict[str, Target]:
    """Texts of a person, keys, and the count of lives, at a server that runs."""
    folder, sites = home / "server", ("north", "south")
    at = homes.Home(folder)
    Membership("heart", sites).write(folder)
    make_study("heart", "heart", sites, Spec(target="y", loss="logistic")).write(at.study("heart"))
    make_server_keys(at.server_keys)
    address = {"sites": "0.0.0.0:9092", "inside": "127.0.0.1:1", "secure": True, "pid": 1}
    homes.write_json(at.address, address)
    for site in sites:
        public = make_site_keys(home / "keys", site).public
        write_bytes(at.public_keys / public.name, public.read_bytes())
    assert next_epoch(at.epoch) == 1
    site = folder / "site-north"
    site.mkdir()
    write_policy(site)
    write_text(folder / "options.toml", 'target = "y"\nloss = "logistic"\nfeatures = ["a", "b"]\n')
    assert proxfl("schema", *files, "--out", folder / "schema.toml").code == 0
    base = ["train", *files, "--target=y", "--loss=logistic", "--l1=0.02", "--tol=1e-2"]
    assert proxfl(*base, "--out", home / "done").code == 0
    write_bytes(folder / "model.json", (home / "done" / "model.json").read_bytes())
    join = ("join", "--data", files[0], "--server", "127.0.0.1:9")
    run = lambda what, *more: lambda folder: proxfl("federate", what, folder, *more)
    asks = lambda what, option, file: awake(
        lambda folder: proxfl("federate", what, folder, "new", option, folder / file)
    )
    began: dict[str, Any] = {"code": INTERRUPTED}
    alike = {"digested": False}
    study = ("studies/heart.toml",)
    return {
        "federate run of a study": Target(folder, study, awake(run("run")), **began, **alike),
        "federate studies": Target(folder, study, run("studies"), **alike),
        "epoch": Target(folder, ("server/epoch",), awake(run("run")), **began, **alike),
        "key of a site": Target(
            folder, ("sites/north.pub",), awake(run("run")), **began, called="site north"
        ),
        "federate keys list": Target(
            folder,
            ("server/keys/ca.pem", "server/keys/server.pem"),
            lambda folder: proxfl("federate", "keys", "list", folder),
            **alike,
        ),
        "federate join by a policy": Target(
            folder, ("site-north/policy.toml",), run(*join), **began, **alike
        ),
        "train --config": Target(
            folder,
            ("options.toml",),
            lambda at: proxfl("train", *files, "--config", at / "options.toml", "--rounds=1"),
            code=3,
            **alike,
        ),
        "federate study --config": Target(
            folder,
            ("options.toml",),
            lambda at: run("study", "new", "--config", at / "options.toml")(at),
            **alike,
        ),
        "federate describe --schema": Target(
            folder, ("schema.toml",), asks("describe", "--schema", "schema.toml"), **began, **alike
        ),
        "federate evaluate --model": Target(
            folder, ("model.json",), asks("evaluate", "--model", "model.json"), **began
        ),
    }


def of_office(home: Path) -> dict[str, Target]:
    """What a site keeps of studies and members, by the commands that tell it."""
    field = Field(home / "field", rounds=2, tol=1e-9)
    field.run()
    field.confirm()
    folder, study = home / "office", f"studies/{field.study.id}"
    write_policy(folder / "site-north")
    shutil.copytree(field.folder / NAMES[0], folder / "site-north", dirs_exist_ok=True)
    confirmed = Confirmed(folder / "site-north")
    (held,) = confirmed.lists().values()
    confirmed.write({confirmed.read(held).digest.hex(): held | {"compared": []}})
    approved = home / "approved"
    shutil.copytree(folder, approved)
    Office(approved / "site-north").approve(field.study)
    log = ("site-north/audit.jsonl", "site-north/audit.head")
    text = (f"site-north/{study}/study.toml",)
    at = lambda what, *more: lambda folder: proxfl("federate", what, folder, *more, "--site=north")

    def asked(folder: Path) -> Outcome:
        return attempt(lambda: Office(folder / "site-north").asked(field.study.id))

    return {
        "federate audit": Target(folder, log, at("audit"), tells=1),
        "federate studies --site": Target(folder, log, at("studies")),
        "federate studies --site of a text": Target(folder, text, at("studies"), may_lack=True),
        "federate approve": Target(folder, text, at("approve", "field")),
        "approval": Target(approved, (f"site-north/{study}/approved.json",), asked, may_lack=True),
        "federate members": Target(folder, ("site-north/members.json",), at("members")),
        "federate members --compared": Target(
            folder, ("site-north/members.json",), at("members", "--compared", *NAMES[1:])
        ),
    }


def of_summaries(home: Path, files: list[Path]) -> dict[str, Target]:
    """Results that are no model, as `federate resume` shows them again."""
    folder, status = home / "summaries", status_of("finished")
    how = ["--target=y", "--loss=logistic", "--points=2", "--folds=2", "--tol=1e-2"]
    assert proxfl("path", *files, *how, "--out", folder / "path").code == 0
    judged = ("evaluate", home / "done", *files, "--draws=0", "--out", folder / "evaluation")
    assert proxfl(*judged).code == 0
    found = describe(files, schema_of(draft(files)), 1)
    about = {"smallest_cell": 1, "masked": False, "command": "proxfl federate run"}
    description.write(folder / "description", found, about)

    def again(folder: Path) -> Outcome:
        homes.write_json(homes.Home(folder).status, status | {"out": str(folder)})
        return proxfl("federate", "resume", folder)

    return {
        f"federate resume of {name}": Target(folder / what, (f"{what}.json",), again, may_lack=True)
        for name, what in (
            ("a path", "path"),
            ("an evaluation", "evaluation"),
            ("a description", "description"),
        )
    }


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
        refused = {n: one for n, one in sound.items() if one.code != targets[n].code}
        assert not refused, refused  # or no damage could be told
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
            told = outcome.code in (2, target.tells)
            named = told and (target.called or Path(file).stem) in where
            one_line = outcome.err.count("\n") <= 1 or outcome.code != 2
            lacking = target.may_lack and how in ("gone", "a link to itself")
            free = how.startswith("forged") or not target.digested or lacking
            if (
                outcome.code not in (*SOUND, target.tells)
                or not one_line
                or not (same or named or free)
            ):
                wrong.append((seed, name, file, how, outcome))
            kind = ", forged" * how.startswith("forged")
            ends[f"{name}{kind}: {'as before' if same else 'refused' if named else 'other'}"] += 1
    assert not wrong, "\n".join(map(str, wrong[:20]))
    return ends


def all_refuse(targets: dict[str, Target], folder: Path) -> None:
    """Some hundred cases, by which every target has refused something."""
    ends = run_cases(targets, folder, range(300))
    blind = [name for name in targets if not ends[f"{name}: refused"]]
    assert not blind, f"Nothing was refused by {blind}."


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
    all_refuse(targets, tmp_path)


def test_damaged_files_of_masked_runs_and_paths_are_too(kept, tmp_path):
    all_refuse(kept, tmp_path)


def test_damaged_files_of_studies_and_sites_are_too(federation, tmp_path):
    all_refuse(federation, tmp_path)


def test_a_model_of_huge_coefficients_is_no_traceback(targets, tmp_path):
    run_cases({"evaluate": targets["evaluate"]}, tmp_path, range(3258, 3259))


def test_a_run_that_no_server_can_take_says_only_that(targets, tmp_path):
    shutil.copytree(targets["federate run"].folder, tmp_path / "home")
    homes.write_json(homes.Home(tmp_path / "home").status, status_of("stopped"))
    outcome = proxfl("federate", "run", tmp_path / "home")
    assert outcome.code == 2 and outcome.err.count("\n") == 1 and "does not run" in outcome.err


@pytest.mark.soak
def test_ten_thousand_damaged_files_are_refused_by_name(targets, tmp_path):
    run = lambda seeds: run_cases(targets, tmp_path, seeds)
    soak("damage", range(1_000, 11_000), 250, run)


@pytest.mark.soak
def test_so_are_as_many_of_masked_runs_and_paths(kept, tmp_path):
    soak("damage_kept", range(10_000), 1_000, lambda seeds: run_cases(kept, tmp_path, seeds))


@pytest.mark.soak
def test_so_are_as_many_of_studies_and_sites(federation, tmp_path):
    run = lambda seeds: run_cases(federation, tmp_path, seeds)
    soak("damage_federation", range(10_000), 250, run)
