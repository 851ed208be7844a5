"""`proxfl federate members DIR`: who takes part, and whom a site knows, by a person's word."""

import argparse
from typing import Any

from proxfl.cli.commands.federate.keys import shut_out
from proxfl.cli.commands.federate.studies import DIGITS, office_of
from proxfl.cli.shared.arguments import add_folder
from proxfl.console.table import show
from proxfl.console.words import printable
from proxfl.deploy.ops.home import Home
from proxfl.errors import InputError


def arguments(parser: argparse.ArgumentParser) -> None:
    add_folder(parser)
    what = parser.add_mutually_exclusive_group()
    add = what.add_argument
    add("--site", metavar="NAME", help="at a site: the words of the members that it knows")
    add("--add", metavar="NAME", help="a member more, in this copy of federation.toml")
    add("--remove", metavar="NAME", help="a member fewer; at the server its key goes, too")
    parser.add_argument(
        "--compared",
        nargs="+",
        metavar="NAME",
        help="with --site: the others, two or more, whose people have read you the same words",
    )


def main(args: argparse.Namespace) -> int:
    home = Home(args.folder.resolve())
    if args.compared is not None and args.site is None:
        raise InputError("--compared is the word of a person at a site; give --site, too.")
    if args.site is not None:
        compare(home, args.site, args.compared)
    else:
        change(home, args.add, args.remove)
    return 0


def change(home: Home, more: str | None, fewer: str | None) -> None:
    """One member more or fewer; who runs hears of it by the file."""
    from proxfl.deploy.protocol.membership import read_membership

    membership = read_membership(home.folder)
    if more is not None:
        membership = membership.having(more)
        membership.write(home.folder)
    elif fewer is not None:
        membership = membership.without(fewer)
        if (home.public_keys / f"{fewer}.pub").exists():
            shut_out(home, fewer)
        membership.write(home.folder)
    print(f"{membership.name} is between {', '.join(membership.sites)}.")
    if more is not None or fewer is not None:
        print("So are the studies that are written from now on; nobody has to be started again.")
    if more is not None:
        print(f"Every other site adds {more} to its copy, or approves the studies one by one.")


def compare(home: Home, site: str, compared: list[str] | None) -> None:
    """Show a site's lists of members; take a person's word for the one that waits."""
    confirmed = office_of(home, site).confirmed
    lists = confirmed.lists()
    if not lists:
        raise InputError("no study has named its members yet; run one at the server first.")
    waiting = confirmed.waiting()
    if compared is not None:
        if len(waiting) != 1:
            raise InputError(f"one list of members must wait to be compared; {len(waiting)} do.")
        confirmed.confirm(waiting[0], site, compared)
        lists = confirmed.lists()
    for held in lists.values():
        tell(confirmed.read(held), held["compared"])


def tell(members: Any, compared: list[str]) -> None:
    rows = [
        [m.name, m.key.hex()[:DIGITS], "yes" if m.name in compared else ""] for m in members.each
    ]
    show("", ["site", "key", "compared"], rows)
    print(f"Words: {members.words}")
    if not compared:
        print("Have two others read you theirs; if they are the same: --compared NAME NAME.")
    else:
        print(printable(f"Compared with {', '.join(compared)}."))
