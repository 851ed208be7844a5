"""One real deployment on loopback: separate processes, TLS, keys, and a kill in the middle."""

import os
import signal
import ssl
import stat
import urllib.error
import urllib.request

import numpy as np

import proxfl as px
from proxfl.deploy import launch
from proxfl.deploy.keys import make_server_keys, make_site_keys, public_key, public_keys
from proxfl.files import write_text
from tests import cases
from tests.deploy import real
from tests.deploy.real import METHOD, NAME, SEED, SITES, deployment
from tests.deploy.world import World, deployed


def straight(folder, rounds):
    """What an undisturbed run gives, in one process, each site alone with its rows."""
    named = dict(name=NAME, names=SITES, seed=SEED, alone=True)
    world = World(folder / "twin", METHOD, cases.problem(), real.data(folder), **named)
    return deployed(world, rounds)[0]


def status_of(request, authority):
    trust = ssl.create_default_context(cafile=str(authority))
    try:
        with urllib.request.urlopen(request, timeout=10, context=trust) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def send_code(app, marked):
    """What a server could do that wants more than the algorithm gives it."""
    write_text(app / "sent.py", f"open({str(marked)!r}, 'w').close()\napp = None\n")
    project = (app / "pyproject.toml").read_text()
    write_text(app / "pyproject.toml", project.replace("proxfl.deploy.client:app", "sent:app"))


def modes(folder):
    return {
        str(path.relative_to(folder)): stat.S_IMODE(path.stat().st_mode)
        for path in folder.rglob("*")
    }


def test_keys_are_readable_by_their_owner_only_and_made_once(tmp_path):
    old = os.umask(0)
    try:
        server = make_server_keys(tmp_path / "a", ["hospital.example", "10.1.2.3"])
        site = make_site_keys(tmp_path / "b", "north")
    finally:
        os.umask(old)
    for path in (server.key, tmp_path / "a" / "ca.key", site.private):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for folder in ("a", "b"):
        assert stat.S_IMODE((tmp_path / folder).stat().st_mode) == 0o700
    before = server.key.read_bytes()
    assert make_server_keys(tmp_path / "a").key.read_bytes() == before
    assert public_keys(tmp_path / "b") == {"north": public_key(site.public)}


def test_a_real_deployment_gives_the_simulated_model_through_tls_keys_and_a_kill(tmp_path):
    rounds = 5
    with deployment(tmp_path) as there:
        marked = tmp_path / "code sent by the server ran at a site"
        send_code(there.app, marked)
        there.start()
        run = there.run(rounds=rounds)

        # Meanwhile: who may not come in.
        stranger = make_site_keys(tmp_path / "stranger", "north")
        unregistered = launch.start_supernode(
            tmp_path / "stranger", "north", there.address, launch.free_port(),
            there.authority, stranger.private,
        )  # fmt: skip
        false = make_server_keys(tmp_path / "false").authority
        key = there.site_keys["north"].private
        deceived = launch.start_supernode(
            tmp_path / "deceived", "north", there.address, launch.free_port(), false, key
        )
        try:
            for service in (unregistered, deceived):
                assert service.process.wait(60) != 0
            assert "activat" in unregistered.tail(40)
            assert "certificate" in deceived.tail(40).lower() or "SSL" in deceived.tail(40)
        finally:
            unregistered.kill()
            deceived.kill()
        for path in ("control/start-run", "control/register-node", "runtime/acquire-task"):
            url = f"https://{there.address}/v1/{path}"
            assert status_of(urllib.request.Request(url, b""), there.authority) == 404
        url = f"https://{there.address}/v1/fleet/pull-messages"
        assert status_of(urllib.request.Request(url, b""), there.authority) >= 400

        # A worker is killed in the middle, and its keeper starts it again.
        there.wait_for_round(1)
        os.kill(there.service("south", "worker").process.pid, signal.SIGKILL)
        assert there.finish(run) == "finished:completed", there.logs()

        found = there.state()["['server']"]
        private = modes(tmp_path / "south")
        assert private["worker.sock"] == 0o600 and private["keys/south.key"] == 0o600
        assert stat.S_IMODE((tmp_path / "south").stat().st_mode) == 0o700
    assert not marked.exists()
    np.testing.assert_array_equal(found, straight(tmp_path, rounds))
    shards = px.shards_of(real.data(tmp_path), "samples")
    wanted = px.simulate(METHOD, cases.problem(), shards, rounds=rounds, seed=SEED)
    np.testing.assert_allclose(found, wanted.run.server, atol=1e-12)
    assert not (tmp_path / "south" / "worker.sock").exists()
