"""What goes on for long: services until Ctrl-C, and a run until it ends, told in one line."""

import contextlib
import logging
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from proxfl.cli.commands.federate.standing import ENDED, last_status, sentence
from proxfl.console.words import lines, printable
from proxfl.deploy.ops.home import Home
from proxfl.errors import DONE, INTERRUPTED, NOT_CONVERGED

LOOK_SECONDS, REST_SECONDS = 0.5, 1.0  # at a run that goes on; at services
LINE_SECONDS = 10.0  # a log is not a terminal
START_SECONDS = 120.0  # for Flower to start the server's program
END_SECONDS = 60.0  # for a run to end that was asked to stop


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
    start: Callable[[], Any],
    begun: str,
    meanwhile: Callable[[], None],
    page: Callable[[], Any] | None = None,
) -> int:
    """Run services until Ctrl-C or SIGTERM, which is how they are meant to end; the exit code.

    `page` opens a page to watch, if there is to be one.
    """
    from proxfl.deploy.ops.stopping import Stopped, pause, stoppable

    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(message)s")
    supervisors, code = [], INTERRUPTED  # until they run
    with stoppable(), contextlib.suppress(Stopped), supervised(supervisors) as look:
        supervisors.append(start())
        print(f"{lines(begun)} Stop it with Ctrl-C.", flush=True)
        if page is not None:
            supervisors.append(opened := page())
            print(f"Page, on this machine only, for who has this address: {opened.address}")
            sys.stdout.flush()
        code = DONE
        while True:
            look()
            meanwhile()
            pause(REST_SECONDS)
    return code


def follow(home: Home, run: str, meanwhile: Callable[[], None]) -> Mapping[str, Any]:
    """Wait for a run to end, and show how it goes; gives its last status."""
    from proxfl.deploy.ops.stopping import pause

    line, begun = Line(), time.monotonic()
    while True:
        meanwhile()
        status = last_status(home)
        if status.get("run") == run:
            if status["state"] in ENDED:
                line.end()
                return lost(home, "ended") if status["state"] == "killed" else status
            line.show(sentence(status))
        elif time.monotonic() - begun > START_SECONDS:
            return lost(home, "was not started by Flower")
        pause(LOOK_SECONDS)


def let_end(home: Home, run: str) -> None:
    """Wait for a run that was asked to stop, but not for ever: another may be started next."""
    from proxfl.deploy.ops.stopping import pause

    until = time.monotonic() + END_SECONDS
    while time.monotonic() < until:
        status = last_status(home)
        if status.get("run") != run or status["state"] in ENDED:
            return
        pause(LOOK_SECONDS)


def lost(home: Home, what: str) -> dict[str, Any]:
    reason = f"The server's program {what}; see {home.server / 'superlink.log'}."
    return {"state": "stopped", "reason": reason, "code": NOT_CONVERGED}


class Line:
    """The last sentence, in place of the one before it where there is a terminal."""

    def __init__(self):
        self.last, self.shown_at, self.live = "", 0.0, sys.stderr.isatty()

    def show(self, text: str) -> None:
        text = printable(text)
        now = time.monotonic()
        if text == self.last or (not self.live and now - self.shown_at < LINE_SECONDS):
            return
        self.last, self.shown_at = text, now
        start, end = ("\r\x1b[K", "") if self.live else ("", "\n")
        print(start + text, end=end, file=sys.stderr, flush=True)

    def end(self) -> None:
        if self.live and self.last:
            print(file=sys.stderr)
