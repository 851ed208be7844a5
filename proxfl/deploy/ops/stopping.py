"""Stopping: a signal sets an event, and every wait is on that event, with a bound.

KeyboardInterrupt would strike wherever the program happens to be, also where somebody else's code
swallows it. Here nothing happens until the program waits, which it does every second at the least.
A signal is sent to a process, so the event is the process's too.
"""

import contextlib
import signal
import threading
from collections.abc import Iterator

SIGNALS = (signal.SIGINT, signal.SIGTERM)

requested = threading.Event()


class Stopped(KeyboardInterrupt):
    """Somebody asked this process to stop, and it was waiting."""


def pause(seconds: float) -> None:
    """Wait, or raise Stopped at once when asked to stop."""
    if requested.wait(seconds):
        raise Stopped


def heed() -> None:
    """Take Ctrl-C as anybody does, also when started in the background, where it is ignored."""
    if in_main_thread() and signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextlib.contextmanager
def stoppable() -> Iterator[None]:
    """Within it, SIGINT and SIGTERM are requests to stop, however often they come."""
    if not in_main_thread():
        yield  # only the main thread may choose
        return
    before = [signal.signal(number, lambda *_: requested.set()) for number in SIGNALS]
    try:
        yield
    finally:
        for number, handler in zip(SIGNALS, before, strict=True):
            signal.signal(number, handler)
        requested.clear()


def in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
