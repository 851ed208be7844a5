"""`proxfl federate serve DIR`: the server's side, until it is stopped."""

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from proxfl.cli.commands.federate.watching import until_stopped
from proxfl.deploy.ops.home import Home, read_json, write_json

PORT = 9092


def arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("folder", type=Path, metavar="DIR", help="the folder of the federation")
    add("--host", help="the address to listen at (default: all, with --insecure this machine only)")
    add("--port", type=int, default=PORT, help=f"(default: {PORT})")
    add("--insecure", action="store_true", help="no TLS and no keys: whoever comes is believed")


def main(args: argparse.Namespace) -> int:
    from proxfl.deploy.protocol.plan import read_plan

    home = Home(args.folder.resolve())
    plan = read_plan(home.folder)
    host = args.host or ("127.0.0.1" if args.insecure else "0.0.0.0")
    secure = not args.insecure
    begun = f"The server of {plan.name} is up; sites come in at {host}:{args.port}.\n"
    if secure:
        begun += f"Sites are let in by their keys, NAME.pub, in {home.public_keys}.\n"
    else:
        begun += "Without TLS and keys: use this on a network where you trust everyone.\n"
    begun += f"Logs: {home.server}."
    register = registrar(home, plan.sites) if secure else lambda: None
    code = until_stopped(lambda: start(home, host, args.port, secure), begun, register)
    print("The server is stopped.")
    return code


def start(home: Home, host: str, port: int, secure: bool) -> Any:
    """SuperLink and gate, and a note where they are."""
    from proxfl.deploy.ops.keys import make_server_keys
    from proxfl.deploy.ops.permissions import lock, private_folder
    from proxfl.deploy.transport.flower import launch

    lock(private_folder(home.server), "serve.lock")  # until this process ends
    keys = make_server_keys(home.server_keys) if secure else None
    inner = launch.free_port()
    supervisor = launch.serve(home.server, host, port, keys, inner)
    inside = {"inside": f"127.0.0.1:{inner}", "secure": secure, "pid": os.getpid()}
    write_json(home.address, {"sites": f"{host}:{port}", **inside})
    return supervisor


def registrar(home: Home, sites: tuple[str, ...]) -> Callable[[], None]:
    """What lets in the sites whose keys have come since it was last called."""
    from proxfl.deploy.transport.flower import launch

    known = registered(home)

    def register() -> None:
        for path in sorted(home.public_keys.glob("*.pub")):
            site, key = path.stem, path.read_text()
            if site not in sites or known.get(site, {}).get("key") == key:
                continue
            try:
                node = launch.register(home.server, path, site)
                print(f"Site {site} is let in.", flush=True)
            except RuntimeError as error:
                node = ""
                print(f"Site {site} is not let in: {error}", flush=True)
            known[site] = {"key": key, "node": node}
            write_json(home.registered, known)

    return register


def registered(home: Home) -> dict[str, Any]:
    """By site, the key it was let in by and the number of its node."""
    return read_json(home.registered, "") if home.registered.exists() else {}
