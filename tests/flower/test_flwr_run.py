"""Both example apps by `flwr run`, on a SuperLink and SuperNodes of Flower's own: minutes each."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from proxfl.deploy.transport.flower.launch import free_port

torch = pytest.importorskip("torch", reason="PyTorch is an extra; `make torch` installs it")

EXAMPLE = Path(__file__).parents[2] / "examples" / "flower"
NODES = 3
HANGS = 3600  # seconds after which nothing comes any more, however slow the machine is
PATIENT = """
from flwr.common import constant

constant.HEARTBEAT_DEFAULT_INTERVAL = constant.HEARTBEAT_MAX_INTERVAL
"""  # for all processes of Flower's, which else gives up on those that are silent for a minute
ON_LOOPBACK = ["--insecure", "--host", "127.0.0.1", "--port"]


@pytest.mark.soak
@pytest.mark.parametrize("app", ["fedavg", "sparse"])
def test_flwr_run_trains_it(app, tmp_path):
    """Two rounds, so that a client meets its own memory; one model has exact zeros, one none."""
    port, home = free_port(), tmp_path / "home"
    about = os.environ | {"FLWR_HOME": str(home), "HOME": str(home), "FLWR_TELEMETRY_ENABLED": "0"}
    about["PATH"] = f"{Path(sys.executable).parent}:{about['PATH']}"
    about["PYTHONPATH"] = str(tmp_path)
    (tmp_path / "sitecustomize.py").write_text(PATIENT)
    home.mkdir()
    (home / "config.toml").write_text(
        '[superlink]\ndefault = "here"\n'
        f'[superlink.here]\naddress = "127.0.0.1:{port}"\ninsecure = true\n'
    )
    shutil.copytree(EXAMPLE / app, tmp_path / "app")
    with ExitStack() as running:
        services = {}

        def start(name, *command):
            log = running.enter_context((tmp_path / f"{name}.log").open("w"))
            where = {"env": about, "cwd": tmp_path, "stdout": log, "stderr": subprocess.STDOUT}
            services[name] = subprocess.Popen(command, **where)
            running.callback(stop, services[name])

        def wait_until(happened):
            begun = time.monotonic()
            while not happened():
                for name, service in services.items():
                    told = tmp_path / f"{name}.log"
                    assert service.poll() is None, f"{name} has ended: {told.read_text()}"
                assert time.monotonic() < begun + HANGS
                time.sleep(5)

        def flwr(*words):
            done = subprocess.run(
                ["flwr", *words], env=about, cwd=tmp_path, capture_output=True, text=True
            )
            assert done.returncode == 0, done.stderr
            return done.stdout

        installed = "--disable-runtime-dependency-installation"
        start("superlink", "flower-superlink", *ON_LOOPBACK, str(port), installed)
        wait_until(lambda: listens(port))
        for i in range(NODES):
            own = ["--superlink", f"127.0.0.1:{port}", *ON_LOOPBACK, str(free_port())]
            place = f"partition-id={i} num-partitions={NODES}"
            start(f"node{i}", "flower-supernode", *own, "--node-config", place)
        flwr("run", "app", "here", "--run-config", "num-server-rounds=2")
        status = lambda: json.loads(flwr("list", "here", "--format", "json"))["runs"][0]["status"]
        wait_until(lambda: status().startswith("finished"))
        assert status() == "finished:completed", (tmp_path / "superlink.log").read_text()
    weights = torch.load(tmp_path / "model.pt")["0.weight"]
    assert (weights == 0).any() == (app == "sparse")


def listens(port):
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


def stop(process):
    process.terminate()
    process.wait(HANGS)
