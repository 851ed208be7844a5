"""`proxfl federate ACTION ...`: the training of `proxfl train` over real sites."""

import argparse
import importlib

from proxfl.cli.shared.arguments import add_commands
from proxfl.deploy.ops.stopping import stoppable
from proxfl.errors import DONE, InputError

# Action -> one line of help; the module of that name defines arguments(parser) and main(args).
ACTIONS = {
    "init": "server: write the folder of a federation, with its keys, for a chosen problem",
    "keys": "make the keys of a site, or certificates for more names of the server",
    "serve": "server: let sites come in; runs until it is stopped",
    "join": "site: take part with a file of data; runs until it is stopped",
    "run": "server: train, show the progress, write the results",
    "resume": "server: go on with a run that was interrupted",
    "status": "server: show which sites are there and how the last run stands",
    "demo": "all of it on this machine, on built-in data, compared with proxfl train",
}


def arguments(parser: argparse.ArgumentParser) -> None:
    add_commands(parser, "action", ACTIONS, module)


def main(args: argparse.Namespace) -> int:
    try:
        with stoppable():
            return module(args.action).main(args) or DONE
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("flwr", "cryptography", "psutil"):
            raise
        raise InputError("this needs Flower; pip install 'proxfl[flower]'.") from None
    except RuntimeError as error:  # what a process that did not start said last
        raise InputError(str(error)) from None


def module(action: str):
    return importlib.import_module(f"proxfl.cli.commands.federate.{action}")
