"""Stopping: a signal sets an event, and every wait is on that event, with a bound.

KeyboardInterrupt would strike wherever the program happens to be, also where somebody else's code
swallows it. Here nothing happens until the program waits, which it does every second at the least.
A signal is sent to a process, so the event is the process's too.
"""

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)

requested = threading.Event()


def request(number: int, frame: Any) -> None:
    requested.set()


class Stopped(KeyboardInterrupt):
    """Somebody asked this process to stop, and it was waiting."""


def pause(seconds: float) -> None:
    """Wait, or raise Stopped at once when asked to stop."""
    if requested.wait(seconds):
        raise Stopped


@contextlib.contextmanager
def stoppable() -> Iterator[None]:
    """Within it, SIGINT and SIGTERM are requests to stop, however often they come.

    Also in a program started in the background, where SIGINT is ignored until then.
    """
    if not in_main_thread() or signal.getsignal(signal.SIGINT) is request:
        yield  # only the main thread may choose, and once is enough
        return
    before = [signal.signal(number, request) for number in SIGNALS]
    try:
        yield
    finally:
        for number, handler in zip(SIGNALS, before, strict=True):
            signal.signal(number, handler)
        requested.clear()


def in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Put a request to stop off until the end: imports do not survive one in their midst."""
    with stoppable():
        yield
        if requested.is_set():
            raise Stopped


def turn_deaf() -> None:
    """For a program that is about to end, and is not to be cut short on the last metre."""
    if in_main_thread():
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)
