"""A round of Flower alone: its SuperLink and SuperNodes with TLS and keys, and the least app."""

import os
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from proxfl.deploy.ops.keys import make_inner_keys, make_site_keys
from proxfl.deploy.ops.services import Service
from proxfl.deploy.transport.flower import launch
from proxfl.storage.files import write_text

APP = Path(__file__).parent / "flower_alone"
ROUNDS, SECONDS = 5, 300.0


def measure(sites: int, numbers: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="proxfl-alone-") as made, ExitStack() as running:
        folder, port = Path(made), launch.free_port()
        keys, out = make_inner_keys(folder / "inner"), folder / "rounds.txt"
        trust = {"root-certificates": str(keys.authority)}
        known = {"superlink": {launch.CONNECTION: {"address": f"127.0.0.1:{port}", **trust}}}
        write_text(folder / "flwr" / "config.toml", tomli_w.dumps(known))
        superlink = launch.start_superlink(folder, port, keys)
        running.callback(superlink.stop)
        for i in range(sites):
            own = make_site_keys(folder / "keys", f"s{i}")
            launch.register(folder, own.public, f"s{i}")
            command = [launch.tool("flower-supernode"), "--superlink", f"127.0.0.1:{port}"]
            command += ["--root-certificates", str(keys.authority)]
            command += ["--auth-supernode-private-key", str(own.private)]
            command += ["--host", "127.0.0.1", "--port", str(launch.free_port())]
            home = folder / f"s{i}"
            node = Service(f"supernode{i}", command, home, launch.settings(home))
            running.callback(node.stop)
        config = {"rounds": ROUNDS, "sites": sites, "numbers": numbers, "out": str(out)}
        launch.submit(folder, APP, config)
        until = time.monotonic() + SECONDS
        while not out.exists() or len(out.read_text().split()) <= ROUNDS:
            if time.monotonic() > until:
                raise RuntimeError(f"Flower took too long; its log: {superlink.tail()}")
            time.sleep(0.5)
        long = np.diff([float(line) for line in out.read_text().split()])[1:]
        load = os.getloadavg()[0]
    return {"exchanges": len(long), "exchange s": float(np.median(long)), "load": load}
