"""`proxfl federate audit DIR --site NAME`: whether a site's log is whole, and what it tells."""

import argparse
from pathlib import Path

from proxfl.cli.shared.arguments import add_folder, refuse_there
from proxfl.console.table import show
from proxfl.console.words import printable
from proxfl.deploy.ops.home import Home
from proxfl.errors import DONE, FAILED, InputError


def arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add_folder(parser, "the folder from which the site joined")
    add("--site", required=True, metavar="NAME", help="the site")
    add("--head", metavar="N:DIGEST", help="a head of the log that was copied earlier")
    add("--out", type=Path, metavar="FILE.html", help="write a page of all of it there")


def main(args: argparse.Namespace) -> int:
    from proxfl.deploy.site import account, audit
    from proxfl.deploy.site.policy_file import policy_in
    from proxfl.deploy.site.tally import STUDIES, Tally
    from proxfl.report.audit import page

    folder = Home(args.folder.resolve()).site(args.site)
    if not folder.exists():
        raise InputError(f"{folder}: site {args.site!r} has not joined from this folder.")
    refuse_there(args.out)
    wrong = list(audit.faults(folder))
    if args.head is not None:
        wrong += audit.faults(folder, audit.Head.of(args.head))
    lines = [audit.parsed(line) for line in audit.lines_of(folder)]
    head, studies = audit.head_of(folder), (STUDIES, Tally(folder).catch_up().studies)
    spent = account.told(lines, policy_in(folder).delta)
    if args.out is not None:
        page(args.site, studies, lines, str(head), wrong, spent).write(args.out)
    show("", *studies)
    if spent is not None:
        print(spent)
    if wrong:
        log = printable(folder / audit.FILE)
        print(f"The log of site {args.site}, {log}, is not whole: {printable(wrong[0])}.")
        return FAILED
    print(f"The log of site {args.site} is whole. Its head: {head}")
    if args.out is not None:
        print(f"Page: {printable(args.out)}")
    return DONE
