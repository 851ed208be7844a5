"""How a run stands, in a file that others may read at any moment."""

import logging
import math
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from proxfl.deploy.ops.home import write_json
from proxfl.deploy.server.deployed import by_kind
from proxfl.deploy.server.inquiry import TooFewSites
from proxfl.deploy.server.ledger import Ledger
from proxfl.errors import BAD_INPUT, DISK, FAILED, INTERRUPTED, NOT_CONVERGED, DiskError
from proxfl.train.drivers.driver import Record, Settings
from proxfl.train.local import total

log = logging.getLogger("proxfl.deploy")

BEAT_SECONDS = 2.0
MEETING, TRAINING, FINISHED, STOPPED = "meeting", "training", "finished", "stopped"
WINDOW = 20  # rounds from which the speed is taken
POINTS, LAST = 200, 10  # of the curve, and faults, that others may read


class Status:
    """Keeps the file up to date from entry to exit, and says in it how the run ended.

    `present` gives the sites that are there now, so that the file tells whom a run waits for.
    """

    def __init__(self, path: Path, present: Callable[[], Sequence[str]], **about: Any):
        self.path, self.present, self.about = path, present, about
        self.busy, self.over = threading.Lock(), threading.Event()

    def __enter__(self) -> "Status":
        self.tell(state=MEETING)
        self.thread = threading.Thread(target=self.beat, daemon=True)
        self.thread.start()
        return self

    def beat(self) -> None:
        while not self.over.wait(BEAT_SECONDS):
            self.tell()

    def tell(self, **more: Any) -> None:
        with self.busy:
            self.about |= more
            try:
                write_json(self.path, self.about | {"present": sorted(self.present())})
            except DiskError as error:  # of which the run itself will hear, if it is to end
                log.warning("The status of the run is not up to date: %s", error)

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        self.over.set()
        self.thread.join()  # no longer than one writing of the file takes: it asks nobody
        if error is None:
            self.tell(state=FINISHED)
        else:
            self.tell(state=STOPPED, **ending(error))


def ending(error: BaseException) -> dict[str, Any]:
    """Why a run stopped, and the exit code for it."""
    if isinstance(error, TooFewSites):
        return {"reason": str(error), "code": NOT_CONVERGED}
    if isinstance(error, DiskError):
        return {"reason": str(error), "code": DISK}
    if isinstance(error, ValueError):
        return {"reason": str(error), "code": BAD_INPUT}
    if isinstance(error, SystemExit | KeyboardInterrupt):
        return {"reason": "It was interrupted; its state is kept.", "code": INTERRUPTED}
    return {"reason": f"{type(error).__name__}: {error}", "code": FAILED}


def after_round(records: Sequence[Record], each: float, settings: Settings) -> dict[str, Any]:
    """What the last round showed and, at `each` seconds a round, how long the rest may take."""
    last = records[-1]
    seen = [record for record in records if math.isfinite(record.optimality)]
    points = [(int(each.round), float(each.optimality)) for each in seen if each.optimality > 0]
    return {
        "state": TRAINING,
        "round": last.round,
        "rounds": settings.rounds,
        "optimality": seen[-1].optimality if seen else None,
        "tolerance": settings.tol,
        "curve": thinned(points),
        "left": None if (left := rounds_left(seen, settings)) is None else left * each,
    }


def so_far(ledger: Ledger) -> dict[str, Any]:
    """What crossed the network until now, and what went wrong, the last of it in words."""
    made, kinds = total(by_kind(ledger)), sum(ledger.exchanges.values())
    faults = {"faults": len(ledger.faults), "trouble": ledger.faults[-LAST:]}
    return {"bytes_up": made.up, "bytes_down": made.down, "exchanges": kinds, **faults}


def thinned(points: list[tuple[int, float]]) -> list[tuple[int, float]]:
    """Some hundred of them, evenly, and the last."""
    step = 1 + len(points) // POINTS
    return points[:-1:step] + points[-1:]


def rounds_left(seen: Sequence[Record], settings: Settings) -> float | None:
    """Until the tolerance is met, as far as the last rounds tell; None where they do not."""
    recent = [record for record in seen[-WINDOW:] if record.optimality > 0]
    if len(recent) < 3:
        return None
    rounds = np.array([record.round for record in recent], float)
    slope = np.polyfit(rounds, np.log([record.optimality for record in recent]), 1)[0]
    if slope >= 0:
        return None
    missing = max(0.0, math.log(settings.tol / recent[-1].optimality) / slope)
    return min(missing, float(settings.rounds - recent[-1].round))
