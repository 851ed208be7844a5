"""Whatever is typed: a documented exit code, one sentence, and nothing written if that is 2.

Every case is a seed: a command with sound arguments, of which one or two are made odd. Work that is
long by nature (league, sweep, the paper's experiments, processes) is replaced by nothing; so what
is tested is all that comes before it.
"""

import argparse
import math
import os
import random
import shutil
import signal
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from unittest import mock

import pandas as pd
import pytest

from proxfl.cli import main as cli
from proxfl.cli.commands import federate, steps
from proxfl.cli.commands.federate import demo, join, keys, serve
from proxfl.data import mnist
from proxfl.deploy.ops.home import Home, write_json
from proxfl.deploy.ops.keys import make_site_keys
from proxfl.deploy.ops.stopping import Stopped
from proxfl.deploy.transport.flower import launch
from proxfl.research.league import search, standings
from proxfl.research.reproduce import targets
from tests import hostile
from tests.cli.test_damage import of_office, status_of, write_sites
from tests.cli.world import proxfl
from tests.outcomes import soak

CODES = (0, 2, 3, 130)
MOST_SECONDS = 10.0  # of a processor, for a case
HUNG_SECONDS = 600  # of a clock: far above what a busy machine makes of that
ODD = (
    "", " ", "0", "-0", "-1", "1", "2", "1.5", "1e-320", "1e-300", "1e300", "1e400", "-1e400",
    "nan", "inf", "-inf", "9" * 11, "9" * 20, "9" * 400, "9" * 5000, "1_000", "0x10", "٣", "½",
    "true", "None", "[]", "{}", "--", "-", "--help=x", "a" * 300, "a" * 5000, "é", "\x1b[31m",
    "[/red]", "$x_{$", "%s", "{0}", "a\nb", "a\0b", ".", "~", "*",
    "data", "data/north.csv", "nowhere", "nowhere/deep/x", "y", "a", "1:2:3", "1:2:9999999999999",
    "2:1:3", "0:1:3", "nan:1:2", "1:inf:2", "1:2", ":", ":1", "x:", "x:0", "x:99999", "x:9092",
    "999.1.1.1", "é.example", "127.0.0.1:9", "[::1]:9", "::1", "logistic", "l1-least-squares",
)  # fmt: skip
TRAIN = "data/north.csv data/south.csv --target y --loss logistic --l1 0.1 --rounds 3"
SOUND = {
    "train": f"{TRAIN} --out out/new",
    "train --resume": "--resume done --rounds 3",
    "path": "data/north.csv data/south.csv --target y --loss logistic --points 2 --folds 2 "
    "--rounds 3 --out out/new",
    "predict": "done data/north.csv --proba --out out/p.csv",
    "inspect": "done",
    "report": "done",
    "evaluate": "done data/north.csv --threshold 0.4 --draws 3 --seed 1",
    "describe": "data/north.csv data/south.csv --smallest-cell 3 --out out/one.csv",
    "schema": "data/north.csv data/south.csv --out out/schema.toml",
    "data": "mnist --cache out/cache --source data",
    "sweep": "--problem l1-least-squares --eta 1:2:2 --tau 1 --rounds 2 --out out/new",
    "steps": "--problem l1-least-squares --local-steps 2 --eta 0.1",
    "compare": "--problem l1-least-squares --method FedAvg --rounds 2 --draws 1 --out out/new",
    "reproduce": "fig1 --quick --out out/new",
    "demo": "--out out/new",
    "federate init": "out/home --sites north south --target y --loss logistic --features a b "
    "--host fed.example.org --name heart",
    "federate serve": "home --host 127.0.0.1 --port 9092",
    "federate join": "home --data data/north.csv --server 127.0.0.1:9 --site north",
    "federate run": "home --rounds 3 --wait 1 --deadline 2 --out out/new",
    "federate resume": "home --rounds 3",
    "federate status": "home",
    "federate demo": "--sites 2 --out out/new",
    "federate study": "home another --target y --loss logistic --l1 0.1 --features a b",
    "federate path": "home which --target y --loss logistic --points 2 --folds 2 --wait 1 "
    "--out out/new",
    "federate evaluate": "home judged --model done --draws 3 --threshold 0.4 --out out/new",
    "federate describe": "home one --schema schema.toml --smallest-cell 3 --out out/new",
    "federate studies": "office --site north",
    "federate approve": "office field --site north",
    "federate members": "office --site north --compared south west",
    "federate audit": "office --site north --out out/audit.html",
    "federate keys list": "home",
    "federate keys add": "home north north.pub",
    "federate keys remove": "home south",
    "federate keys renew": "home --host fed.example.org",
    "federate keys make": "home north",
    "federate keys rotate": "home north",
}
MORE = {  # options that take a value, to be added
    "train": "--l2 --batch --cohort --eta --eta-g --tol --seed --local-steps --box --simplex "
    "--nuclear --group --group-weight --feature-weights --huber-delta --missing --algorithm "
    "--weights --config --features --exclude --schema --tensorboard",
    "path": "--sweep --ratio --by --rule --folds --points --seed --tol --config --l2",
    "federate run": "--quorum --tol",
    "federate resume": "--quorum --tol --wait --deadline",
    "federate path": "--sweep --ratio --by --rule --deadline --seed --tol --config --l2",
    "federate study": "--config --schema --dp-clip --dp-noise --batch --weights --inference",
    "federate audit": "--head",
    "federate keys renew": "--authority-key",
}


