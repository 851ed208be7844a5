"""Progress of long work: a bar with rate and time left on a terminal, plain lines elsewhere.

Work whose end nobody knows, such as rounds until a certificate is met, has no total and promises no
time; a note can tell how far it is from its goal.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

QUIET_SECONDS = 2.0  # shorter work says nothing
LINE_SECONDS = 10.0  # a log is not a terminal: one line now and then


Report = Callable[..., None]  # report(done, total=None, note="")


@contextmanager
def progress(label: str, total: int | None, shown: bool = True) -> Iterator[Report]:
    """Yields a function to call with the amount of work done so far."""
    if not shown:
        yield lambda done, total=None, note="": None
    elif sys.stderr.isatty():
        yield from _bar(label, total)
    else:
        yield _lines(label, total)


def _lines(label: str, total: int | None) -> Report:
    start = last = time.monotonic()

    def report(done: int, total: int | None = total, note: str = "") -> None:
        nonlocal last
        now = time.monotonic()
        if now - last < LINE_SECONDS or done == 0:
            return
        last, rate = now, done / (now - start)
        told = [f"{done}" if total is None else f"{done}/{total}", f"{rate:.3g}/s"]
        told += [] if total is None else [f"{(total - done) / rate:.0f} s left"]
        told += [note] if note else []
        print(f"{label}: {', '.join(told)}", file=sys.stderr, flush=True)

    return report


def _bar(label: str, total: int | None) -> Iterator[Report]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.progress import TimeRemainingColumn as Remaining

    known = total is not None
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn() if known else TextColumn("{task.completed}"),
        TextColumn("{task.fields[rate]}"),
        *([Remaining()] if known else []),
        TextColumn("{task.fields[note]}"),
    )
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    task = bar.add_task(label, total=total, rate="", note="")
    start = time.monotonic()

    def report(done: int, total: int | None = total, note: str = "") -> None:
        elapsed = time.monotonic() - start
        if elapsed > QUIET_SECONDS and not bar.live.is_started:
            bar.start()
        rate = f"{done / elapsed:.3g}/s" if elapsed > 0 else ""
        bar.update(task, completed=done, total=total, rate=rate, note=note)

    try:
        yield report
    finally:
        bar.stop()
