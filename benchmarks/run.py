"""`python -m benchmarks.run`: every benchmark, written to results/bench/."""

import json
import os
import platform
from pathlib import Path

import jax

from benchmarks import figure1
from proxfl.files import write_text


def machine() -> dict:
    device = jax.devices()[0]
    return {
        "cores": os.cpu_count(),
        "processor": platform.processor() or platform.machine(),
        "device": f"{device.platform} {device.device_kind}",
        "jax": jax.__version__,
        "python": platform.python_version(),
    }


def main() -> None:
    found = {"machine": machine(), "figure1": figure1.run()}
    path = Path("results/bench/bench.json")
    write_text(path, json.dumps(found, indent=2) + "\n")
    print(json.dumps(found, indent=2))
    print(f"Written to {path}")


if __name__ == "__main__":
    main()
