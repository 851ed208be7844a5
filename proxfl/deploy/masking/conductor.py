"""The server's side of a masked run: it carries questions and replies, and adds.

It has no secret, and nothing to choose: members answer what follows from the sums so far. Its own
record is those sums; begun anew it comes to where it was.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from proxfl.deploy.masking.member import ProvenRequest
from proxfl.deploy.masking.members import Members
from proxfl.deploy.masking.replica import Program, Question
from proxfl.deploy.masking.reply import Reply, total
from proxfl.deploy.masking.session import Hello, session_digest
from proxfl.deploy.masking.transcript import Request, first_tip, next_tip
from proxfl.engine import fixed_point


class SummedStep(NamedTuple):
    """A step that everybody answered: what the next one is proved by."""

    words: np.ndarray
    replies: Sequence[Reply]


class Lapsed(Exception):
    """A member's process is another than the one whose hello is at hand: a new session is due."""


class Conductor:
    """Runs a program over members. `greet` gives all their hellos, `send` all replies to a call.

    `send` raises `Lapsed` if a member was restarted meanwhile. `keep` is called with every step
    before the next is asked, and `before` has the steps of an earlier life, as they were kept.
    """

    def __init__(
        self,
        members: Members,
        study: bytes,
        greet: Callable[[], Sequence[Hello]],
        send: Callable[[ProvenRequest], Sequence[Reply]],
        keep: Callable[[SummedStep], None] = lambda exchange: None,
        before: Sequence[SummedStep] = (),
    ):
        self.members, self.study, self.greet, self.send = members, study, greet, send
        self.keep, self.before = keep, before
        self.tip, self.step, self.replies = first_tip(study, members.digest), 1, ()
        self.hellos: Sequence[Hello] = ()

    def run(self, program: Program) -> Question:
        """The model that the program comes to, on the grid."""
        return program(self.ask).rounded()

    def ask(self, question: Question) -> np.ndarray:
        """The sum of everybody's answers."""
        again = self.step <= len(self.before)
        made = self.before[self.step - 1] if again else self.exchange(question.rounded())
        if not again:
            self.keep(made)
        self.tip = next_tip(self.tip, self.step, made.words)
        self.step, self.replies = self.step + 1, made.replies
        return fixed_point.decode(made.words)

    def exchange(self, question: Question) -> SummedStep:
        """One step, in as many sessions as it takes until all have answered in one."""
        while True:
            self.hellos = self.hellos or self.greet()
            session = session_digest(self.study, self.members.digest, self.hellos)
            request = Request(self.study, session, self.step, self.tip, question.content)
            try:
                replies = self.send(ProvenRequest(request, question, self.hellos, self.replies))
            except Lapsed:
                self.hellos = ()
                continue
            about = (session, self.members, request.digest, replies, question.length)
            return SummedStep(total(*about), replies)
