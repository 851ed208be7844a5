"""`proxfl federate members DIR --site NAME`: whom a site knows, and a person's word for it."""

import argparse
from pathlib import Path
from typing import Any

from proxfl.cli.commands.federate.studies import DIGITS, office_of
from proxfl.console.table import show
from proxfl.console.words import printable
from proxfl.deploy.ops.home import Home
from proxfl.errors import InputError


def arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("folder", type=Path, metavar="DIR", help="the folder from which the site joined")
    add("--site", required=True, metavar="NAME", help="the site")
    add(
        "--compared",
        nargs="+",
        metavar="NAME",
        help="the others, two or more, whose people have read you the same words",
    )


def main(args: argparse.Namespace) -> int:
    confirmed = office_of(Home(args.folder.resolve()), args.site).confirmed
    lists = confirmed.lists()
    if not lists:
        raise InputError("no study has named its members yet; run one at the server first.")
    waiting = confirmed.waiting()
    if args.compared is not None:
        if len(waiting) != 1:
            raise InputError(f"one list of members must wait to be compared; {len(waiting)} do.")
        confirmed.confirm(waiting[0], args.site, args.compared)
        lists = confirmed.lists()
    for held in lists.values():
        tell(confirmed.read(held), held["compared"])
    return 0


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
