"""Outcomes of the long tests, for people to read: `results/soak/NAME.json`."""

import json
import os
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from proxfl.storage.files import write_text

FOLDER = Path(__file__).parent.parent / "results" / "soak"


def soak(name: str, seeds: range, block: int, run: Callable[[range], Counter[str]]) -> None:
    """Go through many seeds, some at a time, and write how all so far have ended.

    A run that is cut short leaves what it has done. What is counted as `longest ...` or
    `largest ...` is not added up. A failure ends it, and nothing of that block is written.
    """
    ends: Counter[str] = Counter()
    for start in range(0, len(seeds), block):
        part = seeds[start : start + block]
        for end, number in run(part).items():
            peak = end.startswith(("longest", "largest"))
            ends[end] = max(ends[end], number) if peak else ends[end] + number
        told = {
            "command": f"pytest -m soak {os.environ['PYTEST_CURRENT_TEST'].split('::')[0]}",
            "seeds": [seeds[0], part[-1]],
            "seeds asked for": len(seeds),
            "ends": dict(sorted(ends.items())),
        }
        write_text(FOLDER / f"{name}.json", json.dumps(told, indent=1) + "\n")
        print(name, part[-1], file=sys.stderr)
