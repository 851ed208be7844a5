"""`proxfl federate studies DIR`: what was or may be asked, at the server or at a site."""

import argparse
from typing import Any

from proxfl.cli.shared.arguments import add_folder
from proxfl.console.table import show
from proxfl.console.words import called, count, lines, printable
from proxfl.deploy.ops.home import Home
from proxfl.errors import InputError

DIGITS = 16  # of a digest, in a table


def arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add_folder(parser)
    add(
        "--site",
        metavar="NAME",
        help="the studies as this site knows them (default: as the server)",
    )


def main(args: argparse.Namespace) -> int:
    from proxfl.deploy.protocol.study import SUFFIX, read_study_at

    home = Home(args.folder.resolve())
    if args.site is not None:
        of_site(office_of(home, args.site))
        return 0
    found = [read_study_at(path) for path in sorted(home.studies.glob(f"*{SUFFIX}"))]
    show("", ["study", "asks", "about", "digest"], [line(study) for study in found])
    return 0


def of_site(office: Any) -> None:
    """All studies, and of those that wait for a person what they ask."""
    from proxfl.deploy.protocol.study import WAITS

    decisions = {study: office.audit.decisions.get(study.id, "") for study in office.studies()}
    rows = [[*line(study), decision] for study, decision in decisions.items()]
    show("", ["study", "asks", "about", "digest", "the site"], rows)
    for study in (study for study, decision in decisions.items() if decision == WAITS):
        print(f"Study {called(study.name)} ({study.id[:DIGITS]}) waits for a person; it asks:")
        print(lines(study.words))
        print(f"All of it: {printable(office.text_at(study.id))}")


def line(study: Any) -> list[str]:
    from proxfl.train.spec import outcome_of

    about = f"{study.spec.loss} model of {called(outcome_of(study.spec))}"
    if study.ask == "describe":
        about = count(len(study.schema.columns), "column")
    return [study.name, study.ask, about, study.id[:DIGITS]]


def office_of(home: Home, site: str) -> Any:
    """What a site keeps, if it has ever joined here."""
    from proxfl.deploy.site.office import Office

    folder = home.site(site)
    if folder.parent != home.folder or not folder.exists():
        raise InputError(f"{folder}: site {site!r} has not joined from this folder.")
    return Office(folder)
