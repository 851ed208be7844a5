"""`proxfl COMMAND ...`.

Exit codes are in `proxfl/errors.py`.
"""

import argparse
import gc
import importlib
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from proxfl.cli.shared.arguments import LazyParser, add_commands
from proxfl.cli.shared.version import ShowVersion, without_traceback
from proxfl.console.words import lines, printable
from proxfl.deploy.ops.stopping import turn_deaf, undisturbed
from proxfl.errors import BAD_INPUT, DISK, DONE, INTERRUPTED, UNREAD, DiskError

# Command -> one line of help; proxfl.cli.commands.COMMAND defines arguments(parser) and main(args).
COMMANDS = {
    "demo": "the main job on built-in data: Figure 1, its claims, and a report",
    "schema": "draft what the columns of the files are, for a person to edit",
    "describe": "table one: what the columns hold, by site and overall",
    "train": "fit a model to files, one per site, to a certificate of optimality",
    "federate": "train over real sites: a server, and data that stay where they are",
    "path": "choose the weight of a penalty by federated cross-validation",
    "predict": "apply a model to the rows of a file",
    "evaluate": "say how good a model is, at each site and overall",
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
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    # Imports and compilation leave many objects and hardly any garbage: by default the collector
    # goes through them again and again, for a sixth of a short command's time.
    gc.set_threshold(100_000)
    logging.getLogger("jax._src.xla_bridge").addFilter(without_traceback)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    code = main()
    turn_deaf()
    return code


def main(argv: Sequence[str] | None = None) -> int:
    args = argparse.Namespace(command="")
    try:
        with undisturbed():
            args = parser().parse_args(argv)
        code = module(args.command).main(args) or DONE
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # What is not read yet must not fail once more when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return UNREAD
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        return INTERRUPTED
    except DiskError as error:
        complain(f"proxfl {args.command}", error)
        return DISK
    except (ValueError, OSError) as error:
        complain(f"proxfl {args.command}".rstrip(), error)
        return BAD_INPUT


def complain(who: str, error: Exception) -> None:
    """The error in one line, then what was noted with it."""
    words = str(error)
    if isinstance(error, OSError) and error.filename is not None:
        words = f"{error.filename}: {error.strerror}."
    print(f"{who}: {printable(words)}", file=sys.stderr)
    for note in getattr(error, "__notes__", ()):
        print(lines(note), file=sys.stderr)


def parser() -> argparse.ArgumentParser:
    made = LazyParser(
        prog="proxfl",
        description="Sparse, low-rank and constrained models from data that stay where they are.",
        epilog="Run 'proxfl COMMAND --help' for the options of a command.",
    )
    words = "show the version and the device, and exit"
    made.add_argument("--version", action=ShowVersion, nargs=0, help=words)
    add_commands(made, "command", COMMANDS, module)
    return made


def module(command: str):
    return importlib.import_module(f"proxfl.cli.commands.{command}")


if __name__ == "__main__":
    sys.exit(program())
