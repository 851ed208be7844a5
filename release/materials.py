"""`python -m release.materials`: a bill of materials (CycloneDX) beside each wheel in dist/.

It lists what a server and a site install by requirements/deploy.txt, with versions and hashes.
"""

import subprocess
import sys
from pathlib import Path

from release import lock

DIST = Path("dist")


def main() -> None:
    wheels = list(DIST.glob("*.whl"))
    if not wheels:
        raise SystemExit("There is no wheel in dist/; make it with `make build`.")
    for wheel in wheels:
        path = wheel.with_suffix(".cdx.json")
        command = [sys.executable, "-m", "cyclonedx_py", "requirements", str(lock("deploy"))]
        command += ["--pyproject=pyproject.toml", "--output-reproducible", "--of=JSON"]
        subprocess.run([*command, f"--output-file={path}"], check=True)
        print(f"Bill of materials: {path}")


if __name__ == "__main__":
    main()
