"""`python -m benchmarks.gate`: the gate with many sites, and with many who are none.

`many`: sites that only ask for messages, before a real SuperLink; then each gets one. The longest
way of a message; and of questions without one, which the gate holds, how long they took, and how
long beyond the end of the hold. `hostile`: real rounds over three sites, alone and beside
`benchmarks.hostile`, in turn; a round's seconds and the gate's largest memory. With `--edition
COMMIT` the gate of that commit is measured beside this one. Writes
results/bench/gate-many.json and gate-hostile.json.
"""

import argparse
import asyncio
import contextlib
import json
import os
import ssl
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import uvloop

from benchmarks.deploy import measure
from benchmarks.side import machine
from proxfl.deploy.ops.keyring import as_sent
from proxfl.deploy.ops.keys import make_inner_keys, make_server_keys, make_site_keys, private_key
from proxfl.deploy.ops.services import Service, Supervisor
from proxfl.deploy.ops.stopping import stoppable
from proxfl.deploy.transport.flower import launch
from proxfl.deploy.transport.flower.gate import HOLD
from proxfl.deploy.transport.flower.private_names import (
    NodeAuthHttpInterceptor,
    PullMessagesRequest,
)
from proxfl.storage.files import write_text
from tests.deploy.linkstate import LinkState

SITES, ROUNDS_EACH = 500, 3
QUIET, BUSY = 15.0, 45.0  # seconds before messages are posted, and at most after
GATE = "proxfl.deploy.transport.flower.gate"
HERE = "this edition"
NO_PROGRAMS = ("--isolation", "process")  # the SuperLink does not start those of runs


