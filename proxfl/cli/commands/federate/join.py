"""`proxfl federate join DIR --data FILE --server HOST:PORT`: one site's side, until stopped."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from proxfl.cli.commands.federate.watching import until_stopped
from proxfl.cli.shared.arguments import address
from proxfl.console.words import printable
from proxfl.deploy.ops.home import SITE_STATUS, Home, SiteStatus, read_json
from proxfl.errors import InputError


def arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("folder", type=Path, metavar="DIR", help="a folder with federation.toml and ca.pem")
    add("--data", type=Path, required=True, metavar="FILE", help="the site's rows")
    add("--server", required=True, type=address, metavar="HOST:PORT", help="where it listens")
    add("--site", metavar="NAME", help="the site (default: named like the file)")
    add("--insecure", action="store_true", help="if the server runs so: no TLS")
    add("--page", action="store_true", help="show on this machine, in a browser, how it stands")


def main(args: argparse.Namespace) -> int:
    from proxfl.cli.commands.federate import views
    from proxfl.deploy.ops.page import StatusPage
    from proxfl.deploy.ops.permissions import private_folder
    from proxfl.deploy.protocol.membership import known, read_membership
    from proxfl.deploy.site.policy_file import POLICY, policy_in, write_policy
    from proxfl.tables.files import refuse_unreadable

    home = Home(args.folder.resolve())
    membership = read_membership(home.folder)
    site = known(membership, args.site or args.data.stem)
    refuse_unreadable(args.data)
    folder = private_folder(home.site(site))
    write_policy(folder)
    policy_in(folder)  # refused here, where somebody reads it
    begun = f"Site {site} takes part in {membership.name} with {args.data}, which stays here.\n"
    begun += f"Logs: {folder}. Policy: {folder / POLICY}."
    command = (home, site, args.data.resolve(), args.server, not args.insecure)
    view = views.of_site(folder, site, membership.name, args.server)
    page = (lambda: StatusPage(folder, view)) if args.page else None
    code = until_stopped(lambda: start(*command), begun, speaker(folder), page)
    print(f"Site {site} is stopped.")
    return code


def speaker(folder: Path) -> Callable[[], None]:
    """What prints how the site stands with the server, whenever that has changed."""
    last: list[str] = []

    def speak() -> None:
        nonlocal last
        found = read_json(folder / SITE_STATUS, "", SiteStatus)
        now = [found["sentence"], *found.get("news", [])]
        for sentence in now:
            if sentence not in last:
                print(printable(sentence), flush=True)
        last = now

    return speak


def start(home: Home, site: str, data: Path, server: str, secure: bool) -> Any:
    """The process of a site; with TLS its key is made if it has none."""
    from proxfl.deploy.ops.keys import make_site_keys, site_keys
    from proxfl.deploy.ops.permissions import lock, private_folder
    from proxfl.deploy.transport.flower import launch
    from proxfl.storage.files import remove

    folder = private_folder(home.site(site))
    lock(folder, "join.lock")  # until this process ends
    remove(folder / SITE_STATUS)  # of a process before this one
    command = [sys.executable, "-m", "proxfl.deploy.transport.flower.process", str(folder)]
    command += ["--federation", str(home.folder), "--site", site, "--data", str(data)]
    command += ["--server", server]
    if secure:
        if not home.authority.exists():
            raise InputError(f"{home.authority}: there is no such file; copy it from the server.")
        fresh = not site_keys(folder / "keys", site).private.exists()
        keys = make_site_keys(folder / "keys", site)
        command += ["--authority", str(home.authority), "--key", str(keys.private)]
        if fresh:
            given = f"give {printable(keys.public)} to the server, for its folder sites/."
            print(f"A key was made; {given}")
    return launch.join(folder, command)
