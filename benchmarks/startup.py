"""How long a user waits: `proxfl --help`, and the first result of the demo."""

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.side import seconds

PROXFL = Path(sys.executable).parent / "proxfl"


def run(repeats: int = 7) -> dict[str, Any]:
    helped = [
        seconds(lambda: subprocess.run([PROXFL, "--help"], check=True, capture_output=True))
        for _ in range(repeats)
    ]
    with tempfile.TemporaryDirectory() as folder:
        demo = [PROXFL, "demo", "--out", Path(folder) / "out"]
        whole = seconds(lambda: subprocess.run(demo, check=True, capture_output=True))
    return {
        "what": "seconds until the commands are done",
        "help_seconds": float(np.median(helped)),
        "demo_seconds": whole,
    }
