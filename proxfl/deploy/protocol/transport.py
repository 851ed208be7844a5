"""The seam between a server and whatever carries its messages: who is there, send, what came.

A transport may lose, delay, repeat, reorder and corrupt. What to do about that is written once,
above it, in `proxfl.deploy.server.inquiry`.
"""

import abc
from collections.abc import Mapping
from typing import NamedTuple

from proxfl.deploy.protocol.wire import BadMessage


class Sending(NamedTuple):
    """A frame on its way: a name that is never used again, and its size on the wire."""

    name: str
    size: int


class Arrival(NamedTuple):
    """What came: from whom, in answer to which sending, and its bytes or what is wrong with them.

    News of somebody who is no site answers nothing: its `sending` is empty.
    """

    sender: str
    sending: str
    content: bytes | BadMessage
    size: int = 0


class Transport(abc.ABC):
    @abc.abstractmethod
    def present(self) -> Mapping[str, str]:
        """The sites that are there, each with a token of its present life: a restart changes it."""

    @abc.abstractmethod
    def send(self, frames: Mapping[str, bytes]) -> Mapping[str, Sending]:
        """Send a frame to each of some sites, all at once; without those it cannot reach now."""

    @abc.abstractmethod
    def receive(self, seconds: float) -> list[Arrival]:
        """What has come, after waiting at most so long for the first."""

    @abc.abstractmethod
    def forget(self) -> None:
        """No answer to what was sent so far is wanted any more."""

    @abc.abstractmethod
    def now(self) -> float:
        """Seconds on the clock by which `receive` waits."""
