"""A real deployment on loopback: processes, ports, keys; and its sites' and server's programs."""

import contextlib
import json
import os
import signal
import sys
import time
from pathlib import Path

import numpy as np

import proxfl as px
from proxfl.deploy import launch
from proxfl.deploy.app import write_app
from proxfl.deploy.protocol.experiment import Experiment
from proxfl.deploy.ops.keys import make_server_keys, make_site_keys, public_key
from proxfl.deploy.ops.services import Keeper, Service, environment
from tests import cases
from tests.deploy.world import World, deployed

NAME, SEED, SITES = "loopback", 5, ("north", "south", "west")


def data(folder):
    """The same three sites wherever they are asked for; each process reads only its own."""
    return [tuple(np.load(folder / f"{site}.npz").values()) for site in SITES]


def make_data(folder):
    for site, (a, y) in zip(SITES, cases.sites(len(SITES)), strict=True):
        np.savez(folder / f"{site}.npz", a=a, y=y)


METHOD = px.Decoupled(0.05, 1.5, 4)


def experiment(shard):
    d = shard.examples[0].shape[-1]
    problem = px.Problem(g=px.prox.L1(0.05), x0=np.zeros(d), loss=px.losses.Logistic())
    return Experiment(NAME, METHOD, problem, SEED, SITES, shard)


def worker(folder, site, samples):
    """The program of one site: its own rows, weighed by the server."""
    import logging

    import jax

    from proxfl.deploy.site.worker import Worker, serve

    logging.basicConfig(level=logging.INFO)
    jax.config.update("jax_enable_x64", True)
    rows = tuple(np.load(samples).values())
    shard = jax.tree.map(lambda a: a[0], px.shards_of([rows]))
    serve(Worker(NAME, SITES, site, Path(folder), lambda: experiment(shard)))


def drive(grid, context):
    """The program of the server: rounds with a checkpoint after each, from the last one on."""
    import jax
    import jax.numpy as jnp

    from proxfl.deploy.gather import Patience
    from proxfl.deploy.server.federation import FlowerFederation
    from proxfl.train.federation import Call
    from proxfl.storage.files import write_text
    from proxfl.problem.shards import Shard

    jax.config.update("jax_enable_x64", True)
    config = context.run_config
    out, rounds = Path(config["out"]), config["rounds"]
    sites = data(out.parent)
    real = lambda *shape: jax.ShapeDtypeStruct(shape, jnp.float64)
    row = real(1, sites[0][0].shape[1]), real(1)
    setup = experiment(Shard(row, jax.ShapeDtypeStruct((), jnp.int32), real()))
    algorithm, problem = setup.algorithm, setup.problem
    server, counted, standing = algorithm.init(problem.g, problem.x0)[0], -1, None
    if (out / "state.npz").exists():
        like = {"server": server, "counted": np.int64(0), "standing": np.zeros(3, np.int64)}
        kept = px.load(out / "state.npz", like)
        server, counted = kept["server"], int(kept["counted"])
        standing = dict(zip(SITES, map(int, kept["standing"]), strict=True))
    keys = json.loads(config["keys"])
    keys = {site: key.encode() for site, key in keys.items()} or None
    patience = Patience(deadline=config["deadline"])
    federation = FlowerFederation(
        grid, NAME, SITES, keys=keys, patience=patience, standing=standing
    )
    federation.settle(setup, px.shards_of(sites, "samples").weight)
    for r in range(counted + 1, rounds):
        begun = time.time()
        answers = federation.visit(algorithm, Call(r, r - 1, r, 0), server)
        server = algorithm.server(problem.g, server, answers.received)
        standing = [federation.standing_after(r)[site] for site in SITES]
        state = {"server": server, "counted": np.int64(r), "standing": np.array(standing)}
        px.save(out / "state.npz", state)
        with (out / "rounds.txt").open("a") as file:
            print(r, time.time() - begun, file=file)
        write_text(out / "ledger.json", federation.ledger.to_json())


