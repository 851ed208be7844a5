"""Services that run until Ctrl-C, and end with the command that started them."""

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from proxfl.cli.commands.train import on_sigterm

LOOK_SECONDS = 0.5


@contextlib.contextmanager
def kept(keepers: Sequence[Any]) -> Iterator[Callable[[], None]]:
    """Yields what to call now and then, which starts again what has ended; stops all at the end.

    The list may grow meanwhile.
    """

    def look() -> None:
        for keeper in keepers:
            keeper.look()

    try:
        yield look
    finally:
        with uninterrupted():
            for keeper in reversed(keepers):
                keeper.close()


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """A second Ctrl-C does not cut the stopping short: that would leave processes behind."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, signal.SIG_IGN) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def until_stopped(keeper: Any, meanwhile: Callable[[], None] = lambda: None) -> None:
    """Keep it running until Ctrl-C or SIGTERM, which is how it is meant to end."""
    with on_sigterm(), contextlib.suppress(KeyboardInterrupt), kept([keeper]) as look:
        while True:
            look()
            meanwhile()
            time.sleep(LOOK_SECONDS)
