"""`proxfl federate approve DIR STUDY --site NAME`: a person's word for a study that waits."""

import argparse

from proxfl.cli.commands.federate.studies import DIGITS, office_of
from proxfl.cli.shared.arguments import add_folder
from proxfl.console.words import lines
from proxfl.deploy.ops.home import Home
from proxfl.errors import InputError


def arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add_folder(parser, "the folder from which the site joined")
    add("study", metavar="STUDY", help="its name, or the first digits of its digest")
    add("--site", required=True, metavar="NAME", help="the site")


def main(args: argparse.Namespace) -> int:
    office = office_of(Home(args.folder.resolve()), args.site)
    known = office.studies()
    found = [s for s in known if s.name == args.study or s.id.startswith(args.study)]
    if not found:
        names = ", ".join(f"{study.name} ({study.id[:DIGITS]})" for study in known) or "none"
        raise InputError(f"no study {args.study!r} was proposed to site {args.site}, only {names}.")
    if len(found) > 1:
        digests = ", ".join(study.id[:DIGITS] for study in found)
        raise InputError(f"{args.study!r} may be any of {digests}; give the digest.")
    (study,) = found
    office.approve(study)
    print(lines(study.words))
    print(f"Study {study.name} ({study.id}) is approved at site {args.site}.")
    return 0
