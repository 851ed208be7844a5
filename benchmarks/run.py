"""`python -m benchmarks.run [NAME ...]`: run benchmarks, one JSON each, under results/bench/.

The table and the figures over all of them are made by `python -m benchmarks.show`.
"""

import argparse
import importlib
import json
import subprocess
import sys
from pathlib import Path

import jax

from benchmarks.side import machine
from proxfl.storage.files import write_text

ALL = (
    "figure1",
    "cnn",
    "torch_loss",
    "sparse",
    "clients",
    "processes",
    "roofline",
    "sweeps",
    "pooled",
    "flower",
    "pfl_research",
    "exchanges",
    "wide",
    "coverage",
    "startup",
)
ON_GPU = ("cnn", "cnn_variants", "torch_loss", "sweeps", "million")
OUT = Path("results/bench")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*ALL, *ON_GPU, []], metavar="NAME")
    parser.add_argument("--out", type=Path, default=OUT)
    args = parser.parse_args()
    names = args.names or ALL
    if len(names) > 1:
        for name in names:  # each in a process of its own: memory is counted by process
            command = [sys.executable, "-m", "benchmarks.run", name, "--out", str(args.out)]
            subprocess.run(command, check=True)
        return
    (name,), where = names, jax.default_backend()
    found = importlib.import_module(f"benchmarks.{name}").run()
    path = args.out / f"{name}-{where}.json"
    told = {"command": f"python -m benchmarks.run {name}", "machine": machine()}
    write_text(path, json.dumps(told | found, indent=2) + "\n")
    print(f"{name}: {path}", flush=True)


if __name__ == "__main__":
    main()
