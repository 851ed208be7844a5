"""A member's side of a masked run: it follows the run, and answers about what follows, only.

For every request it checks that the sum of the step before is made of all members' signed replies,
takes the server's step itself, and compares. So what it is asked is what an honest server asks.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from proxfl.deploy.masking.members import Members
from proxfl.deploy.masking.record import Entry, Transcript
from proxfl.deploy.masking.replica import MODELS_APART, Ended, Program, Question, Replica
from proxfl.deploy.masking.reply import Reply, reply, total, words_in
from proxfl.deploy.masking.session import Hello, Refused, Session, greet, open_session
from proxfl.deploy.masking.transcript import Request, first_tip, model_name, next_tip
from proxfl.engine import fixed_point

Answer = Callable[[Question], tuple[np.ndarray, bool]]  # a site's sums, and whether they may leave
# Words to add to them, for a tip and a question: the same for the same, in whatever session.
NoiseOf = Callable[[bytes, Question], np.ndarray | None]


class ProvenRequest(NamedTuple):
    """A request with what a member checks it by: all hellos, and all replies to the one before."""

    request: Request
    question: Question
    hellos: Sequence[Hello]
    replies: Sequence[Reply]


class Followed(NamedTuple):
    """Where a run is: the step to come, the tip before it, the sum of the step before that."""

    step: int
    tip: bytes
    before: bytes


class Member:
    """One life of a site's process in one study; what it keeps is in its `folder`."""

    def __init__(
        self,
        signer: Ed25519PrivateKey,
        members: Members,
        name: str,
        study: bytes,
        data: bytes,
        folder: Path,
        program: Program,
        answer: Answer,
        noise: NoiseOf = lambda tip, question: None,
    ):
        self.signer, self.members, self.study = signer, members, study
        self.program, self.answer_of, self.noise_of = program, answer, noise
        self.record = Transcript(folder)
        self.own = greet(signer, members, name, study, data, self.record.last)
        self.sessions: dict[bytes, Session] = {}
        self.data = self.record.latest.data if self.record.latest else b""
        self.said: dict[tuple[bytes, int], tuple[bytes, Reply]] = {}  # to the last step
        self.replica: Replica | None = None

    @property
    def hello(self) -> Hello:
        return self.own.hello

    def answer(self, call: ProvenRequest) -> Reply:
        """The reply to a request, or `Refused`; to one that was answered, the same bytes again."""
        request = call.request
        session = self.session(call.hellos, request)
        held = self.said.get((request.session, request.step))
        if held is not None:
            if held[0] != request.digest:
                raise Refused(f"Step {request.step} was asked otherwise in this session.")
            return held[1]
        if request.question != call.question.content:
            raise Refused("The question is not the one that the request names.")
        place = self.place(call)
        try:
            said = self.followed(call, place, session)
        except BaseException:
            self.forget()  # it may have followed a sum that is not the run's, or not on the disk
            raise
        kept = {key: held for key, held in self.said.items() if key[1] == place.step}
        self.said = kept | {(request.session, request.step): (request.digest, said)}
        return said

    def followed(self, call: ProvenRequest, place: Followed, session: Session) -> Reply:
        """The reply to a request that follows; it is on the disk."""
        own = self.due(call, place)
        noise = self.noise_of(place.tip, own)
        values, sound = self.answer_of(own)
        if len(values) != call.question.length:
            raise Refused(f"Step {place.step} asks for another number of numbers.")
        said = reply(session, self.signer, call.request.digest, values, sound, noise)
        about = (session.digest, place.tip, call.request.question, place.before, self.data)
        other = b"" if own.content == call.request.question else own.content
        self.record.add(Entry(place.step, len(values), *about, other))
        return said

    def session(self, hellos: Sequence[Hello], request: Request) -> Session:
        """The session of these hellos, which is that of the request."""
        if request.study != self.study:
            raise Refused("The request is for another study.")
        if request.session not in self.sessions:
            made = open_session(self.own, self.members, hellos, self.data, self.record.last)
            self.data = b"".join(hello.data for hello in hellos)
            self.sessions[made.digest] = made
        if request.session not in self.sessions:
            raise Refused("The request is for another session than its hellos make.")
        return self.sessions[request.session]

    def place(self, call: ProvenRequest) -> Followed:
        """The step that is asked for: the last one again, or the one that follows it."""
        step, last, entry = call.request.step, self.record.last, self.record.latest
        if step > last + 1:
            raise Refused(
                f"Step {step} cannot follow step {last}, the last that this site has answered: if "
                "others have answered more, its folder is an old copy; restore the newest."
            )
        if step < max(last, 1):
            raise Refused(f"Step {step} cannot follow step {last}.")
        if entry is None:
            return Followed(1, first_tip(self.study, self.members.digest), b"")
        if step == last:
            return Followed(step, entry.tip, entry.before)
        words = self.sum_before(entry, call.replies)
        return Followed(step, next_tip(entry.tip, last, words), words.astype("<u8").tobytes())

    def sum_before(self, entry: Entry, replies: Sequence[Reply]) -> np.ndarray:
        """The sum of the last step, of replies in one session in which this site answered it."""
        why = Refused("There are no replies to the step before.")
        for session in self.record.sessions:
            asked = Request(self.study, session, entry.step, entry.tip, entry.question)
            try:
                return total(session, self.members, asked.digest, replies, entry.length)
            except Refused as error:
                why = error
        raise why

    def due(self, call: ProvenRequest, place: Followed) -> Question:
        """The question as this site has come to it itself; refuse any other that is asked.

        What is asked may be a neighbour on the grid, of which this site knows nothing: it answers
        about its own place, so that which of the two a server asks about changes no answer.
        """
        if call.request.tip != place.tip:
            raise Refused(f"Step {place.step} does not follow from the sums of this run.")
        entry = self.record.latest
        if entry is not None and place.step == entry.step:
            if call.request.question != entry.question:
                raise Refused(f"Step {place.step} was another question when it was answered.")
            return self.again(call.question, entry)
        due = self.follow(place.before)
        if isinstance(due, Ended):
            raise Refused("The run has ended, and asks for nothing more.")
        if not call.question.agrees(due):
            raise Refused(f"Step {place.step} is not the question that follows in this run.")
        return due.rounded()

    def again(self, asked: Question, entry: Entry) -> Question:
        """The question that was answered before, of the same numbers."""
        due = self.follow(b"")  # also since an answer may need to know how the run came here
        if not entry.own:
            return asked
        if isinstance(due, Ended) or due.rounded().content != entry.own:
            raise Refused(
                f"Step {entry.step} was answered on a processor that rounds otherwise; go on there."
            )
        return due.rounded()

    def follow(self, before: bytes) -> Question | Ended:
        """What the run comes to by the sum of the step before."""
        if self.replica is None:
            self.replica = Replica(self.program, map(numbers_in, self.record.sums()))
        if before:
            self.replica.give(numbers_in(before))
        due = self.replica.next
        if isinstance(due, BaseException):
            raise due
        return due

    def sign(self, model: Question, replies: Sequence[Reply]) -> bytes:
        """A signature under the model to which this site has followed the run, or `Refused`."""
        entry = self.record.latest
        if entry is None:
            raise Refused("The run has not begun.")
        words = self.sum_before(entry, replies)
        try:
            came = self.follow(words.astype("<u8").tobytes())
        finally:
            self.forget()  # the sum is not on the disk: it may be asked for again
        if not isinstance(came, Ended) or not model.agrees(came.model, MODELS_APART):
            raise Refused("This is not the model that this run has come to.")
        tip = next_tip(entry.tip, entry.step, words)
        return self.signer.sign(model_name(tip, model.content))

    def forget(self) -> None:
        if self.replica is not None:
            self.replica.close()
        self.replica = None


def numbers_in(data: bytes) -> np.ndarray:
    return fixed_point.decode(words_in(data))
