"""`proxfl federate` as one types it: a server and three sites under TLS, and much that goes wrong.

The one real deployment among the tests; `make soak` has more.
"""

import os
import shutil
import signal
import ssl
import stat
import subprocess
import sys
import urllib.error
import urllib.request

import numpy as np
import pytest

from proxfl.deploy import launch
from proxfl.deploy.ops.home import Home, read_json
from proxfl.deploy.ops.keys import make_server_keys, make_site_keys
from proxfl.storage.files import write_text
from proxfl.train.folder import read, read_model
from proxfl.report import page
from tests.cli.world import proxfl
from tests.deploy.field import NAMES, Field
from tests.deploy.processes import commands, kill, processes, until

PROBLEM = {"target": "y", "loss": "logistic", "l1": 0.02, "rounds": 6}


def send_code(app, marked):
    """What a server could do that wants more than the method gives it."""
    write_text(app / "sent.py", f"open({str(marked)!r}, 'w').close()\napp = None\n")
    project = (app / "pyproject.toml").read_text()
    write_text(app / "pyproject.toml", project.replace("proxfl.deploy.client:app", "sent:app"))


def strangers(folder, home, address):
    """A site with a key that nobody registered, and one that trusts another authority."""
    make = lambda name, authority, key: launch.start_supernode(
        folder / name, "north", address, launch.free_port(), authority, key
    )
    key = make_site_keys(folder / "stranger", "north").private
    false = make_server_keys(folder / "false").authority
    own = Home(folder / "at-north").site("north") / "keys" / "north.key"
    return make("stranger", home.authority, key), make("deceived", false, own)


def status_of(url, authority):
    trust = ssl.create_default_context(cafile=str(authority))
    try:
        with urllib.request.urlopen(url, b"", timeout=10, context=trust) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def invite(folder, home, name):
    """What the operator of a site copies from the server."""
    at = folder / f"at-{name}"
    at.mkdir()
    for public in ("federation.toml", "ca.pem"):
        shutil.copy(home.folder / public, at)
    return at


@pytest.mark.filterwarnings("ignore:Not converged")
def test_three_sites_much_trouble_and_the_model_of_an_undisturbed_run(tmp_path, monkeypatch):
    monkeypatch.setattr(page, "inline", lambda figure: "data:,")
    field = Field(tmp_path / "twin", **PROBLEM)
    home, marked = Home(tmp_path / "server"), tmp_path / "code sent by the server ran at a site"
    address = f"127.0.0.1:{launch.free_port()}"
    options = [part for key, value in PROBLEM.items() for part in (f"--{key}", value)]
    done = proxfl("federate", "init", home.folder, "--name", "field", "--sites", *NAMES, *options)
    assert done.code == 0, done.err
    send_code(home.app, marked)
    rounds = lambda: read_json(home.status, "").get("round", 0) if home.status.exists() else 0
    with commands(tmp_path) as start:
        host, port = address.split(":")
        serve = lambda: start("serve", home.folder, "--host", host, "--port", port)
        server, joined = serve(), []
        for name, file in zip(NAMES, field.files, strict=True):
            at = invite(tmp_path, home, name)
            joined.append(start("join", at, "--data", file, "--server", address))
        for name, site in zip(NAMES, joined, strict=True):
            site.wait_for("A key was made")
            key = Home(tmp_path / f"at-{name}").site(name) / "keys" / f"{name}.pub"
            write_text(home.public_keys / key.name, key.read_text())
            server.wait_for(f"Site {name} is let in.")
        run = start("run", home.folder)

        # Meanwhile: who may not come in, and what nobody may ask.
        for service, word in zip(
            strangers(tmp_path, home, address), ("activat", "certificate"), strict=True
        ):
            try:
                assert service.process.wait(120) != 0 and word in service.tail(40).lower()
            finally:
                service.kill()
        for path in ("control/start-run", "control/register-node", "runtime/acquire-task"):
            assert status_of(f"https://{address}/v1/{path}", home.authority) == 404
        assert status_of(f"https://{address}/v1/fleet/pull-messages", home.authority) >= 400

        # A worker is killed, then the server's program, then the server and all of it.
        until(lambda: rounds() >= 1)
        kill(tmp_path / "at-south", "worker")
        until(lambda: rounds() >= 3)
        os.kill(read_json(home.status, "")["pid"], signal.SIGKILL)
        assert run.ended() == 3
        assert "The server's program ended" in run.said and "Go on with: proxfl" in run.said
        server.process.kill()
        kill(home.server, "superlink")
        server = serve()
        server.wait_for("Stop it with Ctrl-C")

        resumed = start("resume", home.folder)
        assert resumed.ended() == 3, resumed.said
        assert "Not converged after 6 rounds" in resumed.said and "--rounds 12" in resumed.said
        shown = start("status", home.folder)
        assert shown.ended() == 0 and "The last run is finished: round 6" in shown.said
        assert shown.said.count("online") == 3
        at = Home(tmp_path / "at-south").site("south")
        assert mode(at) == 0o700 and mode(at / "worker.sock") == 0o600
        for command in (server, *joined):
            assert command.stop() == 0 and " is stopped." in command.said
    assert not processes(tmp_path) and not marked.exists()
    field.run("straight")
    straight, found = tmp_path / "twin" / "straight", home.folder / "results"
    for name in ("model.json", "model.safetensors"):
        assert (found / name).read_bytes() == (straight / name).read_bytes()
    wanted = field.trained().model.coef
    np.testing.assert_allclose(read_model(found)[0].coef, wanted, atol=1e-12)
    told = read(found).manifest["deployment"]
    assert told["resumed"] == 1 and all(s["rounds"] == 6 for s in told["sites"].values())


