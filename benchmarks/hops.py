"""Where the seconds of an exchange go: hop by hop, from the requests that `traced` has noted."""

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

TRACED = Path(__file__).parent / "traced"
EARLY, LATE = 8, 5  # exchanges that are no rounds: agreement and compilation, and the certificate


class Request(NamedTuple):
    program: str
    what: str
    begun: float
    ended: float
    size: int


class Hop(NamedTuple):
    """The last moment of an exchange at which a program begins or ends some kind of request."""

    name: str
    program: str
    what: str
    moment: str = "ended"


HOPS = (
    Hop("the server announces the questions", "server", "runtime/push-messages"),
    Hop("the server stores their parts at the SuperLink", "server", "runtime/push-object"),
    Hop("the gate has seen the last question", "gate", "fleet/pull-messages", "begun"),
    Hop("the last site has its question", "site", "fleet/pull-messages"),
    Hop("the last site has what is in it", "site", "fleet/pull-object"),
    Hop("the last site has its answer, also on its disk", "site", "fleet/push-messages", "begun"),
    Hop("the last site has announced it", "site", "fleet/push-messages"),
    Hop("the last site has stored its parts", "site", "fleet/push-object"),
)
LAST = "the server reads it and makes the next question, its state on the disk"
EMPTY_PULL = {"fleet/pull-messages", "runtime/pull-messages"}  # without a message: no hop


@contextlib.contextmanager
def traced(folder: Path) -> Iterator[Path]:
    """Processes that are started within note their requests in the folder."""
    folder.mkdir()
    path = os.pathsep.join([str(TRACED), *filter(None, [os.environ.get("PYTHONPATH")])])
    before = dict(os.environ)
    os.environ.update(PROXFL_HOPS=str(folder), PYTHONPATH=path)
    try:
        yield folder
    finally:
        os.environ.clear()
        os.environ.update(before)


def requests(folder: Path) -> list[Request]:
    lines = [line for path in folder.glob("*.jsonl") for line in path.read_text().splitlines()]
    found = sorted((Request(*json.loads(line)) for line in lines), key=lambda one: one.begun)
    return [one for one in found if one.program and (one.what not in EMPTY_PULL or one.size > 0)]


def exchanges(folder: Path) -> list[list[Request]]:
    """The requests of each exchange of a run's middle; it begins as questions are announced."""
    found = requests(folder)
    starts = [one.begun for one in found if one.what == "runtime/push-messages"]
    within = lambda a, b: [one for one in found if a < one.ended <= b]  # a question may be held
    parts = [within(a, b) for a, b in zip(starts, starts[1:], strict=False)]
    return parts[EARLY : len(parts) + 1 - LATE]


def begin_of(exchange: list[Request]) -> float:
    return next(one.begun for one in exchange if one.what == "runtime/push-messages")


def measured(folder: Path) -> dict[str, Any]:
    """An exchange's seconds, its requests to the SuperLink, and how long each hop takes."""
    parts = exchanges(folder)
    begins = [begin_of(part) for part in parts]
    long = np.diff(begins)
    rows = []
    for part, end in zip(parts, begins[1:], strict=False):
        before, row = begin_of(part), []
        for hop in HOPS:
            own = [one for one in part if (one.program, one.what) == (hop.program, hop.what)]
            moment = max((getattr(one, hop.moment) for one in own), default=before)
            row.append(max(moment - before, 0.0))
            before = max(moment, before)
        rows.append([*row, end - before])
    served = [sum(one.program in ("server", "gate") for one in part) for part in parts]
    names = [*(hop.name for hop in HOPS), LAST]
    return {
        "exchanges": len(long),
        "exchange s": float(np.median(long)),
        "quartiles s": [float(q) for q in np.quantile(long, [0.25, 0.75])],
        "requests to the SuperLink": float(np.median(served)),
        "hops": dict(zip(names, map(float, np.median(rows, axis=0)), strict=True)),
    }
