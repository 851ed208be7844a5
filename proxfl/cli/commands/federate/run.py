"""`proxfl federate run DIR [STUDY]`: ask a study of the sites, and show how it goes."""

import argparse
import contextlib
import os
import shlex
import sys
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from proxfl.cli.commands.federate import study
from proxfl.cli.commands.federate.serve import certificate_warning
from proxfl.cli.commands.federate.standing import ENDED, last_status, resumption
from proxfl.cli.commands.federate.watching import follow, let_end
from proxfl.cli.commands.train import conclude
from proxfl.cli.shared import options
from proxfl.cli.shared.arguments import add_folder, add_json, count
from proxfl.console.words import printable
from proxfl.deploy.ops.home import EXCHANGES, Address, Home, read_json
from proxfl.deploy.protocol.study import LOOSE
from proxfl.errors import FAILED, INTERRUPTED, InputError
from proxfl.options.kinds import BILLION, as_number
from proxfl.storage.files import refuse_full
from proxfl.train.folder import CHECKPOINT, CHOSEN, MODEL
from proxfl.train.spec import Spec


def seconds(text: str) -> float:
    """A time to wait."""
    found = as_number(text)
    if isinstance(found, str) or not 0 <= found <= BILLION:
        raise argparse.ArgumentTypeError(f"needs seconds, from 0 to {BILLION}, got {text!r}")
    return float(found)


PATIENCE = {
    "quorum": (count, "go on with this many sites (default: all)"),
    "wait": (seconds, "seconds for the others, once a quorum is there (default: 120)"),
    "deadline": (seconds, "seconds for a quorum, before the run stops (default: 600)"),
}


def arguments(parser: argparse.ArgumentParser) -> None:
    add_folder(parser)
    only = "the study to ask (default: the only one)"
    parser.add_argument("study", nargs="?", metavar="STUDY", help=only)
    add_out(parser)
    shared_arguments(parser)


