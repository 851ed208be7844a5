"""Outcomes of the long tests, for people to read: `results/soak/NAME.json`.

`PROXFL_SOAK=rest` goes through the seeds alone that this file does not have yet, and
`PROXFL_SOAK=3/8` through the third of eight parts of those, so that processes share them. Each
writes a file of its own, and goes on from it if it is begun again; `python -m tests.outcomes`
joins what they reached.
"""

import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from proxfl.storage.files import remove, write_text

FOLDER = Path(__file__).parent.parent / "results" / "soak"
WHOLE, REST = "1/1", "rest"
FAILED = "seeds that failed"
PART = os.environ.get("PROXFL_SOAK", WHOLE)
NOTHING: dict[str, Any] = {"seeds": [], "ends": {}}


def soak(name: str, seeds: range, block: int, run: Callable[[range], Counter[str]]) -> None:
    """Go through many seeds, some at a time, and write how all so far have ended.

    A run that is cut short leaves what it has done. A failure ends it: the seeds of its block are
    written as failed, and stay so until they are gone through without one.
    """
    path, told, gaps = begun(name, seeds)
    for gap in gaps:
        for start in range(0, len(gap), block):
            some = gap[start : start + block]
            here, failed = [some[0], some[-1]], told.get(FAILED, [])
            about = {
                "command": f"pytest -m soak {os.environ['PYTEST_CURRENT_TEST'].split('::')[0]}",
                "seeds asked for": len(seeds),
            }
            try:
                ends = run(some)
            except Exception:
                failed = [*failed, here] if here not in failed else failed
                write(path, told | about | {"seeds reached": size(told["seeds"]), FAILED: failed})
                raise
            reached = merged([*told["seeds"], here])
            told = about | {
                "seeds": reached,
                "seeds reached": size(reached),
                "ends": dict(sorted(together(told["ends"], ends).items())),
            }
            if failed := uncovered(failed, reached):
                told[FAILED] = failed
            write(path, told)
            print(name, some[-1], file=sys.stderr)


def begun(name: str, seeds: range) -> tuple[Path, dict[str, Any], list[range]]:
    """Where the outcome goes, what it has by now, and the seeds that are to be gone through."""
    path = FOLDER / f"{name}.json"
    told = NOTHING if PART == WHOLE else read(path)
    gaps = [*left_out(seeds, told["seeds"])]
    if PART in (WHOLE, REST):
        return path, told, gaps
    part, parts = map(int, PART.split("/"))
    rest = [seed for gap in gaps for seed in gap]
    own = rest[len(rest) * (part - 1) // parts : len(rest) * part // parts]
    path = FOLDER / f"{name}.{part}-of-{parts}.json"
    told = read(path)
    done = {seed for first, last in told["seeds"] for seed in range(first, last + 1)}
    ranges = merged([[seed, seed] for seed in own if seed not in done])
    return path, told, [range(first, last + 1) for first, last in ranges]


def read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text()) if path.exists() else NOTHING


def write(path: Path, told: Mapping[str, Any]) -> None:
    write_text(path, json.dumps(told, indent=1) + "\n")


def size(ranges: list[list[int]]) -> int:
    return sum(last + 1 - first for first, last in ranges)


def uncovered(ranges: list[list[int]], reached: list[list[int]]) -> list[list[int]]:
    """Those that nothing went through since."""
    inside = lambda one: any(first <= one[0] and one[1] <= last for first, last in reached)
    return [one for one in ranges if not inside(one)]


def left_out(seeds: range, reached: list[list[int]]) -> Iterator[range]:
    """The seeds that nothing has gone through yet."""
    start = seeds.start
    for first, last in [*reached, [seeds.stop, seeds.stop]]:
        if start < first:
            yield range(start, first)
        start = last + 1


def merged(ranges: list[list[int]]) -> list[list[int]]:
    """The same seeds in as few ranges as there can be, in order."""
    found: list[list[int]] = []
    for first, last in sorted(ranges):
        if found and first <= found[-1][1]:
            raise ValueError(f"Seeds from {first} on were counted twice.")
        if found and first == found[-1][1] + 1:
            found[-1][1] = last
        else:
            found.append([first, last])
    return found


def together(one: Mapping[str, float], other: Mapping[str, float]) -> Counter[str]:
    """What is counted as `longest ...` or `largest ...` is not added up."""
    made = Counter(one)
    for end, number in other.items():
        peak = end.startswith(("longest", "largest"))
        made[end] = max(made[end], number) if peak else made[end] + number
    return made


def joined(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """One outcome of several; no seed is counted twice."""
    seeds = merged([ends for part in parts for ends in part["seeds"]])
    ends: Counter[str] = Counter()
    for part in parts:
        ends = together(ends, part["ends"])
    asked = max(part["seeds asked for"] for part in parts)  # a long test may have grown
    kept = {"seeds asked for": asked, "seeds": seeds, "seeds reached": size(seeds)}
    made = parts[0] | kept | {"ends": dict(sorted(ends.items()))}
    made.pop(FAILED, None)
    if failed := uncovered(sorted(one for part in parts for one in part.get(FAILED, [])), seeds):
        made[FAILED] = failed
    return made


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
        if failed := told.get(FAILED):
            blocks = ", ".join(f"{first} to {last}" for first, last in failed)
            lines += [f"**A block with these seeds failed: {blocks}.**", ""]
        lines += ["| end | number |", "| --- | ---: |"]
        lines += [f"| {end} | {number:,.6g} |" for end, number in told["ends"].items()] + [""]
    return "\n".join(lines)


def main() -> None:
    """Join `NAME.PART.json`, and what was in `NAME.json` before; then write the page."""
    for name in sorted({path.name.split(".")[0] for path in FOLDER.glob("*.*.json")}):
        paths = [*FOLDER.glob(f"{name}.json"), *FOLDER.glob(f"{name}.*.json")]
        told = joined([json.loads(path.read_text()) for path in paths])
        write(FOLDER / f"{name}.json", told)
        for path in paths:
            if path.name != f"{name}.json":
                remove(path)
        print(f"{name}: {told['seeds reached']} of {told['seeds asked for']}")
    write_text(FOLDER / "table.md", page())


if __name__ == "__main__":
    main()
