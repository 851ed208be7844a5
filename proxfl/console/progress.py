"""Progress of long work: a bar on a terminal, one changing line in a notebook, lines elsewhere.

Work whose end nobody knows, such as rounds until a certificate is met, has no total and promises no
time; a note can tell how far it is from its goal.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from proxfl.console.words import printable

QUIET_SECONDS = 2.0  # shorter work says nothing
WIDEST = 100  # characters of a label
LINE_SECONDS = 10.0  # a log is not a terminal: one line now and then
FRESH_SECONDS = 0.2  # a notebook is sent a message for every change


Report = Callable[..., None]  # report(done, total=None, note="")


@contextmanager
def progress(label: str, total: int | None, shown: bool = True) -> Iterator[Report]:
    """Yields a function to call with the amount of work done so far."""
    label = printable(label, WIDEST)
    if not shown:
        yield lambda done, total=None, note="": None
    elif in_notebook():
        yield from _cell(label, total)
    elif sys.stderr.isatty():
        yield from _bar(label, total)
    else:
        yield _lines(label, total)


def in_notebook() -> bool:
    """Whether a notebook shows what this process displays: IPython on a terminal has no kernel."""
    ipython: Any = sys.modules.get("IPython")
    return getattr(ipython and ipython.get_ipython(), "kernel", None) is not None


def is_watched() -> bool:
    """Whether somebody sees now what is told now, and not later in a log."""
    return in_notebook() or sys.stderr.isatty()


def _told(label: str, done: int, total: int | None, rate: float, note: str) -> str:
    told = [f"{done}" if total is None else f"{done}/{total}", f"{rate:.3g}/s"]
    told += [] if total is None else [f"{(total - done) / rate:.0f} s left"]
    told += [note] if note else []
    return f"{label}: {', '.join(told)}"


def _lines(label: str, total: int | None) -> Report:
    start = last = time.monotonic()

    def report(done: int, total: int | None = total, note: str = "") -> None:
        nonlocal last
        now = time.monotonic()
        if now - last < LINE_SECONDS or done == 0:
            return
        last, rate = now, done / (now - start)
        print(_told(label, done, total, rate, note), file=sys.stderr, flush=True)

    return report


def _cell(label: str, total: int | None) -> Iterator[Report]:
    """Plain text, which a notebook shows without any widgets, gone once the work is done."""
    display = import_module("IPython.display").display  # it is there: this is its notebook

    start, last, handle = time.monotonic(), 0.0, None
    plain = lambda text: {"text/plain": text}

    def report(done: int, total: int | None = total, note: str = "") -> None:
        nonlocal last, handle
        now = time.monotonic()
        if now - start < QUIET_SECONDS or now - last < FRESH_SECONDS or done == 0:
            return
        last, text = now, plain(_told(label, done, total, done / (now - start), note))
        if handle is None:
            handle = display(text, raw=True, display_id=True)
        else:
            handle.update(text, raw=True)

    try:
        yield report
    finally:
        if handle is not None:
            handle.update(plain(""), raw=True)


def _bar(label: str, total: int | None) -> Iterator[Report]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.progress import TimeRemainingColumn as Remaining

    known = total is not None
    text = lambda form: TextColumn(form, markup=False)
    columns = (
        text("{task.description}"),
        BarColumn(),
        MofNCompleteColumn() if known else text("{task.completed}"),
        text("{task.fields[rate]}"),
        *([Remaining()] if known else []),
        text("{task.fields[note]}"),
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
