"""`proxfl COMMAND ...`.

Exit codes are in `proxfl/errors.py`.
"""

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from proxfl import __version__
from proxfl.cli.shared.arguments import add_commands
from proxfl.deploy.ops.stopping import turn_deaf, undisturbed
from proxfl.errors import BAD_INPUT, DONE, INTERRUPTED

# Command -> one line of help; proxfl.cli.commands.COMMAND defines arguments(parser) and main(args).
COMMANDS = {
    "demo": "the main job on built-in data: Figure 1, its claims, and a report",
    "train": "fit a model to files, one per site, to a certificate of optimality",
    "federate": "train over real sites: a server, and data that stay where they are",
    "path": "choose the weight of a penalty by federated cross-validation",
    "predict": "apply a model to the rows of a file",
    "inspect": "show what a model is and how it was certified",
    "report": "write the report of a result folder anew",
    "reproduce": "run the paper's experiments and judge its claims",
    "compare": "a league table of methods, each tuned on the same budget",
    "data": "fetch a public data set (MNIST) into the cache folder",
    "sweep": "a grid or random search over steps and penalty",
    "steps": "the constants of a problem, and steps by theory and by practice",
}


def program() -> int:
    """The console script: `main`, with compiled programs kept from one call to the next."""
    import platformdirs

    kept = Path(platformdirs.user_cache_dir("proxfl", appauthor=False)) / "programs"
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(kept))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")
    code = main()
    turn_deaf()
    return code


def main(argv: Sequence[str] | None = None) -> int:
    args = argparse.Namespace(command="")
    try:
        with undisturbed():
            args = parser().parse_args(argv)
        return module(args.command).main(args) or DONE
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        return INTERRUPTED
    except (ValueError, OSError) as error:
        print(f"proxfl {args.command}".rstrip() + f": {error}", file=sys.stderr)
        return BAD_INPUT


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="proxfl",
        description="Sparse, low-rank and constrained models from data that stay where they are.",
        epilog="Run 'proxfl COMMAND --help' for the options of a command.",
    )
    made.add_argument("--version", action="version", version=f"proxfl {__version__}")
    add_commands(made, "command", COMMANDS, module)
    return made


def module(command: str):
    return importlib.import_module(f"proxfl.cli.commands.{command}")


if __name__ == "__main__":
    sys.exit(program())
