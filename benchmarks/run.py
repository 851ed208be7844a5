"""`python -m benchmarks.run [NAME ...]`: run benchmarks, one JSON each, under results/bench/.

The table and the figures over all of them are made by `python -m benchmarks.show`.
"""

import argparse
import importlib
import json
from pathlib import Path

import jax

from benchmarks.side import machine
from proxfl.files import write_text

ALL = (
    "figure1",
    "cnn",
    "sparse",
    "clients",
    "sweeps",
    "pooled",
    "flower",
    "pfl_research",
    "rounds",
    "leads",
    "startup",
)
ON_GPU = ("cnn", "sweeps", "million")
OUT = Path("results/bench")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*ALL, *ON_GPU, []], metavar="NAME")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--repeats", type=int, default=None, help="fewer or more than usual")
    args = parser.parse_args()
    where = jax.default_backend()
    for name in args.names or (ALL if where == "cpu" else ON_GPU):
        more = {} if args.repeats is None else {"repeats": args.repeats}
        found = importlib.import_module(f"benchmarks.{name}").run(**more)
        path = args.out / f"{name}-{where}.json"
        told = {"command": f"python -m benchmarks.run {name}", "machine": machine()}
        write_text(path, json.dumps(told | found, indent=2) + "\n")
        print(f"{name}: {path}", flush=True)


if __name__ == "__main__":
    main()
