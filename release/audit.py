"""`python -m release.audit`: known vulnerabilities of all that is locked.

Asks the advisories of PyPI, by the versions in the locks. Where they cannot be reached nothing was
audited, and that is a failure.
"""

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from release import EXTRAS, lock

SECONDS = 15
BUILD = re.compile(r"(?<=\d)\+\w+")  # as in 2.13.0+cpu; advisories know versions only
UNREACHED = "No advisories could be reached, so nothing was audited: {why}"


def report(locks: Sequence[Path]) -> tuple[str, str]:
    """What pip-audit prints, and what it complains of."""
    command = [sys.executable, "-m", "pip_audit", "--disable-pip", "--require-hashes"]
    command += ["--format=json", "--progress-spinner=off", f"--timeout={SECONDS}"]
    with tempfile.TemporaryDirectory() as folder:
        for path in locks:
            copy = Path(folder) / path.name
            copy.write_text(BUILD.sub("", path.read_text()))
            command.append(f"--requirement={copy}")
        done = subprocess.run(command, capture_output=True, text=True)
    return done.stdout, done.stderr


def verdict(out: str, err: str) -> tuple[int, list[str]]:
    """An exit code, and sentences for it."""
    try:
        packages: list[dict[str, Any]] = json.loads(out)["dependencies"]
    except (ValueError, KeyError):
        why = (err.strip().splitlines() or ["pip-audit said nothing"])[-1]
        return 2, [UNREACHED.format(why=why[:300])]
    unknown = [package for package in packages if "vulns" not in package]
    if len(unknown) == len(packages):
        return 2, [UNREACHED.format(why=unknown[0]["skip_reason"] if unknown else "no package")]
    found = [
        f"{package['name']} {package['version']}: {known['id']}, mended in "
        f"{', '.join(known['fix_versions']) or 'no version yet'}."
        for package in packages
        for known in package.get("vulns", ())
    ]
    found += [f"{package['name']} was not audited: {package['skip_reason']}" for package in unknown]
    if found:
        return 1, found
    return 0, [f"{len(packages)} packages, none with a known vulnerability."]


def main() -> int:
    code, sentences = verdict(*report([lock(name) for name in EXTRAS]))
    print("\n".join(sentences))
    return code


if __name__ == "__main__":
    sys.exit(main())