def add_out(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", type=Path, help="the folder for the results (default: in DIR)")


def shared_arguments(parser: argparse.ArgumentParser) -> None:
    """What a run and its resumption may both be given."""
    for name in LOOSE:
        options.add_one(parser, Spec.table()[name])
    add_patience(parser)


def add_patience(parser: argparse.ArgumentParser, without: Collection[str] = ()) -> None:
    for name, (kind, line) in PATIENCE.items():
        if name not in without:
            parser.add_argument(f"--{name}", type=kind, default=argparse.SUPPRESS, help=line)
    add_json(parser)


def main(args: argparse.Namespace) -> int:
    home = Home(args.folder.resolve())
    asked = study.chosen(home, args.study)
    first = asked.name == asked.federation  # as init calls the study that it writes
    begun = begun_at(home, asked) if args.out is None else None
    out = begun or args.out or home.results("" if first else asked.name)
    if begun is None:
        refuse_full(out)
    before = last_run(home)
    note = ""
    if begun is not None:
        note = f"Study {asked.name} was begun; it goes on in {begun}."
    elif before and before["state"] != "finished" and Path(before["out"]).exists():
        unfinished = f"The run in {before['out']} was not finished; this is a new one."
        note = f"{unfinished} To go on with that: {resumption(home)}"
    return carry_out(home, out.resolve(), args, before={"study": asked.name}, note=note)


def ask_new(home: Home, asked: Any, args: argparse.Namespace) -> int:
    """Write a study and ask it, if a server is there: else nobody would have asked it."""
    running(home)
    study.keep(home, asked)
    return main(args)


def begun_at(home: Home, asked: Any) -> Path | None:
    """Where the run of a masked study was interrupted: sites answer it once, so it goes on."""
    from proxfl.deploy.protocol.study import read_study_at
    from proxfl.deploy.server.deployed import STUDY

    kept = sorted(path.parent for path in home.folder.glob(f"results*/{EXCHANGES}"))
    mine = [out for out in kept if (out / STUDY).exists()]
    mine = [out for out in mine if read_study_at(out / STUDY).id == asked.id]
    done = [out for out in mine if (out / MODEL).exists() or (out / CHOSEN / MODEL).exists()]
    if done:
        raise InputError(
            f"study {asked.name} has its results in {done[0]}; under masks a study is asked once, "
            "so write another: proxfl federate study."
        )
    return mine[0] if mine else None


def last_run(home: Home) -> dict[str, Any]:
    """How the last run ended, if there was one; one that goes on is not to be disturbed."""
    status = last_status(home)
    if status and status["state"] not in ENDED:
        raise InputError(f"The run in {status['out']} is going on; stop it first, with Ctrl-C.")
    return status


def carry_out(
    home: Home,
    out: Path,
    args: argparse.Namespace,
    meanwhile: Callable[[], None] = lambda: None,
    *,
    before: Mapping[str, Any],
    note: str = "",
) -> int:
    """Submit a run, follow it, and show what it came to; `before` is what it was given earlier.

    The note is for who has begun a run; a run that is refused says that alone.
    """
    from proxfl.deploy.ops import stopping
    from proxfl.deploy.transport.flower import launch

    with stopping.stoppable():
        given = options_of(home, out, args, before)
        number = submit(home, given)
        for said in filter(None, (note, certificate_warning(home))):
            print(printable(said), file=sys.stderr)
        print(f"Run {number} is started. Ctrl-C stops it; nothing is lost.", file=sys.stderr)
        try:
            ended = follow(home, number, meanwhile)
        except stopping.Stopped:
            stopping.requested.clear()  # this one was heard; another cuts the farewell short
            with contextlib.suppress(RuntimeError, stopping.Stopped):
                launch.stop_run(home.server, number)
                let_end(home, number)
            print(f"Interrupted; go on with: {resumption(home)}", file=sys.stderr)
            return INTERRUPTED
    if ended["state"] == "finished":
        return show(home, out, args.json)
    reason = ended.get("reason", "the run stopped and did not say why")
    print(f"proxfl federate: {printable(reason)}", file=sys.stderr)
    other = home.exchanges(study.chosen(home, given.study).id)
    if any(path.exists() for path in (out / CHECKPOINT, out / EXCHANGES, other)):
        print(f"Go on with: {resumption(home)}", file=sys.stderr)
    return ended.get("code", FAILED)


def show(home: Home, out: Path, json: bool) -> int:
    """What a run came to."""
    tell = teller(out)
    return conclude(out, json, resumption(home)) if tell is None else tell(out, json)


def teller(out: Path) -> Callable[[Path, bool], int] | None:
    """What shows results that are there and are no model of a training."""
    from proxfl.cli.commands import describe, evaluate, path
    from proxfl.report import description, evaluation
    from proxfl.report.path import SUMMARY

    known = {
        SUMMARY: path.show_saved,
        evaluation.SUMMARY: evaluate.show_saved,
        description.SUMMARY: describe.show_saved,
    }
    return next((tell for name, tell in known.items() if (out / name).exists()), None)


def options_of(home: Home, out: Path, args: argparse.Namespace, before: Mapping[str, Any]) -> Any:
    from proxfl.deploy.server.options import RunOptions

    found = options.given(args)
    given = {key: Spec.table()[key].read(found[key]) for key in LOOSE if key in found}
    patience = {name: getattr(args, name) for name in PATIENCE if name in args}
    usual = f"proxfl federate run {shlex.quote(str(home.folder))} {before['study']}"
    command = before.get("command", usual)
    where = {"folder": str(home.folder), "out": str(out), "secure": running(home)["secure"]}
    words = {"command": f"{command} {options.spelt(given | patience)}".strip()}
    return RunOptions(**{**before, **given, **patience, **where, **words})


def submit(home: Home, given: Any) -> str:
    from proxfl.deploy.ops.keyring import KeyRing
    from proxfl.deploy.server.epoch import kept
    from proxfl.deploy.server.options import refuse_options, refuse_quorum
    from proxfl.deploy.transport.flower import launch

    asked = study.chosen(home, given.study)
    kept(home.epoch)  # refused here, where somebody reads it
    refuse_quorum(given.spec(asked), len(asked.sites), given.quorum)
    refuse_options(asked, given)
    held = KeyRing(home.public_keys).keys()
    lacking = [site for site in asked.sites if site not in held]
    if given.secure and lacking:
        where = f"is not in {home.public_keys}, or cannot be read; ask the site for it."
        raise InputError(f"The key of site {lacking[0]} {where}")
    return launch.submit(home.server, home.app, given.__dict__)


def running(home: Home) -> dict[str, Any]:
    """Where the server is, if it runs."""
    from proxfl.deploy.transport.flower.launch import healthy

    start = f"start it with proxfl federate serve {shlex.quote(os.path.relpath(home.folder))}"
    found = read_json(home.address, start, Address) if home.address.exists() else None
    authority = home.inner_authority if found and found["secure"] else None
    if found is None or not healthy(found["inside"], authority):
        raise InputError(f"The server of {home.folder} does not run; {start}.")
    return found