def old_sources(commit: str, folder: Path) -> Path:
    """The package as it was."""
    packed = subprocess.run(["git", "archive", commit, "proxfl"], check=True, capture_output=True)
    with tarfile.open(fileobj=BytesIO(packed.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder


class Asker:
    """A site that does nothing but ask for messages."""

    def __init__(self, number: int, node: int, keys: Any):
        self.address = f"127.0.{2 + number // 250}.{1 + number % 250}"
        self.body = PullMessagesRequest(node={"node_id": node}).SerializeToString()
        self.keys, self.came = keys, 0.0
        self.idle: list[float] = []  # seconds until questions were answered without a message

    def request(self) -> bytes:
        import httpx

        made = httpx.Request("POST", "https://gate/v1/fleet/pull-messages", content=self.body)
        context: Any = type("Context", (), {"request": made})
        NodeAuthHttpInterceptor(*self.keys).intercept(context, lambda _: None)
        made.headers["content-type"] = made.headers["accept"] = "application/protobuf"
        lines = "".join(f"{name}: {value}\r\n" for name, value in made.headers.items())
        return f"POST /v1/fleet/pull-messages HTTP/1.1\r\n{lines}\r\n".encode() + self.body

    async def ask(self, port: int, trust: ssl.SSLContext) -> None:
        where = {"host": "127.0.0.1", "port": port, "local_addr": (self.address, 0)}
        while True:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                reader, writer = await asyncio.open_connection(**where, ssl=trust)
                try:
                    await self.talk(reader, writer)
                finally:
                    writer.transport.abort()
            await asyncio.sleep(1.0)

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            asked = time.monotonic()
            writer.write(self.request())
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            lengths = [line for line in head.split(b"\r\n") if line.startswith(b"content-length")]
            length = int(lengths[0].split(b":")[1])
            await reader.readexactly(length)
            assert head.split()[1] == b"200", head
            if length:
                self.came = time.monotonic()
            else:
                self.idle.append(time.monotonic() - asked)
            await asyncio.sleep(0.1)


async def many_ask(askers: list[Asker], port: int, authority: Path, link: LinkState) -> Any:
    trust = ssl.create_default_context(cafile=str(authority))
    tasks = [asyncio.create_task(asker.ask(port, trust)) for asker in askers]
    await asyncio.sleep(QUIET)
    posted = []

    def post() -> None:
        for node in link.nodes:
            posted.append(time.monotonic())
            link.post(node, b"frame")

    await asyncio.to_thread(post)
    begun = time.monotonic()
    while not all(asker.came for asker in askers) and time.monotonic() - begun < BUSY:
        await asyncio.sleep(0.1)
    for task in tasks:
        task.cancel()
    unfinished = [time.monotonic() if not asker.came else asker.came for asker in askers]
    ways = [came - sent for came, sent in zip(unfinished, posted, strict=True)]
    idle = [wait for asker in askers for wait in asker.idle]
    return {
        "sites": len(askers),
        "got the message": sum(bool(asker.came) for asker in askers),
        "questions without a message": len(idle),
        "longest question without a message s": max(idle, default=None),
        "longest beyond the end of the hold s": max((wait - HOLD for wait in idle), default=None),
        "longest way of a message s": max(ways),
        "median way of a message s": float(np.median(ways)),
    }


def many(edition: str | None) -> dict[str, Any]:
    """One edition of the gate before a SuperLink with many nodes."""
    with tempfile.TemporaryDirectory(prefix="proxfl-gate-") as made:
        folder = Path(made)
        outer, inner = make_server_keys(folder / "keys"), make_inner_keys(folder / "inner")
        pairs: list[Any] = []
        (folder / "sites").mkdir()
        for i in range(SITES):
            keys = make_site_keys(folder / "site", f"s{i}")
            os.link(keys.public, folder / "sites" / keys.public.name)
            private = private_key(keys.private)
            pairs.append((private, private.public_key()))
        known = [as_sent(folder / "sites" / f"s{i}.pub") for i in range(SITES)]
        link = LinkState(folder / launch.DATABASE, known)
        link.activate()
        port, inside, services = launch.free_port(), launch.free_port(), []
        try:
            services.append(launch.start_superlink(folder, inside, inner, *NO_PROGRAMS))
            door = launch.Door("127.0.0.1", port, outer, folder / "sites")
            if edition is None:
                services.append(launch.start_gate(folder, door, inside, inner))
            else:
                command = [
                    sys.executable,
                    "-P",
                    "-m",
                    GATE,
                    "--host",
                    door.host,
                    "--port",
                    str(port),
                ]
                command += [
                    "--superlink",
                    f"127.0.0.1:{inside}",
                    "--authority",
                    str(inner.authority),
                ]
                command += ["--certificate", str(outer.pair), "--key", str(outer.pair)]
                path = {"PYTHONPATH": str(old_sources(edition, folder / "old"))}
                ready = lambda: launch.healthy(door.inside, outer.authority)
                services.append(Service("gate", command, folder, path).once(ready, "The gate"))
            askers = [Asker(i, link.nodes[i], pairs[i]) for i in range(SITES)]
            found = uvloop.run(many_ask(askers, port, outer.authority, link))
            pid = services[-1].process.pid
            return {"gate": edition or HERE, **found, "gate MiB": peak(pid), **load()}
        finally:
            for service in reversed(services):
                service.stop()


def peak(pid: int) -> float:
    """The largest memory a process has had, in MiB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 2**10 for line in lines if line.startswith("VmHWM"))


def load() -> dict[str, float]:
    return {"load": os.getloadavg()[0]}


@contextlib.contextmanager
def attacked(port: int, server: Supervisor) -> Iterator[None]:
    command = [sys.executable, "-m", "benchmarks.hostile", str(port)]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        time.sleep(5.0)  # until they are all there
        try:
            yield
        finally:
            process.kill()


def hostile() -> list[dict[str, Any]]:
    rows = []
    for _ in range(ROUNDS_EACH):
        for name, begin in (("alone", None), ("beside 2,000 hostile connections", attacked)):
            memory = []

            @contextlib.contextmanager
            def around(port: int, server: Supervisor, begin=begin, memory=memory) -> Iterator[None]:
                with begin(port, server) if begin else contextlib.nullcontext():
                    yield
                    memory.append(peak(server.running["gate"].process.pid))

            found = measure(20, around)
            rows.append(
                {"sites": name, "round s": found["exchange s"], "gate MiB": memory[0], **load()}
            )
            print(rows[-1], flush=True)
    return rows


def write(name: str, what: str, table: list[dict[str, Any]], **more: Any) -> None:
    about = {"command": " ".join(["python -m benchmarks.gate", *sys.argv[1:]])}
    found = {**about, "machine": machine(), "what": what, **more, "table": table}
    write_text(f"results/bench/gate-{name}.json", json.dumps(found, indent=2) + "\n")
    print(json.dumps(found, indent=2))


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the gate.")
    parser.add_argument("what", nargs="*", choices=["many", "hostile"], default=["many", "hostile"])
    parser.add_argument("--edition", metavar="COMMIT", help="to measure beside this one")
    given = parser.parse_args()
    with stoppable():
        if "many" in given.what:
            rows = []
            for edition in (None, *filter(None, [given.edition])):
                rows.append(many(edition))
                print(rows[-1], flush=True)
            write("many", f"{SITES} sites that ask one gate for messages", rows)
        if "hostile" in given.what:
            rows = hostile()
            times = {
                k: [r["round s"] for r in rows if (r["sites"] == "alone") == k] for k in (0, 1)
            }
            slower = float(np.median(times[0]) / np.median(times[1]))
            write("hostile", "real rounds, alone and attacked", rows, times_slower=slower)


if __name__ == "__main__":
    main()
