"""`proxfl federate status DIR`: who is there, and how the last run stands."""

import argparse
from pathlib import Path

from proxfl.cli.commands.federate.run import running
from proxfl.cli.commands.federate.serve import certificate_warning, registered
from proxfl.cli.commands.federate.watching import last_status, sentence
from proxfl.console.table import show
from proxfl.console.words import count, printable
from proxfl.deploy.ops.home import Home
from proxfl.errors import InputError


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, metavar="DIR", help="the folder of the federation")


def present(home: Home, nodes: list[tuple[str, str]]) -> list[list[str]]:
    """The sites by name and how they are; a node whose key was removed is not told of."""
    from proxfl.deploy.ops.keyring import KeyRing, fingerprint

    known = registered(home)
    held = {fingerprint(key) for key in KeyRing(home.public_keys).keys().values()}
    names = {entry["node"]: entry["site"] for entry in known.values()}
    past = {entry["node"] for key, entry in known.items() if key not in held}
    return [[names.get(node, f"node {node}"), is_] for node, is_ in nodes if node not in past]


def main(args: argparse.Namespace) -> int:
    from proxfl.deploy.protocol.membership import read_membership
    from proxfl.deploy.transport.flower import launch

    home = Home(args.folder.resolve())
    membership = read_membership(home.folder)
    studies = count(len(list(home.studies.glob("*.toml"))), "study").replace("studys", "studies")
    print(f"{membership.name}: {count(membership.sites, 'site')}, {studies}.")
    try:
        found = running(home)
        kind = "TLS and keys" if found["secure"] else "no TLS and no keys"
        print(f"The server runs, with {kind}; sites come in at {printable(found['sites'])}.")
        show("", ["site", "is"], present(home, launch.nodes(home.server)))
        if found["secure"] and (said := certificate_warning(home)):
            print(said)
    except InputError as error:
        print(printable(error))
    status = last_status(home)
    if not status:
        print("There was no run yet.")
        return 0
    more = "; go on with proxfl federate resume" if status["state"] == "killed" else ""
    print(f"The last run is {status['state']}{more}: {printable(sentence(status))}.")
    if "reason" in status:
        print(printable(status["reason"]))
    print(f"Results: {printable(status['out'])}")
    return 0
