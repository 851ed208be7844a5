"""`proxfl federate join DIR --data FILE --server HOST:PORT`: one site's side, until stopped."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from proxfl.cli.commands.federate.keys import known
from proxfl.cli.commands.federate.watching import until_stopped
from proxfl.deploy.ops.home import SITE_STATUS, Home, read_json
from proxfl.errors import InputError


def arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("folder", type=Path, metavar="DIR", help="a folder with federation.toml and ca.pem")
    add("--data", type=Path, required=True, metavar="FILE", help="the site's rows")
    add("--server", required=True, metavar="HOST:PORT", help="where it listens")
    add("--site", metavar="NAME", help="the site (default: named like the file)")
    add("--insecure", action="store_true", help="if the server runs so: no TLS")


def main(args: argparse.Namespace) -> int:
    from proxfl.deploy.protocol.plan import read_plan, read_table

    home = Home(args.folder.resolve())
    plan = read_plan(home.folder)
    site = known(plan, args.site or args.data.stem)
    if ":" not in args.server:
        raise InputError(f"--server must be HOST:PORT, got {args.server!r}.")
    rows = read_table(plan, args.data).rows
    begun = f"Site {site} takes part in {plan.name} with {rows} rows, which stay here.\n"
    begun += f"Logs: {home.site(site)}."
    command = (home, site, args.data.resolve(), args.server, not args.insecure)
    code = until_stopped(lambda: start(*command), begun, speaker(home.site(site)))
    print(f"Site {site} is stopped.")
    return code


def speaker(folder: Path) -> Callable[[], None]:
    """What prints how the site stands with the server, whenever that has changed."""
    last = ""

    def speak() -> None:
        nonlocal last
        sentence = read_json(folder / SITE_STATUS, "")["sentence"]
        if sentence != last:
            print(sentence, flush=True)
        last = sentence

    return speak


def start(home: Home, site: str, data: Path, server: str, secure: bool) -> Any:
    """The process of a site; with TLS its key is made if it has none."""
    from proxfl.deploy.ops.keys import make_site_keys
    from proxfl.deploy.ops.permissions import lock, private_folder
    from proxfl.deploy.transport.flower import launch

    folder = private_folder(home.site(site))
    lock(folder, "join.lock")  # until this process ends
    command = [sys.executable, "-m", "proxfl.deploy.transport.flower.process", str(folder)]
    command += ["--plan", str(home.folder), "--site", site, "--data", str(data), "--server", server]
    if secure:
        if not home.authority.exists():
            raise InputError(f"{home.authority}: there is no such file; copy it from the server.")
        fresh = not (folder / "keys").exists()
        keys = make_site_keys(folder / "keys", site)
        command += ["--authority", str(home.authority), "--key", str(keys.private)]
        if fresh:
            print(f"A key was made; give {keys.public} to the server, for its folder sites/.")
    return launch.join(folder, command)
