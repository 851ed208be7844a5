"""The server's part of a masked run: it introduces members, carries questions, and adds.

What it keeps is in the folder of results, `exchanges/`: the sums, from which the run goes on.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from proxfl.deploy.masking.conductor import Conductor, Lapsed, SummedStep
from proxfl.deploy.masking.kept import Kept
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
from proxfl.deploy.masking.training import ALL, MaskedTraining
from proxfl.deploy.masking.transcript import model_name
from proxfl.deploy.ops.home import EXCHANGES
from proxfl.deploy.protocol.study import Study
from proxfl.deploy.protocol.wire import BadMessage
from proxfl.deploy.server.deployed import STUDY, by_kind, deployed
from proxfl.deploy.server.federation import RemoteFederation
from proxfl.deploy.server.proposal import refuse_absent
from proxfl.deploy.server.status import Status, after_round, so_far
from proxfl.deploy.server.summaries import refuse_other
from proxfl.errors import InputError
from proxfl.train import folder as results
from proxfl.train.drivers.driver import Driver, Record
from proxfl.train.local import Traffic, total
from proxfl.train.train import Fit

COMPARE = "the words are compared (proxfl federate members)"
P = TypeVar("P", bound=Program)
Masking = dict[str, Any]  # who took part, by which words, and what they signed


@dataclass
class MaskedRun:
    """One life of a run, of training unless `conduct` is given another program."""

    study: Study
    out: Path
    command: str
    secure: bool
    federation: RemoteFederation
    status: Status
    fingerprints: dict[str, str] = field(default_factory=dict)
    traffic: list[Traffic] = field(default_factory=list)

    def in_results(self, program_of: Callable[[Charter], P]) -> tuple[P, Masking]:
        """A program whose sums are in the folder of results, with the study that they are of."""
        kept = Kept(self.out / EXCHANGES)

        def keep(exchange: SummedStep) -> None:
            if not kept:
                self.study.write(self.out / STUDY)
            kept.add(exchange)

        return self.conduct(program_of, kept, keep)

    def conduct(
        self,
        program_of: Callable[[Charter], P],
        before: Sequence[SummedStep],
        keep: Callable[[SummedStep], None],
    ) -> tuple[P, Masking]:
        """A program run to its end, which is signed; with what masked it, for the manifest."""
        self.members, self.charter = self.enter()
        about = (self.members, self.charter.digest(self.study.text))
        self.conductor = Conductor(*about, self.greet, self.send, keep, before)
        program = program_of(self.charter)
        model = self.conductor.run(program)
        return program, {
            "words": self.members.words,
            "members": {m.name: m.key.hex() for m in self.members.each},
            "study": about[1].hex(),
            "tip": self.conductor.tip.hex(),
            "model": model.content.hex(),
            "signatures": self.signed(model),
        }

    def run(self) -> Fit:
        """A run of training."""
        begun, resumed = time.monotonic(), (self.out / EXCHANGES).exists()
        about = (self.study.spec, len(self.study.sites))
        made = lambda charter: MaskedTraining(*about, *charter, watch=self.watch)
        program, masking = self.in_results(made)
        if program.agreement is None or program.found is None:
            raise RuntimeError("A run that has ended has found something.")
        rounds = dict.fromkeys(self.study.sites, len(program.found.solution.records))
        ledger = self.federation.ledger
        more: Any = {"quorum": 0, "resumed": int(resumed), "secure": self.secure}
        return Fit(
            **program.found._asdict(),
            spec=self.study.spec,
            agreement=program.agreement,
            fingerprints=self.fingerprints,
            dropped={ALL: program.dropped},
            traffic=self.traffic,
            ledger=by_kind(ledger),
            seconds=time.monotonic() - begun,
            deployment=deployed(ledger, self.study, rounds, **more) | {"masking": masking},
        )

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
                f"{self.out} knows of {self.conductor.step - 1}; resume the run that has them, or "
                "write another study: under masks a study is asked once."
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

    def watch(self, driver: Driver, records: list[Record]) -> None:
        """After every round, also one that is gone through again from the sums on the disk."""
        if len(records) == 1:
            results.begin(self.out, self.study.spec, self.fingerprints, self.command)
            self.study.write(self.out / STUDY)
        ledger = self.federation.ledger
        self.traffic.append(total(by_kind(ledger)))
        self.status.tell(
            **after_round(records, 0.0, driver.settings),
            answered=len(self.study.sites),
            away=[],
            **so_far(ledger),
        )


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
