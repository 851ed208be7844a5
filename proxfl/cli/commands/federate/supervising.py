"""Services that run until Ctrl-C, and end with the command that started them."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

LOOK_SECONDS = 0.5


@contextlib.contextmanager
def supervised(supervisors: Sequence[Any]) -> Iterator[Callable[[], None]]:
    """Yields what to call now and then, which starts again what has ended; stops all at the end.

    The list may grow meanwhile.
    """

    def look() -> None:
        for supervisor in supervisors:
            supervisor.look()

    try:
        yield look
    finally:
        for supervisor in reversed(supervisors):
            supervisor.close()


def until_stopped(
    start: Callable[[], Any], begun: Callable[[], None], meanwhile: Callable[[], None]
) -> int:
    """Run services until Ctrl-C or SIGTERM, which is how they are meant to end; the exit code."""
    from proxfl.deploy.ops.stopping import Stopped, pause, stoppable

    supervisors, code = [], 130  # until they run
    with stoppable(), contextlib.suppress(Stopped), supervised(supervisors) as look:
        supervisors.append(start())
        begun()
        code = 0
        while True:
            look()
            meanwhile()
            pause(LOOK_SECONDS)
    return code
