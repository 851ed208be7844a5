"""Where a site's messages come in: those of the federation, and those of each of its studies.

On the federation's own channel the server asks who is there and proposes studies. A site reads the
columns that a study names, holds them to its policy, and takes part, waits for a person, or
declines in a sentence that the server's operator can read. What is asked about a study goes to a
worker of its own, made from what is in the study's folder: a process that starts again goes on.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from proxfl.deploy.protocol import wire
from proxfl.deploy.protocol.membership import FILE, LiveMembership, Membership
from proxfl.deploy.protocol.study import (
    DECLINES,
    TAKES_PART,
    WAITS,
    Study,
    read_study,
)
from proxfl.deploy.protocol.wire import BadMessage, Frame
from proxfl.deploy.site import company, worker
from proxfl.deploy.site.audit import STUDY
from proxfl.deploy.site.description import DescriptionSite
from proxfl.deploy.site.evaluation import EvaluationSite
from proxfl.deploy.site.following import FollowingSite, has_replied
from proxfl.deploy.site.office import STUDIES, Office
from proxfl.deploy.site.path import PathSite
from proxfl.deploy.site.policy import Policy
from proxfl.deploy.site.policy_file import POLICY
from proxfl.deploy.site.proposal import Objection, Proposal
from proxfl.deploy.site.training import TrainingSite
from proxfl.deploy.site.worker import Worker
from proxfl.errors import InputError

log = logging.getLogger("proxfl.deploy")

KINDS = {
    "train": TrainingSite,
    "path": PathSite,
    "evaluate": EvaluationSite,
    "describe": DescriptionSite,
}  # what takes part, by what is asked


def kind_of(study: Study) -> Any:
    """What takes part in a study at a site; its table is read as for one in the clear."""
    return FollowingSite if study.masked else KINDS[study.ask]


@dataclass
class Reception:
    """A site and its file; one study is open at a time, the one that was last asked about."""

    membership: Membership | LiveMembership
    name: str
    data: Path
    office: Office
    open: dict[bytes, Worker] = field(default_factory=dict)
    held_to: tuple[Policy, tuple[str, ...]] | None = None  # when that study was opened

    def __post_init__(self):
        self.tag = wire.tag(self.membership.channel)

    @property
    def folder(self) -> Path:
        return self.office.folder

    @property
    def rules(self) -> tuple[Policy, tuple[str, ...]]:
        """What the people here may change while a study is open: the policy, and the members."""
        return self.office.policy, self.membership.sites

    def answer(self, request: bytes) -> bytes:
        """The reply to a message, or a refusal that says in a sentence what was wrong with it."""
        tag = wire.brief(request).experiment
        ours = lambda frame: self.worker(tag).receive(frame)
        return worker.answered(self.name, request, self.receive if tag == self.tag else ours)

    def receive(self, frame: Frame) -> bytes:
        """A message of the federation's own channel."""
        header = frame.header
        if header.kind == wire.HELLO:
            return worker.greeting(header, self.name)
        if header.kind != wire.TASK or frame.settings.get("task") != "propose":
            raise BadMessage(f"Site {self.name} is asked such things about a study only.")
        return wire.encode(header._replace(kind=wire.ANSWER), {}, self.propose(frame.payload))

    def propose(self, question: dict[str, wire.Value]) -> dict[str, wire.Value]:
        """What the site does about a study, and why."""
        try:
            study = read_study(str(question.get("study")))
        except InputError as error:
            raise BadMessage(f"Site {self.name} cannot read the study: {error}") from None
        decision, reason = self.decide(study)
        return {"decision": decision, "reason": reason}

    def decide(self, study: Study) -> tuple[str, str]:
        """What the site does about a study, and why; it is open, if the site takes part."""
        return self.decided(study, *self.judged(study))

    def decided(
        self, study: Study, proposal: Proposal | None, found: Sequence[Objection]
    ) -> tuple[str, str]:
        final = [one for one in found if not one.waits]
        decision = DECLINES if final else WAITS if found else TAKES_PART
        why = next(iter(final or found), Objection(""))
        if decision != DECLINES:
            self.office.keep(study)
        if proposal is not None and not found:
            if proposal.company is not None:
                company.keep(self.office.place(study.id), proposal.company)
            made = kind_of(study)(study, self.name, proposal.table, self.office)
            self.open = {wire.tag(study.id): made.worker()}
        self.note(study, decision, why, proposal)
        return decision, why.sentence

    def note(self, study: Study, decision: str, why: Objection, proposal: Proposal | None) -> None:
        """Tell the audit log, the log, and the people here; nothing, where nothing has changed."""
        decisions = self.office.audit.decisions
        if decisions.get(study.id) == decision or self.seen(study) >= self.office.policy.studies:
            return
        about = {"name": study.name, "ask": study.ask, "decision": decision}
        self.office.audit.enter(STUDY, study.id, **about, reason=why.sentence)
        reason = "; ".join(part.rstrip(".") for part in (why.sentence, why.detail) if part)
        todo = {
            WAITS: f" (proxfl federate approve DIR {study.name} --site {self.name})",
            DECLINES: f" (what it takes part in: {self.folder / POLICY})",
        }
        reason += todo.get(decision, "")
        told = f"Study {study.name}: this site {decision}{': ' if reason else ''}{reason}."
        if proposal is not None and (odd := proposal.seems_to_name_rows):
            told += (
                f" Look at its columns: {odd}; what only names rows or persons, exclude in "
                f"{self.folder / POLICY} keeps out."
            )
        log.info(told)
        self.office.news[study.id] = told

    def seen(self, study: Study) -> int:
        """The other studies that were decided on."""
        return len(self.office.audit.decisions.keys() - {study.id})

    def judged(self, study: Study) -> tuple[Proposal | None, list[Objection]]:
        """A study with its table, if that can be read, and what there is against it."""
        self.held_to = self.rules
        found = list(self.foreign(study))
        if found and not found[0].waits:
            return None, found
        try:
            table = KINDS[study.ask].read(study, self.data)
            before = (self.office.asked(study.id), self.seen(study))
            spent = self.office.spent(study.id)
            proposal = self.in_company(Proposal(study, table, *before, self.name, spent))
            against = list(self.office.policy.objections(proposal))
        except InputError as error:
            todo = "its file cannot be read for the study; its log says why, for its people to mend"
            told = Objection(todo, str(error))
            return None, [told]
        found += against
        if self.office.approved(study.id):
            found = [one for one in found if not one.waits]
        return proposal, found

    def in_company(self, proposal: Proposal) -> Proposal:
        """The same with whose sums it has, and those of the studies before it had."""
        study, decisions = proposal.study, self.office.audit.decisions
        begun = [one for one, decision in decisions.items() if decision == TAKES_PART]
        before = company.earlier(self.folder / STUDIES, study, begun)
        mine = company.company_of(study, proposal.columns)
        return proposal._replace(company=mine, before=before)

    def foreign(self, study: Study) -> Iterator[Objection]:
        """What is against a study before the site looks at its own file."""
        mine, members = self.membership, set(self.membership.sites)
        if study.federation != mine.name or self.name not in study.sites:
            other = "it joins that, if at all, from a folder of its own"
            yield Objection(f"the study is of {study.federation}, between other sites; {other}")
        elif not set(study.sites) <= members:
            other = sorted(set(study.sites) - members)[0]
            sentence = f"its copy of {FILE} does not name the site {other}"
            yield Objection(sentence, waits=True)

    def worker(self, tag: bytes) -> Worker:
        """What answers for a study that the site takes part in, by policy and members as they are
        now."""
        if self.rules != self.held_to:
            self.open.clear()
        if tag not in self.open:
            known = (study for study in self.office.studies() if wire.tag(study.id) == tag)
            study = next(known, None)
            if study is None:
                raise BadMessage(f"Site {self.name} takes part in no such study; propose it.")
            proposal, found = self.judged(study)
            decision, reason = self.decided(study, proposal, found)
            if tag not in self.open and study.masked and has_replied(self.office, study):
                if proposal is None:
                    raise BadMessage(f"Site {self.name} does not answer; its log says why.")
                about = (study, self.name, proposal.table, self.office)
                self.open = {tag: FollowingSite(*about, withheld=True).worker()}
            if tag not in self.open:
                raise BadMessage(f"Site {self.name} {decision}: {reason}.")
        return self.open[tag]
