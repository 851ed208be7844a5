"""`proxfl federate serve DIR`: the server's side, until it is stopped."""

import argparse
import os
import shlex
from collections.abc import Callable
from typing import Any

from proxfl.cli.commands.federate.watching import until_stopped
from proxfl.cli.shared.arguments import add_folder, host, port
from proxfl.console.words import printable
from proxfl.deploy.ops.home import Home, Registered, read_json, write_json
from proxfl.errors import InputError

PORT = 9092


def arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add_folder(parser)
    add(
        "--host",
        type=host,
        help="the address to listen at (default: all, with --insecure this machine only)",
    )
    add("--port", type=port, default=PORT, help=f"(default: {PORT})")
    add("--insecure", action="store_true", help="no TLS and no keys: whoever comes is believed")
    add("--page", action="store_true", help="show on this machine, in a browser, how it stands")


def main(args: argparse.Namespace) -> int:
    from proxfl.cli.commands.federate import views
    from proxfl.deploy.ops.page import StatusPage
    from proxfl.deploy.protocol.membership import LiveMembership

    home = Home(args.folder.resolve())
    membership = LiveMembership(home.folder)
    host = args.host or ("127.0.0.1" if args.insecure else "0.0.0.0")
    secure = not args.insecure
    begun = f"The server of {membership.name} is up; sites come in at {host}:{args.port}.\n"
    if secure:
        begun += f"Sites are let in by their keys, NAME.pub, in {home.public_keys}.\n"
    else:
        begun += "Without TLS and keys: use this on a network where you trust everyone.\n"
    begun += f"Logs: {home.server}."
    look = watcher(home, membership) if secure else lambda: None
    view = views.of_server(home, membership, secure, lambda: certificate_warning(home))
    page = (lambda: StatusPage(home.server, view)) if args.page else None
    code = until_stopped(lambda: start(home, host, args.port, secure), begun, look, page)
    print("The server is stopped.")
    return code


def start(home: Home, host: str, port: int, secure: bool) -> Any:
    """SuperLink and gate, and a note where they are."""
    from proxfl.deploy.ops.permissions import lock, private_folder
    from proxfl.deploy.transport.flower import launch

    lock(private_folder(home.server), "serve.lock")  # until this process ends
    inner, door = launch.free_port(), launch.Door(host, port)
    if secure:
        door = launch.Door(host, port, usable_keys(home), home.public_keys)
    supervisor = launch.serve(home.server, door, inner)
    inside = {"inside": f"127.0.0.1:{inner}", "secure": secure, "pid": os.getpid()}
    write_json(home.address, {"sites": f"{host}:{port}", **inside})
    return supervisor


def usable_keys(home: Home) -> Any:
    """The server's keys, if they are all there and still valid."""
    from proxfl.deploy.ops import keys

    made = keys.server_keys(home.server_keys)
    for path in made:
        if not path.exists():
            raise InputError(f"{path}: there is no such file; {renewal(home)}.")
        keys.refuse_ended(keys.life(path), path, renewal(home))
    keys.private_key(made.pair)
    return made


def renewal(home: Home) -> str:
    return f"renew it with proxfl federate keys renew {shlex.quote(os.path.relpath(home.folder))}"


def certificate_warning(home: Home) -> str:
    """What is to be said of the server's certificates, a month before they end; often nothing."""
    from proxfl.deploy.ops.keys import warning

    try:
        return warning(home.server_keys, renewal(home))
    except InputError as error:  # a file that cannot be read is said as well
        return str(error)


def watcher(home: Home, membership: Any) -> Callable[[], None]:
    """What lets in sites whose keys have come, and warns of certificates, when it is called."""
    register, last = registrar(home, membership), ""

    def look() -> None:
        nonlocal last
        register()
        said = certificate_warning(home)
        if said and said != last:
            print(said, flush=True)
        last = said

    return look


def registrar(home: Home, membership: Any) -> Callable[[], None]:
    """What lets in the members, as they are then, whose keys have come since it was last called.

    A key that is removed is refused by the gate. The SuperLink is not told: it would never take
    that key again, and a file that is replaced is gone for a moment.
    """
    from proxfl.deploy.ops.keyring import KeyRing, fingerprint
    from proxfl.deploy.transport.flower import launch

    ring, known, let_in = KeyRing(home.public_keys), registered(home), {}

    def register() -> None:
        nonlocal let_in
        sites, held = membership.sites, ring.keys()
        now = {site: fingerprint(key) for site, key in held.items() if site in sites}
        for site in let_in.keys() - now:
            print(f"Site {site} is let in no more.", flush=True)
        for site, key in now.items():
            if let_in.get(site) == key:
                continue
            if key not in known:
                try:
                    node = launch.register(home.server, home.public_keys / f"{site}.pub", site)
                except RuntimeError as error:
                    print(f"Site {site} is not let in: {printable(error)}", flush=True)
                    continue
                known[key] = {"site": site, "node": node}
                write_json(home.registered, {"keys": known})
            print(f"Site {site} is let in.", flush=True)
        let_in = now

    return register


def registered(home: Home) -> dict[str, Any]:
    """By the fingerprint of every key that was ever let in, its site and the number of its node."""
    path = home.registered
    return read_json(path, "", Registered)["keys"] if path.exists() else {}
