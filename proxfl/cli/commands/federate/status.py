"""`proxfl federate status DIR`: who is there, and how the last run stands."""

import argparse
from pathlib import Path

from proxfl.cli.commands.federate.run import running
from proxfl.cli.commands.federate.serve import registered
from proxfl.cli.commands.federate.watching import last_status, sentence
from proxfl.console.table import show
from proxfl.deploy.ops.home import Home
from proxfl.errors import InputError


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, metavar="DIR", help="the folder of the federation")


def main(args: argparse.Namespace) -> int:
    from proxfl.deploy.protocol.plan import read_plan
    from proxfl.deploy.transport.flower import launch

    home = Home(args.folder.resolve())
    plan = read_plan(home.folder)
    print(f"{plan.name}: {plan.spec.loss} model of {plan.spec.target}, {len(plan.sites)} sites.")
    try:
        found = running(home)
        kind = "TLS and keys" if found["secure"] else "no TLS and no keys"
        print(f"The server runs, with {kind}; sites come in at {found['sites']}.")
        names = {held["node"]: site for site, held in registered(home).items()}
        nodes = launch.nodes(home.server)
        show("", ["site", "is"], [[names.get(node, f"node {node}"), is_] for node, is_ in nodes])
    except InputError as error:
        print(error)
    status = last_status(home)
    if not status:
        print("There was no run yet.")
        return 0
    more = "; go on with proxfl federate resume" if status["state"] == "killed" else ""
    print(f"The last run is {status['state']}{more}: {sentence(status)}.")
    if "reason" in status:
        print(status["reason"])
    print(f"Results: {status['out']}")
    return 0