def commands() -> dict[str, list[str]]:
    return {name: [*name.split(), *told.split()] for name, told in SOUND.items()} | {
        "train --resume": ["train", *SOUND["train --resume"].split()]
    }


def case(seed: int) -> list[str]:
    """A command of which a word or two are odd, gone, doubled, or more than asked for."""
    rng = random.Random(seed)
    name = rng.choice([*SOUND, "train", "train", "path"])
    words = commands()[name]
    first = len(name.split()) if words[0] == "federate" else 1
    # No slash: a path that leads out of the folder of the tests would be written to.
    values = (*ODD, *(name.replace("/", "|") for name in hostile.names(seed, 3)))
    for _ in range(rng.choice((1, 1, 2))):
        at = rng.randrange(first, len(words) + 1)
        kind = rng.choice(("replace", "replace", "replace", "insert", "drop", "double", "option"))
        if kind == "option" and name in MORE:
            words = [*words, rng.choice(MORE[name].split()), rng.choice(values)]
        elif kind == "replace" and at < len(words):
            words[at] = rng.choice(values)
        elif kind == "drop" and at < len(words):
            del words[at]
        elif kind == "double" and at < len(words):
            words.insert(at, words[at])
        else:
            words.insert(at, rng.choice(values))
    return words


def stopped(*args, **options):
    raise Stopped


