"""`proxfl federate status DIR`: who is there, and how the last run stands."""

import argparse

from proxfl.cli.commands.federate.run import running
from proxfl.cli.commands.federate.serve import certificate_warning
from proxfl.cli.commands.federate.standing import (
    ENDED,
    attendance,
    last_status,
    resumption,
    standing,
)
from proxfl.cli.shared.arguments import add_folder
from proxfl.console.table import show
from proxfl.console.words import printable
from proxfl.deploy.ops.home import Home
from proxfl.errors import InputError


def arguments(parser: argparse.ArgumentParser) -> None:
    add_folder(parser)


def main(args: argparse.Namespace) -> int:
    from proxfl.deploy.ops.keyring import KeyRing
    from proxfl.deploy.protocol.membership import read_membership

    home = Home(args.folder.resolve())
    membership = read_membership(home.folder)
    try:
        found = running(home)
        kind = "TLS and keys" if found["secure"] else "no TLS and no keys"
        where = f"sites come in at {printable(found['sites'])}"
        print(f"The server of {membership.name} runs, with {kind}; {where}.")
        ring = KeyRing(home.public_keys) if found["secure"] else None
        there = attendance(home, membership.sites, ring)
        show("", ["site", "is"], list(there.items()))
        if found["secure"] and (said := certificate_warning(home)):
            print(said)
    except InputError as error:
        print(printable(error))
    status = last_status(home)
    print(printable(standing(status)))
    if not status:
        return 0
    if status["state"] in ENDED[1:]:
        print(f"To go on with it: {resumption(home)}")
    print(f"Results: {printable(status['out'])}")
    return 0
