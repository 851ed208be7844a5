"""`python -m benchmarks.deploy [WHAT ...]`: where the seconds and bytes of an exchange go.

Three sites on this machine under TLS and keys, as `proxfl federate` starts them: unmasked and
masked, and Flower alone, in turn; how long each hop takes; what an idle federation takes. Writes
results/bench/deploy.json.
"""

import argparse
import json
import os
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import alone, idle
from benchmarks.hops import measured as hops_of
from benchmarks.hops import traced
from benchmarks.side import machine
from proxfl.cli.commands.federate import demo, init, join, serve
from proxfl.cli.commands.federate import run as running
from proxfl.cli.commands.federate.watching import follow, supervised
from proxfl.deploy.ops.home import Home
from proxfl.deploy.ops.keys import make_site_keys
from proxfl.deploy.ops.permissions import private_folder
from proxfl.deploy.ops.services import Supervisor
from proxfl.deploy.ops.stopping import stoppable
from proxfl.deploy.site.policy_file import write_policy
from proxfl.deploy.transport.flower import launch
from proxfl.storage.files import write_text
from proxfl.train.folder import read
from proxfl.train.spec import Spec

SITES = ("north", "south", "west")
ROUNDS, ROWS, TIMES = 20, 50, 1
LOOSE: Any = {
    "unmasked": True,
    "count": 0,
    "parameters_per_row": 1e4,
    "questions_per_row": 10.0,
    "share": 0.0,
}
PROBLEM: Any = {
    "target": "y",
    "loss": "logistic",
    "l1": 0.05,
    "precondition": False,
    "tol": 1e-15,
    "rounds": ROUNDS,
    "algorithm": "decoupled",
}
WHAT = "an exchange over three real sites on one machine, with TLS and keys"
NOTES = (
    "Seconds are medians over the exchanges in the middle of a run of Algorithm 1, each of them a "
    "round, and over the runs of a kind, which take turns. A hop ends with the last of the sites. "
    "Bytes are means over all messages. The load is that of the machine, which others used too."
)
PATH = Path("results/bench/deploy.json")


def write_data(folder: Path, dimension: int) -> list[Path]:
    rng, files = np.random.default_rng(0), []
    folder.mkdir()
    for site in SITES:
        X = rng.normal(size=(ROWS, dimension))
        y = np.sign(X[:, :5].sum(axis=1) + rng.normal(size=ROWS))
        files.append(folder / f"{site}.npz")
        np.savez(files[-1], X=X, y=y)
    return files


def undisturbed(port: int, server: Supervisor) -> AbstractContextManager[Any]:
    return nullcontext()


def measure(
    dimension: int,
    meanwhile: Callable[[int, Supervisor], AbstractContextManager[Any]] = undisturbed,
    masked: bool = False,
) -> dict[str, Any]:
    """A deployment from its first process to its last; `meanwhile` is what goes on at its port."""
    with tempfile.TemporaryDirectory(prefix="proxfl-bench-") as made:
        files, home = write_data(Path(made) / "data", dimension), Home(Path(made) / "federation")
        init.write(home.folder, "bench", list(SITES), Spec(**PROBLEM), unmasked=not masked)
        demo.introduce(home, list(SITES))
        port, supervisors = launch.free_port(), []
        with traced(Path(made) / "hops") as hops, supervised(supervisors) as look:
            supervisors.append(serve.start(home, "127.0.0.1", port, secure=True))
            for site, file in zip(SITES, files, strict=True):
                public = make_site_keys(home.site(site) / "keys", site).public
                write_text(home.public_keys / public.name, public.read_text())
                launch.register(home.server, public, site)
                write_policy(private_folder(home.site(site)), **LOOSE)
                supervisors.append(join.start(home, site, file, f"127.0.0.1:{port}", True))
            parser = argparse.ArgumentParser()
            running.shared_arguments(parser)
            out, given = home.folder / "results", parser.parse_args([])
            options = running.options_of(home, out, given, {"study": "bench"})
            with meanwhile(port, supervisors[0]):
                assert follow(home, running.submit(home, options), look)["state"] == "finished"
                load = os.getloadavg()[0]
        about = {"by": "proxfl, masked" if masked else "proxfl", "parameters": dimension}
        took = hops_of(hops)
        return about | took | sizes(read(out).manifest["deployment"]) | {"load": load}


def sizes(told: Any) -> dict[str, float]:
    """Bytes of a message, ours in it and all of it."""
    exchanges = told["traffic"]["up"]["messages"]
    each = lambda way, what: told["traffic"][way][what] / exchanges
    return {
        f"{name} {way} B": each(way, key)
        for way in ("up", "down")
        for name, key in (("payload", "payload"), ("message", "wire"))
    }


def compared() -> dict[str, Any]:
    """Each kind in turn, so that all see the same machine; the run with the median time of each."""
    kinds = {
        "unmasked": lambda: measure(20),
        "masked": lambda: measure(20, masked=True),
        "Flower alone": lambda: {"by": "Flower alone", **alone.measure(len(SITES), 20)},
    }
    found: dict[str, list[Any]] = {name: [] for name in kinds}
    for _ in range(TIMES):
        for name, run in kinds.items():
            found[name].append(run())
            print(json.dumps({k: v for k, v in found[name][-1].items() if k != "hops"}), flush=True)
    middle = {
        name: sorted(rows, key=lambda row: row["exchange s"])[TIMES // 2]
        for name, rows in found.items()
    }
    ours = {name: middle[name].pop("hops") for name in ("unmasked", "masked")}
    hops = [
        {"hop": hop} | {f"{k} s": row[hop] for k, row in ours.items()} for hop in ours["masked"]
    ]
    return {"table": list(middle.values()), "hops": hops}


def large() -> dict[str, Any]:
    row = measure(20_000)
    del row["hops"]
    return {"large": [row]}


PARTS = {"rounds": compared, "large": large, "idle": lambda: {"idle": [idle.measure()]}}


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure a federation on this machine.")
    parser.add_argument("what", nargs="*", metavar="WHAT", help=f"{', '.join(PARTS)}: all, if none")
    given = parser.parse_args()
    given.what = given.what or [*PARTS]  # of a list, argparse knows no choices
    if odd := set(given.what) - PARTS.keys():
        parser.error(f"there is no {odd.pop()!r}")
    found = json.loads(PATH.read_text()) if PATH.exists() and given.what != [*PARTS] else {}
    found |= {"command": "python -m benchmarks.deploy", "machine": machine()}
    found |= {"what": WHAT, "notes": NOTES, "priority": priority()}
    with stoppable():
        for part in given.what:
            found |= PARTS[part]()
            write_text(PATH, json.dumps(found, indent=2) + "\n")
    print(json.dumps(found, indent=2))


def priority() -> str:
    usual = os.sched_getscheduler(0) == os.SCHED_OTHER
    return "usual" if usual else "above all else on the machine, which others load"


if __name__ == "__main__":
    main()
