"""`python -m release.try_wheel`: the wheel in dist/ runs the demo in an empty environment."""

import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from release import lock

WHERE = "import proxfl, sys; sys.exit(not proxfl.__file__.startswith(sys.prefix))"


def main() -> None:
    (wheel,) = Path("dist").resolve().glob("*.whl")
    locked = lock("base").resolve()
    with tempfile.TemporaryDirectory(prefix="proxfl-wheel-") as made:
        folder = Path(made)
        venv.create(folder / "venv", with_pip=True)
        bin = folder / "venv" / "bin"
        # A lock has all that is installed: nothing is left to resolve.
        install = ["pip", "install", "--quiet", "--no-deps"]
        for words in (
            [*install, "--require-hashes", "--requirement", str(locked)],
            [*install, str(wheel)],
            ["pip", "check"],
            ["python", "-I", "-c", WHERE],
            ["proxfl", "demo", "--out", str(folder / "demo")],
        ):
            subprocess.run([str(bin / words[0]), *words[1:]], check=True, cwd=folder)
    print(f"{wheel.name} runs the demo in an empty environment.")


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as error:
        sys.exit(f"The wheel does not do its work: {error}")
