"""The server's part of a masked run: it introduces members, carries questions, and adds.

What it keeps are the sums, `exchanges/` in the folder of results, from which the run goes on.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from proxfl.deploy.masking.conductor import Conductor, Lapsed, SummedStep
from proxfl.deploy.masking.journal import Journal
from proxfl.deploy.masking.member import ProvenRequest
from proxfl.deploy.masking.members import Members
from proxfl.deploy.masking.messages import (
    HELLO,
    SIGNATURE,
    Charter,
    bytes_in,
    call_payload,
    charter_in,
    hello_of,
    members_text,
    question_payload,
    replies_payload,
    reply_in,
)
from proxfl.deploy.masking.replica import Program, Question
from proxfl.deploy.masking.reply import Reply
from proxfl.deploy.masking.session import Hello, Refused
from proxfl.deploy.masking.transcript import model_name
from proxfl.deploy.protocol.study import Study
from proxfl.deploy.protocol.wire import BadMessage
from proxfl.deploy.server.deployed import STUDY
from proxfl.deploy.server.proposal import refuse_absent
from proxfl.deploy.server.run import StudyRun
from proxfl.deploy.server.summaries import refuse_other
from proxfl.errors import InputError

COMPARE = "the words are compared (proxfl federate members)"
P = TypeVar("P", bound=Program)
Masking = dict[str, Any]  # who took part, by which words, and what they signed


class MaskedRun:
    """One life of a run: its members, and the conductor that adds what they reply."""

    def __init__(self, run: StudyRun):
        self.run, self.study, self.federation = run, run.study, run.federation
        self.fingerprints: dict[str, str] = {}

    def in_results(self, program_of: Callable[[Charter], P]) -> tuple[P, Masking]:
        """A program whose sums are in the folder of results, with the study that they are of."""
        journal = Journal(self.run.exchanges)

        def keep(exchange: SummedStep) -> None:
            if not journal:
                self.study.write(self.run.out / STUDY)
            journal.add(exchange)

        return self.conduct(program_of, journal, keep)

    def in_private(self, program_of: Callable[[Charter], Any]) -> Any:
        """What a program has found that comes to no model: its sums are not among the results."""
        journal = Journal(self.run.private_exchanges)
        program, _ = self.conduct(program_of, journal, journal.add)
        if program.found is None:
            raise RuntimeError("A program that has ended has found something.")
        return program.found

    def conduct(
        self,
        program_of: Callable[[Charter], P],
        before: Sequence[SummedStep],
        keep: Callable[[SummedStep], None],
    ) -> tuple[P, Masking]:
        """A program run to its end, which is signed; with what masked it, for the manifest."""
        self.members, charter = self.enter()
        self.charter, study = charter, charter.digest(self.study.text)
        self.conductor = Conductor(self.members, study, self.greet, self.send, keep, before)
        program = program_of(charter)
        model = self.conductor.run(program)
        return program, {
            "words": self.members.words,
            "members": {m.name: m.key.hex() for m in self.members.each},
            "study": study.hex(),
            "tip": self.conductor.tip.hex(),
            "model": model.content.hex(),
            "signatures": self.signed(model),
        }

    def enter(self) -> tuple[Members, Charter]:
        """The members by their keys, and what they have in common."""
        told = with_parts(self.federation.ask("enter", {}), "key", "charter")
        keys = {site: read(key_in, site, told[site]["key"]) for site in self.study.sites}
        return Members.of(keys), charter_of(self.study, told)

    def greet(self) -> list[Hello]:
        """Everybody's hello; TooFewSites while a person has still to compare words."""
        question = {"members": members_text(self.members), "charter": self.charter.text}
        answers = self.federation.ask("meet", question)
        refuse_absent(self.study, answers, COMPARE)
        study, members = self.conductor.study, self.members.digest
        of = lambda i, name: read(
            lambda answer: hello_of(bytes_in(answer, "hello", HELLO), i, study, members),
            name,
            answers[name],
        )
        hellos = [of(i, member.name) for i, member in enumerate(self.members.each)]
        ahead = max(hello.last for hello in hellos)
        if ahead > self.conductor.step:
            raise InputError(
                f"The sites have answered {ahead} steps of study {self.study.name}, and "
                f"{self.run.out} knows of {self.conductor.step - 1}; resume the run that has them, "
                "or write another study: under masks a study is asked once."
            )
        data = {m.name: h.data.hex() for m, h in zip(self.members.each, hellos, strict=True)}
        self.fingerprints = {site: data[site] for site in self.study.sites}
        return hellos

    def send(self, call: ProvenRequest) -> list[Reply]:
        """Everybody's reply to a call."""
        answers = self.federation.ask(
            "step", call_payload(call), booked=call.question.kind.split()[0]
        )
        refuse_lapsed(answers)
        return [
            read(lambda answer, i=i: reply_in(answer, i), m.name, answers[m.name])
            for i, m in enumerate(self.members.each)
        ]

    def signed(self, model: Question) -> dict[str, str]:
        """The members' signatures under the model, each checked."""
        question = question_payload(model) | replies_payload(self.conductor.replies)
        while True:
            answers = self.federation.ask("sign", question)
            try:
                refuse_lapsed(answers)
            except Lapsed:
                self.greet()
                continue
            break
        signatures, name = {}, model_name(self.conductor.tip, model.content)
        for i, member in enumerate(self.members.each):
            take = lambda answer: bytes_in(answer, "signature", SIGNATURE)
            signature = read(take, member.name, answers[member.name])
            if not self.members.signed(i, signature, name):
                raise Refused(f"The signature of {member.name} is not under the model.")
            signatures[member.name] = signature.hex()
        return signatures


def charter_of(study: Study, told: Mapping[str, Mapping[str, Any]]) -> Charter:
    """What the tables of all sites have in common."""
    charters = {site: read(charter_in, site, answer["charter"]) for site, answer in told.items()}
    names = {site: ", ".join(sorted(held.features)) for site, held in charters.items()}
    refuse_other("set of columns", names)
    labels = sorted({label for held in charters.values() for label in held.labels}, key=ordered)
    return Charter(charters[study.sites[0]].features, tuple(labels))


def read(take: Callable[[Any], Any], site: str, answer: Any) -> Any:
    """What a site sent, or a sentence that names it."""
    try:
        return take(answer)
    except BadMessage as error:
        raise InputError(f"Site {site}: {error} Check its version of proxfl.") from None


def with_parts(answers: Mapping[str, Mapping[str, Any]], *parts: str) -> Mapping[str, Any]:
    for site, answer in answers.items():
        for part in parts:
            if part not in answer:
                raise InputError(f"Site {site} told no {part}; check its version of proxfl.")
    return answers


def key_in(text: Any) -> bytes:
    try:
        return bytes.fromhex(str(text))
    except ValueError:
        raise BadMessage("Its key cannot be read.") from None


def ordered(label: Any) -> tuple[bool, Any]:
    return isinstance(label, str), label


def refuse_lapsed(answers: Mapping[str, Mapping[str, Any]]) -> None:
    if any("lapsed" in answer for answer in answers.values()):
        raise Lapsed
