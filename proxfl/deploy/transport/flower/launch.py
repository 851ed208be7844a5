"""Start, reach and ask the parts of a Flower deployment.

Server: a SuperLink that only its own machine reaches, and a gate for the sites (`serve`). Site: one
process, kept running (`join`). Runs: `register`, `submit`, `stop_run`.
"""

import contextlib
import json
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import tomli_w

from proxfl.deploy.ops.home import SITE_STATUS, read_json
from proxfl.deploy.ops.keys import ServerKeys, make_inner_keys
from proxfl.deploy.ops.services import Service, Supervisor, environment
from proxfl.deploy.ops.stopping import pause
from proxfl.storage.files import write_text

CONNECTION = "proxfl"  # the name of our server in Flower's own configuration
DATABASE = "superlink.db"
COMMAND_SECONDS = 120.0
STOP_SECONDS = 20.0
POLL_SECONDS = 0.2
OFFLINE = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    # How often Flower looks for a new run, in seconds; each look is a request to the SuperLink.
    "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "4",
}


class Door(NamedTuple):
    """Where sites come in, the keys by which they know the server, and the folder of theirs.

    In the clear the last two are None.
    """

    host: str
    port: int
    keys: ServerKeys | None = None
    sites: Path | None = None

    @property
    def inside(self) -> str:
        """How this machine itself reaches it."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"


def serve(folder: Path, door: Door, inner: int) -> Supervisor:
    """The server's side, open to sites at a door; `inner` is the SuperLink's own port.

    The SuperLink's certificate is of this start and this machine, and no business of sites: the
    one they know can be renewed while the SuperLink runs.
    """
    keys = None if door.keys is None else make_inner_keys(folder / "inner")
    trust = {"insecure": True} if keys is None else {"root-certificates": str(keys.authority)}
    known = {"superlink": {CONNECTION: {"address": f"127.0.0.1:{inner}", **trust}}}
    write_text(folder / "flwr" / "config.toml", tomli_w.dumps(known))  # for Flower's commands
    return Supervisor(
        {
            "superlink": lambda: start_superlink(folder, inner, keys),
            "gate": lambda: start_gate(folder, door, inner, keys),
        }
    )


def join(folder: Path, command: Sequence[str]) -> Supervisor:
    """A site's side: `command` must end in `serve` of the module `process`, for this folder."""
    return Supervisor({"site": lambda: start_site(folder, command)})


def settings(folder: Path) -> dict[str, str]:
    """What Flower's programs are told: a home of their own, and nothing from outside."""
    return OFFLINE | {"FLWR_HOME": str(folder / "flwr")}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start_superlink(folder: Path, port: int, keys: ServerKeys | None, *more: str) -> Service:
    """The server's message exchange, with its database in `folder`; without keys, in the clear."""
    command = [tool("flower-superlink"), "--host", "127.0.0.1", "--port", str(port)]
    command += ["--database", str(folder / DATABASE)]
    command += ["--disable-runtime-dependency-installation", *more]
    if keys is None:
        command += ["--insecure"]
    else:
        command += ["--ssl-ca-certfile", str(keys.authority)]
        command += ["--ssl-certfile", str(keys.pair), "--ssl-keyfile", str(keys.pair)]
        command += ["--enable-supernode-auth"]
    ready = lambda: healthy(f"127.0.0.1:{port}", keys and keys.authority)
    return Service("superlink", command, folder, settings(folder)).once(ready, "The SuperLink")


def start_gate(folder: Path, door: Door, inner: int, keys: ServerKeys | None) -> Service:
    """Where sites come in: all they need of the SuperLink, and nothing else of it."""
    command = [sys.executable, "-m", "proxfl.deploy.transport.flower.gate"]
    command += ["--superlink", f"127.0.0.1:{inner}", "--database", str(folder / DATABASE)]
    command += ["--host", door.host, "--port", str(door.port)]
    if keys is not None and door.keys is not None:
        command += ["--authority", str(keys.authority), "--pair", str(door.keys.pair)]
        command += ["--sites", str(door.sites)]
    ready = lambda: healthy(door.inside, door.keys and door.keys.authority)
    return Service("gate", command, folder, settings(folder)).once(ready, "The gate")


def start_site(folder: Path, command: Sequence[str]) -> Service:
    service = Service("site", command, folder, settings(folder))
    status = folder / SITE_STATUS
    ready = lambda: status.exists() and read_json(status, "")["pid"] == service.process.pid
    return service.once(ready, "The site")


def tool(name: str) -> str:
    """A command of this installation."""
    return str(Path(sys.executable).parent / name)


def healthy(address: str, authority: Path | None) -> bool:
    """Whether a SuperLink answers there, and, under TLS, is the one we trust.

    Every certificate of ours is for localhost, so that is the name it is asked by, whatever the
    address.
    """
    scheme = "http" if authority is None else "https"
    try:
        trust = True if authority is None else ssl.create_default_context(cafile=str(authority))
        with httpx.Client(verify=trust, timeout=2, trust_env=False) as client:
            asked = {"sni_hostname": "localhost"}
            return client.get(f"{scheme}://{address}/health", extensions=asked).is_success
    except (httpx.HTTPError, OSError):
        return False


def flwr(folder: Path, *arguments: str, seconds: float = COMMAND_SECONDS) -> Any:
    """Run one of Flower's commands against the server and give what it reports."""
    out, err = output_of([tool("flwr"), *arguments, "--format", "json"], folder, seconds)
    try:
        report = json.loads(out[out.find("{") :])
    except json.JSONDecodeError:
        report = {"success": False, "error-message": out + err}
    if not report.get("success"):
        reason = " ".join(str(report.get("error-message", err)).split())
        raise RuntimeError(f"flwr {arguments[0]} failed: {reason}")
    return report


def output_of(command: Sequence[str], folder: Path, seconds: float) -> tuple[str, str]:
    """What a command prints; it ends with this process's wait for it."""
    deadline = time.monotonic() + seconds
    pipes: Any = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    env = environment() | settings(folder)
    with subprocess.Popen(command, env=env, text=True, start_new_session=True, **pipes) as process:
        try:
            while time.monotonic() < deadline:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    return process.communicate(timeout=POLL_SECONDS)
                pause(0.0)
            raise RuntimeError(f"{Path(command[0]).name} took more than {seconds:.0f} s.")
        finally:
            process.kill()


def register(folder: Path, public: Path, site: str) -> str:
    """Let a site in by its public key; gives the number of its node."""
    report = flwr(folder, "supernode", "register", str(public), CONNECTION, "--name", site)
    return str(report["node-id"])


def submit(folder: Path, app: Path, config: Mapping[str, Any]) -> str:
    """Start a run of the app folder; gives the run's number."""
    given = " ".join(f"{name}={json.dumps(value)}" for name, value in config.items())
    report = flwr(folder, "run", str(app), CONNECTION, "--run-config", given)
    return str(report["run-id"])


def stop_run(folder: Path, run: str) -> None:
    flwr(folder, "stop", run, CONNECTION, seconds=STOP_SECONDS)
