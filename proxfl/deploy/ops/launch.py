"""Start, reach and ask the parts of a Flower deployment.

Server: a SuperLink that only its own machine reaches, and a gate for the sites (`serve`). Site: a
worker, a SuperNode and an executor, kept running (`join`). Runs: `register`, `submit`, `status`.
"""

import json
import secrets
import socket
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from proxfl.deploy.ops.keys import ServerKeys
from proxfl.deploy.pipe import reachable
from proxfl.deploy.ops.permissions import private_folder, write_new
from proxfl.deploy.ops.services import Keeper, Service, environment
from proxfl.storage.files import write_text

CONNECTION = "proxfl"  # the name of our server in Flower's own configuration
START_SECONDS = 60.0
COMMAND_SECONDS = 120.0


def serve(
    folder: Path, host: str, port: int, keys: ServerKeys | None, inner: int | None = None
) -> Keeper:
    """The server's side, open to sites at host:port; `inner` is the SuperLink's own port."""
    inner = inner or free_port()
    connect(folder, f"127.0.0.1:{inner}", None if keys is None else keys.authority)
    return Keeper(
        {
            "superlink": lambda: start_superlink(folder, "127.0.0.1", inner, keys),
            "gate": lambda: start_gate(folder, host, port, f"127.0.0.1:{inner}", keys),
        }
    )


def join(
    folder: Path,
    site: str,
    server: str,
    worker: Sequence[str],
    authority: Path | None = None,
    key: Path | None = None,
    inner: int | None = None,
) -> Keeper:
    """A site's side: `worker` is the command that loads its data and serves `folder`."""
    inner = inner or free_port()
    return Keeper(
        {
            "worker": lambda: start_worker(folder, worker),
            "supernode": lambda: start_supernode(folder, site, server, inner, authority, key),
            "executor": lambda: start_executor(folder, inner),
        }
    )


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start_superlink(folder: Path, host: str, port: int, keys: ServerKeys | None) -> Service:
    """The server's message exchange, with its database in `folder`; without keys, in the clear."""
    command = [tool("flower-superlink"), "--host", host, "--port", str(port)]
    command += ["--database", str(folder / "superlink.db")]
    command += ["--disable-runtime-dependency-installation"]
    if keys is None:
        command += ["--insecure"]
    else:
        command += ["--ssl-ca-certfile", str(keys.authority)]
        command += ["--ssl-certfile", str(keys.certificate), "--ssl-keyfile", str(keys.key)]
        command += ["--enable-supernode-auth"]
    service = Service("superlink", command, folder, environment(folder / "flwr"))
    authority = None if keys is None else keys.authority
    ready = lambda: healthy(f"{host}:{port}", authority)
    return started(service, ready, "The SuperLink")


def start_gate(
    folder: Path, host: str, port: int, superlink: str, keys: ServerKeys | None
) -> Service:
    """Where sites come in: all they need of the SuperLink, and nothing else of it."""
    command = [sys.executable, "-m", "proxfl.deploy.gate", "--superlink", superlink]
    command += ["--host", host, "--port", str(port)]
    if keys is not None:
        command += ["--authority", str(keys.authority)]
        command += ["--certificate", str(keys.certificate), "--key", str(keys.key)]
    service = Service("gate", command, folder, environment(folder / "flwr"))
    authority = None if keys is None else keys.authority
    inside = "127.0.0.1" if host == "0.0.0.0" else host
    return started(service, lambda: healthy(f"{inside}:{port}", authority), "The gate")


def start_supernode(
    folder: Path,
    site: str,
    server: str,
    port: int,
    authority: Path | None = None,
    key: Path | None = None,
) -> Service:
    """A site's connection to the server at `server`; `port` is for its executor, on this machine.

    Messages wait until an executor takes them: ours, or one of Flower's.
    """
    config = f'site="{site}" folder="{folder}"'
    command = [tool("flower-supernode"), "--superlink", server, "--node-config", config]
    command += ["--host", "127.0.0.1", "--port", str(port)]
    command += ["--isolation", "process", "--superexec-auth-secret-file", str(secret_of(folder))]
    command += ["--insecure"] if authority is None else ["--root-certificates", str(authority)]
    command += [] if key is None else ["--auth-supernode-private-key", str(key)]
    return Service("supernode", command, folder, environment(folder / "flwr"))