def test_bad_input_is_one_sentence_and_writes_nothing(tmp_path):
    base = ["federate", "init", tmp_path / "new", "--target", "y", "--loss", "logistic"]
    for more, words in [
        (["--sites", "a", "a"], "sites must be distinct names"),
        (["--sites", "a/b"], "cannot name a federation or a site"),
        (["--sites", "a", "--l1", "-1"], "key 'l1' must be"),
        (["--sites", "a", "--algorithm", "dp-spider"], "needs clip, clip_change, noise_multiplier"),
        (["--sites", "a", "--cohort", "1"], "needs every site in every round"),
    ]:
        done = proxfl(*base, *more)
        assert (done.code, done.out) == (2, "") and words in done.err
        assert len(done.err.strip().splitlines()) == 1 and not (tmp_path / "new").exists()
    assert proxfl(*base, "--sites", "a", "b").code == 0
    for command, words in [
        (
            ["init", tmp_path / "new", "--sites", "a", "--target", "y", "--loss", "huber"],
            "not empty",
        ),
        (["run", tmp_path / "new"], "address.json: there is no such file; start it with"),
        (["resume", tmp_path / "new"], "there was no run yet"),
        (["join", tmp_path / "new", "--data", "a.csv", "--server", "x:1"], "a.csv: there is no"),
        (["join", tmp_path / "new", "--data", "c.csv", "--server", "x:1"], "'c' is no site of new"),
        (["keys", tmp_path / "new", "--site", "c"], "'c' is no site of new; it is one of a, b"),
        (["serve", tmp_path], "federation.toml: there is no such file"),
        (["demo", "--sites", "0"], "--sites must be at least 1"),
    ]:
        done = proxfl("federate", *command)
        assert done.code == 2 and words in done.err
        assert len(done.err.strip().splitlines()) == 1
    done = proxfl("federate", "status", tmp_path / "new")
    assert done.code == 0 and "There was no run yet." in done.out


def test_help_waits_for_neither_jax_nor_flower():
    code = (
        "import sys; from proxfl.cli.main import main\n"
        "try: main(['federate', 'run', '--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'jax', 'flwr', 'pandas'} & set(sys.modules); assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120, capture_output=True)
