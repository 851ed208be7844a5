"""`python -m release.lock [--upgrade]`: pin all that pyproject.toml asks for, with hashes.

The files hold versions and hashes, and no address: from where packages come is everybody's own
choice, and the hashes make it a safe one.
"""

import subprocess
import sys
import tempfile

from proxfl.storage.files import write_text
from release import BUILDS, EXTRAS, FIRST, lock

HEAD = "# The versions everything was tested with, on Python 3.11; made by `make lock`.\n"
QUIET = ("header", "annotate", "emit-index-url", "emit-trusted-host", "emit-find-links")
OPTIONS = ("--generate-hashes", "--strip-extras", "--allow-unsafe", "--build-deps-for=editable")


def compiled(name: str, extras: tuple[str, ...], more: list[str]) -> str:
    command = [sys.executable, "-m", "piptools", "compile", "--quiet", *OPTIONS, *more]
    command += [f"--no-{word}" for word in QUIET] + [f"--extra={extra}" for extra in extras]
    command += [] if name == FIRST else [f"--constraint={lock(FIRST)}"]
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as build:
        build.write(BUILDS.get(name, ""))
        build.flush()
        command += [f"--constraint={build.name}", f"--output-file={lock(name)}", "pyproject.toml"]
        subprocess.run(command, check=True)
    lines = lock(name).read_text().splitlines(keepends=True)
    return HEAD + "".join(line for line in lines if line.strip() and not line.startswith("#"))


def main() -> None:
    for name, extras in EXTRAS.items():
        write_text(lock(name), compiled(name, extras, sys.argv[1:]))


if __name__ == "__main__":
    main()
