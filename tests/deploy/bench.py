"""Where the seconds of a deployed round go: `python -m tests.deploy.bench [dimension] [rounds]`.

Three sites on loopback under TLS and keys, once with our executor and once with Flower's own, which
starts a process for every message.
"""

import re
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from proxfl.deploy import launch
from tests.deploy.real import SITES, deployment


def big_data(folder, dimension, rows=50):
    rng = np.random.default_rng(0)
    for site in SITES:
        a = rng.normal(size=(rows, dimension)) / np.sqrt(dimension)
        np.savez(folder / f"{site}.npz", a=a, y=np.sign(rng.normal(size=rows)))


def measure(dimension: int, rounds: int, own: bool) -> None:
    with deployment(Path(tempfile.mkdtemp(prefix="proxfl-bench-"))) as there:
        big_data(there.folder, dimension)
        there.serve()
        there.register()
        for site in SITES:
            there.join(site) if own else there.join_plainly(site)
        run = there.run(rounds=rounds)
        there.wait_for_round(rounds - 1, 600)
        time.sleep(3)
        seen = launch.status(there.server, run)
        lines = (there.out / "rounds.txt").read_text().splitlines()
        wall = np.median([float(line.split()[1]) for line in lines[1:]])
        logs = "".join((there.home(site) / "worker.log").read_text() for site in SITES)
        visits = [float(took) for took in re.findall(r"answered step \d+ in ([\d.]+) s", logs)]
        held = seen["compute-time"]["clientapp-seconds"] / (rounds * len(SITES))
        traffic = seen["network-traffic"]
    print(f"d = {dimension}, {'our' if own else 'Flower'} executor: round {wall:.2f} s;")
    print(f"  a site's worker {np.median(visits):.3f} s, its message in the app {held:.2f} s;")
    up, down = (traffic[way] / rounds / len(SITES) for way in ("inbound-bytes", "outbound-bytes"))
    print(f"  by Flower's own count {up:.0f} B up and {down:.0f} B down; payload {8 * dimension} B")


def main(dimension: str = "20", rounds: str = "8") -> None:
    for own in (True, False):
        measure(int(dimension), int(rounds), own)


if __name__ == "__main__":
    main(*sys.argv[1:])