def worked(*args, **options):
    raise KeyboardInterrupt  # far enough: an interruption, with its own exit code


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with data, a result and a federation, in which nothing may change on exit code 2."""
    folder = tmp_path_factory.mktemp("arguments")
    before = Path.cwd()
    os.chdir(folder)
    files = write_sites(folder / "data")
    base = ["train", *files, "--target=y", "--loss=logistic", "--l1=0.1"]
    assert proxfl(*base, "--out", "done").code == 0
    assert (
        proxfl(*base[:1], *base[3:], *["data/north.csv", "data/south.csv"], "--rounds=3").code < 4
    )
    home = "home --sites north south --target y --loss logistic"
    assert proxfl("federate", "init", *home.split()).code == 0
    address = {"sites": "127.0.0.1:9092", "inside": "127.0.0.1:1", "secure": False, "pid": 1}
    write_json(Home(folder / "home").address, address)
    write_json(Home(folder / "home").status, status_of("stopped") | {"options": {"study": "home"}})
    north, south = (make_site_keys(folder / "keys", name).public for name in ("north", "south"))
    north.rename("north.pub")
    south.rename(Home(folder / "home").public_keys / south.name)
    assert proxfl("schema", *files, "--out", "schema.toml").code == 0
    of_office(folder)
    shutil.copytree(folder, copy_of(folder))
    yield folder
    os.chdir(before)


class Hung(BaseException):
    """A case that does not end."""


@contextmanager
def watched() -> Iterator[None]:
    """A case that waits for ever takes no time of a processor: an alarm ends it."""

    def ring(*args):
        raise Hung

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(HUNG_SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def run_cases(
    place: Path, cases: Mapping[int | str, list[str]], most: float = math.inf
) -> Counter[str]:
    """How the cases ended, by command and exit code, and how long the longest took.

    `most` is what a case may take, in seconds of a processor.
    """
    ends, wrong, longest = Counter(), [], "longest case in seconds of a processor"
    with ExitStack() as stack:
        for module, name, instead in (
            (launch, "healthy", lambda *args: True),
            (launch, "submit", worked),
            (serve, "start", stopped),
            (join, "start", stopped),
            (demo, "deployed", worked),
            (search, "search", worked),
            (standings, "play", worked),
            (targets, "reproduce", worked),
            (steps, "measure", worked),
            (mnist, "get", worked),
        ):
            stack.enter_context(mock.patch.object(module, name, instead))
        for seed, words in cases.items():
            before = listing(place)
            begun = time.process_time()
            try:
                with watched():
                    outcome = proxfl(*words)
            except BaseException as error:
                wrong.append((seed, words, repr(error)[:300]))
                continue
            taken = time.process_time() - begun
            ends[longest] = max(ends[longest], round(taken, 1))
            if taken > most:
                wrong.append((seed, words, f"{taken:.1f} s of a processor"))
            after = listing(place)
            changed = {path for path in {*before, *after} if before.get(path) != after.get(path)}
            if complaint := fault(outcome, changed):
                wrong.append((seed, [word[:60] for word in words], complaint, outcome.err[-300:]))
            ends[f"{command(words)}: {outcome.code}"] += 1
            for path in sorted(changed, reverse=True):
                restore(place, path, path in before)
    assert not wrong, "\n".join(map(str, wrong[:25]))
    return ends


def command(words: list[str]) -> str:
    """What the words ask for, of those that are known."""
    known = [name for name in SOUND if words[: len(name.split())] == name.split()]
    return max(known, key=len, default=words[0])


def fault(outcome, changed: set[Path]) -> str:
    if outcome.code not in CODES:
        return f"exit code {outcome.code}"
    if outcome.code == 2 and changed:
        return f"written: {sorted(map(str, changed))[:5]}"
    if outcome.code == 2 and (outcome.err.count("\n") != 1 or not hostile.visible(outcome.err)):
        return "not one sentence"
    return "" if hostile.visible(outcome.err) else "odd characters"


def listing(place: Path) -> dict[Path, tuple[int, int]]:
    """What is there, and since when; a folder in which a file came and went is as it was."""
    known = lambda path: (path.lstat().st_mtime_ns, path.lstat().st_size)
    return {path: (0, 0) if path.is_dir() else known(path) for path in place.rglob("*")}


def restore(place: Path, path: Path, was_there: bool) -> None:
    if was_there:
        shutil.copy2(copy_of(place) / path.relative_to(place), path)
    elif path.is_dir() and not path.is_symlink():
        path.rmdir()
    else:
        path.unlink()


def copy_of(place: Path) -> Path:
    return place.with_name(f"{place.name}-copy")


@pytest.mark.filterwarnings("default")
def test_odd_arguments_are_refused_in_a_sentence(place):
    run_cases(place, {seed: case(seed) for seed in range(200)})


@pytest.mark.filterwarnings("default")
def test_what_is_sound_is_not_refused(place):
    """Or what comes after the first refusal would not be tried."""
    ends = run_cases(place, {name: commands()[name] for name in SOUND if "federate" in name})
    assert [end for end in ends if end.endswith(": 2")] == []


@pytest.mark.soak
@pytest.mark.filterwarnings("default")
def test_five_thousand_odd_arguments_are_refused_in_a_sentence(place):
    run = lambda seeds: run_cases(place, {seed: case(seed) for seed in seeds}, MOST_SECONDS)
    soak("arguments", range(10_000, 15_000), 50, run)


FIRST_EDITION = {
    "seed of 20 digits": f"{TRAIN} --seed {'9' * 20}",
    "endless rounds": f"{TRAIN[:-1]}{'9' * 20}",
    "endless local steps": f"{TRAIN} --local-steps {'9' * 20}",
    "eta of nearly nothing": f"{TRAIN} --eta 1e-320",
    "huge values": "huge.csv --target y --loss logistic",
    "index of 11 digits": "eleven.svm --target y --loss logistic",
    "index of 90 million": "million.svm --target y --loss logistic",
    "a feature twice": f"{TRAIN} --features a a",
    "the target a feature": f"{TRAIN} --features a y",
}
OTHERS = {
    "points": "path data --target y --loss logistic --points 99999999999999",
    "grid": "sweep --eta 1:2:9999999999999",
    "no server": "federate join home --data data/north.csv --site north --server :",
    "host not ASCII": "federate init new --sites a --target y --loss logistic --host é.example",
    "any host": "federate init new --sites a --target y --loss logistic --host *",
    "no address": "federate init new --sites a --target y --loss logistic --host 999.1.1.1",
    "features twice": "federate init new --sites a --target y --loss logistic --features p p",
    "target among them": "federate init new --sites a --target y --loss logistic --features p y",
}


@pytest.mark.parametrize("name", [*FIRST_EDITION, *OTHERS])
def test_what_the_first_edition_took_or_fell_over_is_refused(place, name):
    told = OTHERS.get(name) or f"train {FIRST_EDITION[name]} --out out/new/deep"
    table = pd.read_csv("data/north.csv")
    table.assign(a=1e300 * table["a"]).to_csv("huge.csv", index=False)
    Path("eleven.svm").write_text("1 1:0.5 12345678901:2\n0 1:2\n")
    Path("million.svm").write_text("1 1:0.5 90000000:2\n0 1:2\n")
    before = listing(place)
    outcome = proxfl(*told.split())
    assert outcome.code == 2 and outcome.err.count("\n") == 1, outcome
    assert listing(place) == before


@pytest.mark.parametrize("odd", [("--rounds", "x"), ("--quorum", "3")])
def test_a_run_that_is_refused_says_that_alone(place, monkeypatch, odd):
    """Also where one before it was not finished."""
    monkeypatch.setattr(launch, "healthy", lambda *args: True)
    outcome = proxfl("federate", "run", "home", *odd)
    assert outcome.code == 2 and outcome.err.count("\n") == 1, outcome


@pytest.mark.parametrize("out", [".", "a" * 300, "data/north.csv"])
def test_where_nothing_can_be_written_nothing_is_said_but_that(place, out):
    before = listing(place)
    outcome = proxfl("predict", "done", "data/north.csv", "--out", out)
    assert outcome.code == 2 and outcome.err.count("\n") == 1, outcome
    assert listing(place) == before


def test_no_host_is_no_host(place):
    outcome = proxfl(*OTHERS["any host"].split()[:-1], "")
    assert outcome.code == 2 and "needs the name or the address of a machine" in outcome.err


def test_every_command_is_among_the_cases():
    known = [name.split() for name in SOUND]
    assert set(cli.COMMANDS) == {words[0] for words in known}
    assert set(federate.ACTIONS) == {words[1] for words in known if words[0] == "federate"}
    assert set(keys.ACTIONS) == {words[2] for words in known if words[1:2] == ["keys"]}
    assert isinstance(cli.parser(), argparse.ArgumentParser)
