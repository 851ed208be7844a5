"""`python -m benchmarks.deploy`: where the seconds and bytes of a deployed round go.

Three sites on this machine under TLS and keys, as `proxfl federate` starts them. Writes
results/bench/deploy.json.
"""

import argparse
import json
import os
import re
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.side import machine
from proxfl.cli.commands.federate import init, join, serve
from proxfl.cli.commands.federate import run as running
from proxfl.cli.commands.federate.watching import follow, supervised
from proxfl.deploy.ops.home import Home
from proxfl.deploy.ops.keys import make_site_keys
from proxfl.deploy.ops.permissions import private_folder
from proxfl.deploy.ops.services import Supervisor
from proxfl.deploy.ops.stopping import stoppable
from proxfl.deploy.site.policy import write_policy
from proxfl.deploy.transport.flower import launch
from proxfl.storage.files import write_text
from proxfl.train.folder import read
from proxfl.train.spec import Spec

SITES = ("north", "south", "west")
ROUNDS, ROWS = 12, 50
LOOSE: Any = {
    "unmasked": True,
    "count": 0,
    "parameters_per_row": 1e4,
    "questions_per_row": 10.0,
    "share": 0.0,
}
ANSWERED = re.compile(r"^(\S+ \S+) Site \w+ answered step (\d+) in ([\d.]+) s", re.MULTILINE)
WHAT = "a round over three real sites on one machine, with TLS and keys"
NOTES = (
    f"Seconds are medians over {ROUNDS - 3} rounds. Bytes are means over all messages. "
    "The load is that of the machine, which others used too."
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
) -> dict[str, Any]:
    """A deployment from its first process to its last; `meanwhile` is what goes on at its port."""
    with tempfile.TemporaryDirectory(prefix="proxfl-bench-") as made:
        files, home = write_data(Path(made) / "data", dimension), Home(Path(made) / "federation")
        spec = Spec(
            target="y",
            loss="logistic",
            l1=0.05,
            precondition=False,
            tol=1e-15,
            algorithm="decoupled",
        )
        init.write(home.folder, "bench", list(SITES), spec, unmasked=True)
        port, supervisors = launch.free_port(), []
        with supervised(supervisors) as look:
            supervisors.append(serve.start(home, "127.0.0.1", port, secure=True))
            for site, file in zip(SITES, files, strict=True):
                public = make_site_keys(home.site(site) / "keys", site).public
                write_text(home.public_keys / public.name, public.read_text())
                launch.register(home.server, public, site)
                write_policy(private_folder(home.site(site)), **LOOSE)
                supervisors.append(join.start(home, site, file, f"127.0.0.1:{port}", True))
            parser = argparse.ArgumentParser()
            running.shared_arguments(parser)
            out, given = home.folder / "results", parser.parse_args(["--rounds", str(ROUNDS)])
            with meanwhile(port, supervisors[0]):
                number = running.submit(
                    home, running.options_of(home, out, given, {"study": "bench"})
                )
                assert follow(home, number, look)["state"] == "finished"
        logs = [(home.site(site) / "site.log").read_text() for site in SITES]
        return split(logs, read(out).manifest["deployment"], dimension)


def split(logs: list[str], told: Any, dimension: int) -> dict[str, Any]:
    """Seconds of a round, after the first two, in which programs are compiled; bytes of all."""
    rounds, inside = [], []
    for log in logs:
        found = [
            (datetime.fromisoformat(t.replace(",", ".")), int(k), float(s))
            for t, k, s in ANSWERED.findall(log)
        ]
        visits = longest_run(found)[2:]
        rounds += [(b[0] - a[0]).total_seconds() for a, b in zip(visits, visits[1:], strict=False)]
        inside += [s for _, _, s in visits]
    exchanges = told["traffic"]["up"]["messages"]
    each = lambda way, what: told["traffic"][way][what] / exchanges
    return {
        "parameters": dimension,
        "round s": float(np.median(rounds)),
        "worker s": float(np.median(inside)),
        "payload up B": each("up", "payload"),
        "message up B": each("up", "wire"),
        "payload down B": each("down", "payload"),
        "message down B": each("down", "wire"),
        "load": os.getloadavg()[0],
    }


def longest_run(found: list[tuple[datetime, int, float]]) -> list[tuple[datetime, int, float]]:
    """The visits among a site's answers: steps that follow each other, from 1 to the last round."""
    ends = [i for i, (_, step, _) in enumerate(found) if step == ROUNDS]
    return found[ends[-1] - ROUNDS + 1 : ends[-1] + 1]


def main() -> None:
    with stoppable():
        rows = [measure(dimension) for dimension in (20, 20_000)]
    found = {
        "command": "python -m benchmarks.deploy",
        "machine": machine(),
        "what": WHAT,
        "notes": NOTES,
        "table": rows,
    }
    write_text(PATH, json.dumps(found, indent=2) + "\n")
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
