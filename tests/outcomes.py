"""Outcomes of the long tests, for people to read: `results/soak/NAME.json`.

`PROXFL_SOAK=3/8` has a test go through the third of eight parts of its seeds, so that processes
share them. Each writes a file of its own, and goes on from it if it is begun again;
`python -m tests.outcomes` joins what they reached.
"""

import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from proxfl.storage.files import remove, write_text

FOLDER = Path(__file__).parent.parent / "results" / "soak"
PART = os.environ.get("PROXFL_SOAK", "1/1")


def soak(name: str, seeds: range, block: int, run: Callable[[range], Counter[str]]) -> None:
    """Go through many seeds, some at a time, and write how all so far have ended.

    A run that is cut short leaves what it has done. A failure ends it, and nothing of that block is
    written.
    """
    part, parts = map(int, PART.split("/"))
    own = seeds[len(seeds) * (part - 1) // parts : len(seeds) * part // parts]
    path = FOLDER / (f"{name}.json" if parts == 1 else f"{name}.{part}-of-{parts}.json")
    told: dict[str, Any] = {"seeds reached": 0, "ends": {}}
    if parts > 1 and path.exists():
        told = json.loads(path.read_text())
    for start in range(told["seeds reached"], len(own), block):
        some = own[start : start + block]
        told = {
            "command": f"pytest -m soak {os.environ['PYTEST_CURRENT_TEST'].split('::')[0]}",
            "seeds": [[own[0], some[-1]]],
            "seeds asked for": len(seeds),
            "seeds reached": start + len(some),
            "ends": dict(sorted(together(told["ends"], run(some)).items())),
        }
        write_text(path, json.dumps(told, indent=1) + "\n")
        print(name, some[-1], file=sys.stderr)


def together(one: Mapping[str, float], other: Mapping[str, float]) -> Counter[str]:
    """What is counted as `longest ...` or `largest ...` is not added up."""
    made = Counter(one)
    for end, number in other.items():
        peak = end.startswith(("longest", "largest"))
        made[end] = max(made[end], number) if peak else made[end] + number
    return made


def joined(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """One outcome of several; no seed is counted twice."""
    ranges = sorted(ends for part in parts for ends in part["seeds"])
    for before, after in zip(ranges, ranges[1:], strict=False):
        if after[0] <= before[1]:
            raise ValueError(f"Seeds {after} were counted in {before}.")
    merged: list[list[int]] = []
    for first, last in ranges:
        if merged and first == merged[-1][1] + 1:
            merged[-1][1] = last
        else:
            merged.append([first, last])
    ends: Counter[str] = Counter()
    for part in parts:
        ends = together(ends, part["ends"])
    reached = sum(part["seeds reached"] for part in parts)
    kept = {"seeds": merged, "seeds reached": reached, "ends": dict(sorted(ends.items()))}
    return parts[0] | kept


def page() -> str:
    """All outcomes, for people to read."""
    lines = [
        "# Long tests",
        "",
        "Made by `python -m tests.outcomes` of what `make soak` has left.",
        "",
    ]
    for path in sorted(FOLDER.glob("*.json")):
        told = json.loads(path.read_text())
        seeds = ", ".join(f"{first} to {last}" for first, last in told["seeds"])
        reached = f"{told['seeds reached']:,} of {told['seeds asked for']:,} seeds ({seeds})"
        lines += [f"## {path.stem}", "", f"`{told['command']}`: {reached}.", ""]
        lines += ["| end | number |", "| --- | ---: |"]
        lines += [f"| {end} | {number:,.6g} |" for end, number in told["ends"].items()] + [""]
    return "\n".join(lines)


def main() -> None:
    """Join `NAME.PART.json`, and what was in `NAME.json` before; then write the page."""
    for name in sorted({path.name.split(".")[0] for path in FOLDER.glob("*.*.json")}):
        paths = [*FOLDER.glob(f"{name}.json"), *FOLDER.glob(f"{name}.*.json")]
        told = joined([json.loads(path.read_text()) for path in paths])
        write_text(FOLDER / f"{name}.json", json.dumps(told, indent=1) + "\n")
        for path in paths:
            if path.name != f"{name}.json":
                remove(path)
        print(f"{name}: {told['seeds reached']} of {told['seeds asked for']}")
    write_text(FOLDER / "table.md", page())


if __name__ == "__main__":
    main()