class Deployment:
    """A server and three sites on this machine, in one folder."""

    def __init__(self, folder: Path, secure: bool = True):
        self.folder, self.out, self.server = folder, folder / "out", folder / "server"
        self.out.mkdir(parents=True)
        make_data(folder)
        self.keys = make_server_keys(self.server / "keys") if secure else None
        self.site_keys = {s: make_site_keys(self.home(s) / "keys", s) for s in SITES}
        self.address = f"127.0.0.1:{launch.free_port()}"
        self.superlink = launch.free_port()
        self.authority = self.keys.authority if self.keys else None
        self.keepers = {}
        known = {s: public_key(k.public).decode() for s, k in self.site_keys.items()}
        config = {
            "drive": "tests.deploy.real:drive",
            "out": str(self.out),
            "rounds": 6,
            "deadline": 150.0,
            "keys": json.dumps(known if secure else {}),
        }
        self.app = write_app(folder / "app", NAME, config)

    def home(self, site):
        return self.folder / site

    def serve(self):
        host, port = self.address.split(":")
        where = (self.server, host, int(port), self.keys, self.superlink)
        self.keepers["server"] = launch.serve(*where)

    def register(self):
        for site in SITES if self.keys else ():
            launch.register(self.server, self.site_keys[site].public, site)

    def join(self, site):
        key = self.site_keys[site].private if self.keys else None
        where = (self.home(site), site, self.address, self.program(site), self.authority, key)
        self.keepers[site] = launch.join(*where)

    def program(self, site):
        samples = str(self.folder / f"{site}.npz")
        return [sys.executable, "-m", "tests.deploy.real", str(self.home(site)), site, samples]

    def join_plainly(self, site):
        """With Flower's own executor, which runs the app's ClientApp, a process per message."""
        folder, config = self.home(site), f'site="{site}" folder="{self.home(site)}"'
        command = [launch.tool("flower-supernode"), "--superlink", self.address]
        command += ["--node-config", config, "--root-certificates", str(self.authority)]
        command += ["--auth-supernode-private-key", str(self.site_keys[site].private)]
        command += ["--host", "127.0.0.1", "--port", str(launch.free_port())]
        start = lambda: Service("supernode", command, folder, environment(folder / "flwr"))
        worker = lambda: launch.start_worker(folder, self.program(site))
        self.keepers[site] = Keeper({"worker": worker, "supernode": start})

    def start(self):
        self.serve()
        self.register()
        for site in SITES:
            self.join(site)

    def service(self, keeper, name):
        return self.keepers[keeper].running[name]

    def look(self):
        for keeper in self.keepers.values():
            keeper.look()

    def wait_for_round(self, r, seconds=120):
        """Until the server has counted round r, restarting whatever ended meanwhile."""
        deadline = time.monotonic() + seconds
        while not (self.out / "rounds.txt").exists() or self.counted() < r:
            if time.monotonic() > deadline:
                raise TimeoutError(f"Round {r} was not reached; {self.logs()}")
            self.look()
            time.sleep(0.2)

    def counted(self):
        return int((self.out / "rounds.txt").read_text().splitlines()[-1].split()[0])

    def run(self, **config):
        return launch.submit(self.server, self.app, config)

    def run_when_possible(self, seconds=120, **config):
        """The same, once the server is back."""
        deadline = time.monotonic() + seconds
        while True:
            self.look()
            try:
                return self.run(**config)
            except RuntimeError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(1.0)

    def kill_server_app(self):
        """The process in which Flower runs the driver."""
        for pid in self.service("server", "superlink").members():
            if b"flwr-serverapp" in Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(pid, signal.SIGKILL)

    def finish(self, run, seconds=150):
        """How a run ended, restarting whatever ended before it."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.look()
            seen = launch.status(self.server, run)["status"]
            if seen.startswith("finished"):
                return seen
            time.sleep(1.0)
        raise TimeoutError(f"Run {run} is still {seen}; {self.logs()}")

    def services(self):
        return {(k, n): s for k, kept in self.keepers.items() for n, s in kept.running.items()}

    def logs(self):
        return "\n".join(f"--- {name}\n{s.tail(40)}" for name, s in self.services().items())

    def state(self):
        with np.load(self.out / "state.npz") as stored:
            return dict(stored)

    def stop(self):
        for keeper in reversed(self.keepers.values()):
            keeper.close()


def straight(folder, rounds):
    """What an undisturbed run gives, in one process, each site alone with its rows."""
    named = dict(name=NAME, names=SITES, seed=SEED, alone=True)
    world = World(folder / "twin", METHOD, cases.problem(), data(folder), **named)
    return deployed(world, rounds)[0]


@contextlib.contextmanager
def deployment(folder, secure=True):
    made = Deployment(folder, secure)
    try:
        yield made
    finally:
        services = made.services().values()
        made.stop()
    assert not [pid for service in services for pid in service.members()]


if __name__ == "__main__":
    worker(*sys.argv[1:])
