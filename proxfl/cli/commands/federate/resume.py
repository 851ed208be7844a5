"""`proxfl federate resume DIR`: on from the last round that is on the disk, to the same model."""

import argparse
import contextlib
from pathlib import Path

from proxfl.cli.commands.federate import run as running
from proxfl.cli.commands.federate.standing import resumption
from proxfl.cli.commands.train import conclude, is_finished
from proxfl.cli.shared import options
from proxfl.cli.shared.arguments import add_folder
from proxfl.deploy.ops.home import Home
from proxfl.errors import InputError
from proxfl.train.folder import MANIFEST, read_manifest


def arguments(parser: argparse.ArgumentParser) -> None:
    add_folder(parser)
    running.shared_arguments(parser)


def main(args: argparse.Namespace) -> int:
    from proxfl.deploy.transport.flower import launch

    home = Home(args.folder.resolve())
    status = running.last_run(home)
    if not status:
        raise InputError(f"{args.folder}: there was no run yet; start one: proxfl federate run.")
    out = Path(status["out"])
    if (out / MANIFEST).exists() and is_finished(out, read_manifest(out), options.given(args)):
        return conclude(out, args.json, resumption(home))
    if status["state"] == "finished" and running.teller(out) is not None:
        return running.show(home, out, args.json)
    running.running(home)
    if status["state"] == "killed":
        with contextlib.suppress(RuntimeError):  # Flower may know already, or know nothing of it
            launch.stop_run(home.server, status["run"])
    return running.carry_out(home, out, args, before=status["options"])
