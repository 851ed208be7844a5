"""`proxfl federate ACTION ...`: the training of `proxfl train` over real sites."""

import argparse
import importlib

from proxfl.cli.shared.arguments import add_commands
from proxfl.deploy.ops.stopping import stoppable
from proxfl.errors import DONE, InputError

# Action -> one line of help; the module of that name defines arguments(parser) and main(args).
ACTIONS = {
    "init": "server: write the folder of a federation, with its keys, and its first study",
    "keys": "who may connect: make, add, remove, rotate and list keys, renew the certificate",
    "serve": "server: let sites come in; runs until it is stopped",
    "join": "site: take part with a file of data; runs until it is stopped",
    "study": "server: write a study, which is something to ask the sites",
    "studies": "list the studies: those of the server, or those that a site was asked for",
    "approve": "site: approve a study that waits for a person",
    "members": "add or remove a member; site: whose answers are summed with its own, by which keys",
    "audit": "site: check the log of what was asked and what left, and write a page of it",
    "run": "server: ask a study of the sites, show the progress, write the results",
    "path": "server: choose the weight of a penalty by cross-validation, folds dealt at the sites",
    "describe": "server: what the columns hold at the sites, as table one of a paper",
    "evaluate": "server: how good a model is at the sites, from sums over their rows",
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
        said, _, rest = str(error).partition("\n")
        refused = InputError(said)
        if rest:
            refused.add_note(rest)
        raise refused from None


def module(action: str):
    return importlib.import_module(f"proxfl.cli.commands.federate.{action}")
