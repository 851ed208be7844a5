"""A run as a function of sums: whoever knows the sums so far knows the next question.

The program of a run asks for sums over all members and computes the next question from them,
without any other input. The server runs it, and so does every member, on its own: then a server
alone cannot choose what it asks. A run that is begun anew, from the sums on the disk, comes to
where it was; nothing else of it has to be kept.
"""

import threading
import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from queue import SimpleQueue
from typing import NamedTuple

import numpy as np

from proxfl.deploy.masking.digests import message
from proxfl.engine import grid

# By what two machines may differ in a question and in a model, of its largest number. The weights
# of acceleration are solved for with a ridge of 4,000 roundings, so rounding may change them by a
# part in 4,000 and a little more.
APART, MODELS_APART = 2.0**-10, 2.0**-24


@dataclass(frozen=True)
class Question:
    """What all members are asked: of which kind, about which numbers, for how many numbers."""

    kind: str
    numbers: Mapping[str, np.ndarray]
    length: int

    def rounded(self) -> "Question":
        """The same on the grid, as it is sent."""
        return replace(self, numbers={k: grid.sent(v) for k, v in self.numbers.items()})

    @property
    def content(self) -> bytes:
        """Its bytes, one form for one question."""
        fields: list[bytes | int] = [self.kind.encode(), self.length]
        for name, value in sorted(self.numbers.items()):
            shape = np.array(value.shape, "<u8").tobytes()
            fields += [name.encode(), value.dtype.str.encode(), shape, value.tobytes()]
        return message("question", *fields)

    def agrees(self, own: "Question", apart: float = APART) -> bool:
        """Whether this, as it was asked, is the question one has come to oneself, on a machine that
        may round otherwise. How near it must be is no secret: one answers about one's own."""
        if (self.kind, self.length) != (own.kind, own.length):
            return False
        if self.numbers.keys() != own.numbers.keys():
            return False
        sizes = [float(np.abs(a).max(initial=0.0)) for a in own.numbers.values() if is_real(a)]
        most = apart * max(sizes, default=0.0)
        return all(same(self.numbers[name], a, most) for name, a in own.numbers.items())


def is_real(values: np.ndarray) -> bool:
    return values.dtype.kind == "f"


def same(asked: np.ndarray, own: np.ndarray, apart: float) -> bool:
    """Whether numbers are alike: whole ones to the last, others on a grid and nearly."""
    if (asked.dtype, asked.shape) != (own.dtype, own.shape):
        return False
    if not is_real(own):
        return np.array_equal(asked, own)
    with np.errstate(over="ignore", invalid="ignore"):  # whatever a server sends
        near = np.abs(asked - own) <= apart
        return bool(near.all()) and np.array_equal(asked, grid.rounded(asked))


Ask = Callable[[Question], np.ndarray]
Program = Callable[[Ask], Question]  # which ends with the model, in the form of a question


class Ended(NamedTuple):
    """A run that has no more questions, and the model it came to."""

    model: Question


class Over(BaseException):
    """Raised inside a program that nobody follows any more."""


class Replica:
    """A program that waits for sums; `next` is its question, how it ended, or why it failed.

    It has a thread of its own, since a program asks from deep inside its loops; the thread ends
    with the program, or when nobody holds the replica any more.
    """

    def __init__(self, program: Program, sums: Iterable[np.ndarray] = ()):
        self.asked: SimpleQueue[Question | Ended | BaseException] = SimpleQueue()
        self.told: SimpleQueue[np.ndarray | None] = SimpleQueue()
        self.close = weakref.finalize(self, self.told.put, None)
        about = (program, self.asked, self.told)
        threading.Thread(target=followed, args=about, daemon=True).start()
        self.next: Question | Ended | BaseException = self.heard()
        try:
            for total in sums:
                self.give(total)
        except BaseException:
            self.close()
            raise

    def give(self, total: np.ndarray) -> None:
        """The sum that the last question asked for."""
        if isinstance(self.next, BaseException):  # the thread has ended, and asks nothing
            raise self.next
        if isinstance(self.next, Ended):
            raise ValueError("The run has ended, and asks for nothing more.")
        if not self.close.alive:
            raise ValueError("Nobody follows this run any more.")
        self.told.put(total)
        self.next = self.heard()

    def heard(self) -> Question | Ended:
        found = self.asked.get()  # at the latest, when the program ends or fails
        if isinstance(found, BaseException):
            self.next = found
            raise found
        return found


def followed(
    program: Program,
    asked: "SimpleQueue[Question | Ended | BaseException]",
    told: "SimpleQueue[np.ndarray | None]",
) -> None:
    """A program from its first question to its end."""

    def ask(question: Question) -> np.ndarray:
        asked.put(question)
        total = told.get()  # at the latest, when nobody holds the replica: None, by its finalizer
        if total is None:
            raise Over
        return total

    try:
        asked.put(Ended(program(ask)))
    except Over:
        pass
    except BaseException as error:  # it belongs to whoever waits for the next question
        asked.put(error)
