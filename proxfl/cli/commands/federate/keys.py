"""`proxfl federate keys DIR`: who the server is, and who a site is."""

import argparse
from pathlib import Path

from proxfl.deploy.ops.home import Home
from proxfl.errors import InputError


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, metavar="DIR", help="the folder of the federation")
    parser.add_argument("--site", metavar="NAME", help="at a site: make its key")
    hosts = "at the server: names its certificate is for"
    parser.add_argument("--host", nargs="+", default=[], help=hosts)


def main(args: argparse.Namespace) -> int:
    from proxfl.deploy.ops.keys import make_server_keys, make_site_keys
    from proxfl.deploy.protocol.plan import read_plan
    from proxfl.storage.files import write_text

    home = Home(args.folder.resolve())
    plan = read_plan(home.folder)
    if args.site is not None:
        made = make_site_keys(home.site(known(plan, args.site)) / "keys", args.site)
        print(f"Private key: {made.private}; it stays here.")
        print(f"Public key: {made.public}; give it to the server, for its folder sites/.")
        return 0
    made = make_server_keys(home.server_keys, args.host)
    write_text(home.authority, made.authority.read_text())
    print(f"Certificate of the server: {made.certificate}; its key stays here.")
    print(f"Certificate of its authority: {home.authority}; give it to every site.")
    return 0


def known(plan, site: str) -> str:
    """The site's name, if the federation has it."""
    if site not in plan.sites:
        names = ", ".join(plan.sites)
        raise InputError(f"{site!r} is no site of {plan.name}; it is one of {names}.")
    return site