def start_executor(folder: Path, port: int) -> Service:
    """What takes the messages of the SuperNode at `port` to the site's worker."""
    command = [sys.executable, "-m", "proxfl.deploy.executor"]
    command += ["--supernode", f"127.0.0.1:{port}", "--secret", str(secret_of(folder))]
    return Service("executor", command, folder, environment(folder / "flwr"))


def secret_of(folder: Path) -> Path:
    """The file by which a SuperNode knows its executor, made when first asked for."""
    path = folder / "executor.secret"
    if not path.exists():
        private_folder(folder)
        write_new(path, secrets.token_bytes(32))
    return path


def start_worker(folder: Path, command: Sequence[str]) -> Service:
    """A site's worker: `command` must end in `proxfl.deploy.worker.serve` for this folder."""
    service = Service("worker", command, folder, environment(folder / "flwr"))
    return started(service, lambda: reachable(folder), "The worker")


def started(service: Service, ready: Callable[[], bool], what: str) -> Service:
    try:
        service.wait_for(ready, START_SECONDS, what)
    except BaseException:
        service.kill()
        raise
    return service


def tool(name: str) -> str:
    """A command of this installation."""
    return str(Path(sys.executable).parent / name)


def healthy(address: str, authority: Path | None) -> bool:
    """Whether a SuperLink answers there, and, under TLS, is the one we trust."""
    scheme = "http" if authority is None else "https"
    trust = None if authority is None else ssl.create_default_context(cafile=str(authority))
    try:
        with urllib.request.urlopen(f"{scheme}://{address}/health", timeout=2, context=trust):
            return True
    except (urllib.error.URLError, OSError):
        return False


def connect(folder: Path, address: str, authority: Path | None) -> None:
    """Tell Flower's commands, run with `folder`, where the server is."""
    lines = [f"[superlink.{CONNECTION}]", f'address = "{address}"']
    lines += ["insecure = true" if authority is None else f'root-certificates = "{authority}"']
    write_text(folder / "flwr" / "config.toml", "\n".join(lines) + "\n")


def flwr(folder: Path, *arguments: str) -> Any:
    """Run one of Flower's commands against the server and give what it reports."""
    done = subprocess.run(
        [tool("flwr"), *arguments, "--format", "json"],
        env=environment(folder / "flwr"),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS,
    )
    start = done.stdout.find("{")
    try:
        report = json.loads(done.stdout[start:])
    except json.JSONDecodeError:
        report = {"success": False, "error-message": done.stdout + done.stderr}
    if not report.get("success"):
        reason = " ".join(str(report.get("error-message", done.stderr)).split())
        raise RuntimeError(f"flwr {arguments[0]} failed: {reason}")
    return report


def register(folder: Path, public: Path, site: str) -> str:
    """Let a site in by its public key; gives the number of its node."""
    report = flwr(folder, "supernode", "register", str(public), CONNECTION, "--name", site)
    return str(report["node-id"])


def submit(folder: Path, app: Path, config: Mapping[str, Any]) -> str:
    """Start a run of the app folder; gives the run's number."""
    settings = " ".join(f"{name}={json.dumps(value)}" for name, value in config.items())
    report = flwr(folder, "run", str(app), CONNECTION, "--run-config", settings)
    return str(report["run-id"])


def status(folder: Path, run: str) -> dict[str, Any]:
    """What Flower says of a run: its `status` is, in the end, `finished:` and how."""
    return flwr(folder, "list", CONNECTION, "--run-id", run)["runs"][0]


def stop_run(folder: Path, run: str) -> None:
    flwr(folder, "stop", run, CONNECTION)


def nodes(folder: Path) -> list[dict[str, Any]]:
    """The sites the server knows, by Flower's account: number, status, since when."""
    return flwr(folder, "supernode", "list", CONNECTION)["nodes"]
