"""`proxfl federate run DIR`: train over the sites, and show how it goes."""

import argparse
import contextlib
import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from proxfl.cli import options
from proxfl.cli.federated.watching import follow
from proxfl.cli.train import conclude, on_sigterm
from proxfl.spec import FIELDS
from proxfl.tables import InputError


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, metavar="DIR", help="the folder of the federation")
    parser.add_argument("--out", type=Path, help="the folder for the results (default: in DIR)")
    told(parser)


def told(parser: argparse.ArgumentParser) -> None:
    """What a run and its resumption may both be told."""
    for name in ("rounds", "tol"):
        options.add_one(parser, FIELDS[name])
    parser.add_argument(
        "--quorum", type=int, default=0, metavar="N", help="go on with this many sites (all)"
    )
    parser.add_argument(
        "--wait", type=float, default=120.0, help="seconds for the others, once a quorum is there"
    )
    parser.add_argument(
        "--deadline", type=float, default=600.0, help="seconds for a quorum, before it stops"
    )
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object")


def run(args: argparse.Namespace) -> int:
    from proxfl.deploy.home import Home

    home = Home(args.folder.resolve())
    out = home.results() if args.out is None else args.out.resolve()
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"{args.out}: the folder is not empty; choose another with --out.")
    return carry_out(home, out, args)


def resumption(home: Any) -> str:
    return f"proxfl federate resume {shlex.quote(os.path.relpath(home.folder))}"


def carry_out(
    home: Any, out: Path, args: argparse.Namespace, meanwhile: Callable[[], None] = lambda: None
) -> int:
    """Submit a run, follow it, and show what it came to."""
    from proxfl.deploy import launch

    with on_sigterm():
        number = submit(home, out, args)
        print(f"Run {number} is started. Ctrl-C stops it; nothing is lost.", file=sys.stderr)
        try:
            ended = follow(home, number, meanwhile)
        except KeyboardInterrupt:
            with contextlib.suppress(RuntimeError):
                launch.stop_run(home.server, number)
            print(f"Interrupted; go on with: {resumption(home)}", file=sys.stderr)
            return 130
    if ended["state"] == "finished":
        return conclude(out, args.json, resumption(home))
    print(f"proxfl federate: {ended['reason']}", file=sys.stderr)
    if (out / "checkpoint.npz").exists():
        print(f"Go on with: {resumption(home)}", file=sys.stderr)
    return ended["code"]


def submit(home: Any, out: Path, args: argparse.Namespace) -> str:
    from proxfl.deploy import launch
    from proxfl.deploy.plan import read_plan
    from proxfl.deploy.training import Order, refuse_quorum

    plan, given = read_plan(home.folder), options.given(args)
    inside = running(home)
    command = f"proxfl federate run {shlex.quote(str(home.folder))} {options.spelt(given)}"
    order = Order(
        folder=str(home.folder),
        out=str(out),
        command=command.strip(),
        rounds=given.get("rounds", 0),
        tol=float(given.get("tol", 0.0)),
        quorum=args.quorum,
        wait=args.wait,
        deadline=args.deadline,
        secure=inside["secure"],
    )
    refuse_quorum(order.spec(plan), len(plan.sites), order.quorum)
    if inside["secure"]:
        lacking = [site for site in plan.sites if not (home.public_keys / f"{site}.pub").exists()]
        if lacking:
            raise InputError(
                f"The key of site {lacking[0]} is not in {home.public_keys}; ask the site for it."
            )
    return launch.submit(home.server, home.app, order.__dict__)


def running(home: Any) -> dict[str, Any]:
    """Where the server is, if it runs."""
    from proxfl.deploy.home import read_json
    from proxfl.deploy.launch import healthy

    start = f"start it with proxfl federate serve {shlex.quote(os.path.relpath(home.folder))}"
    found = read_json(home.address, start)
    authority = home.server_keys / "ca.pem" if found["secure"] else None
    if not healthy(found["inside"], authority):
        raise InputError(f"The server of {home.folder} does not run; {start}.")
    return found
