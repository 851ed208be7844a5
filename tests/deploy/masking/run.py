"""A small run over members in one process: least squares by gradient steps, from masked sums.

Processes may be restarted at any moment; what they keep is in their folders.
"""

from contextlib import suppress
from pathlib import Path

import numpy as np

from proxfl.deploy.masking.conductor import Conductor, Lapsed, SummedStep
from proxfl.deploy.masking.member import Member, ProvenRequest
from proxfl.deploy.masking.replica import Question
from proxfl.deploy.masking.reply import Reply
from proxfl.deploy.masking.session import Hello, session_digest
from proxfl.engine import fixed_point
from tests.deploy.masking.world import NAMES, STUDY, members_of, signers_of

STEPS, FEATURES = 6, 3
RNG = np.random.default_rng(0)
DATA = {name: (RNG.normal(size=(8, FEATURES)), RNG.normal(size=8)) for name in NAMES}


class Killed(Exception):
    """Somebody's process ends here."""


def program(ask):
    """Count the rows, then gradient steps; a function of the sums alone."""
    x, rows = np.zeros(FEATURES), float(ask(Question("rows", {}, 1))[0])
    for _ in range(STEPS):
        x = x - 0.3 * ask(Question("gradient", {"x": x}, FEATURES)) / rows
    return Question("model", {"x": x}, 0)


def sums_of(name: str, question: Question) -> tuple[np.ndarray, bool]:
    A, b = DATA[name]
    if question.kind == "rows":
        return np.array([float(len(A))]), True
    return A.T @ (A @ question.numbers["x"] - b), True


def plain_run():
    """The same program over fixed-point sums that nobody masked."""

    def ask(question):
        words, question = np.zeros((question.length, 2), np.uint64), question.rounded()
        for name in NAMES:
            words = fixed_point.add(words, fixed_point.encode(sums_of(name, question)[0]))
        return fixed_point.decode(words)

    return program(ask).rounded()


class Party:
    """Members with folders, and a server; `restart` is a new process from what is on the disk."""

    def __init__(self, folder: Path, answers=sums_of, signers=None):
        self.folder, self.answers, self.signers = folder, answers, signers or signers_of(NAMES)
        self.members = members_of(self.signers)
        self.kept: list[SummedStep] = []
        self.processes = [self.process(name) for name in NAMES]
        self.spoken: dict[tuple[str, bytes], set[bytes]] = {}  # by name and request

    def process(self, name: str) -> Member:
        folder = self.folder / name
        folder.mkdir(parents=True, exist_ok=True)
        answer = lambda question: self.answers(name, question)
        about = (self.signers[name], self.members, name, STUDY, name.encode().ljust(32), folder)
        return Member(*about, program, answer)

    def restart(self, i: int) -> None:
        self.processes[i] = self.process(NAMES[i])

    def greet(self):
        return [member.hello for member in self.processes]

    def send(self, call: ProvenRequest) -> list[Reply]:
        if [member.hello for member in self.processes] != list(call.hellos):
            raise Lapsed
        return [self.hear(name, call) for name in NAMES]

    def hear(self, name: str, call: ProvenRequest) -> Reply:
        said = self.processes[NAMES.index(name)].answer(call)
        self.spoken.setdefault((name, call.request.digest), set()).add(said.masked)
        return said

    def conductor(self, send=None) -> Conductor:
        """A life of the server, from what the one before has kept."""
        about = (self.members, STUDY, self.greet, send or self.send, self.kept.append)
        return Conductor(*about, list(self.kept))

    def run(self, send=None) -> Question:
        return self.conductor(send).run(program)


def call_of(party: Party, step: int) -> ProvenRequest:
    """The server's call for a step, of a run that nobody answered from there on."""
    found = []

    def send(call):
        if call.request.step == step:
            found.append(call)
            raise Killed
        return party.send(call)

    with suppress(Killed):
        party.run(send)
    return found[0]


def resessioned(party: Party, call: ProvenRequest, hellos: list[Hello]) -> ProvenRequest:
    """The same request in the session of other hellos."""
    named = session_digest(STUDY, party.members.digest, hellos)
    return call._replace(request=call.request._replace(session=named), hellos=hellos)
