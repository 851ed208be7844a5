"""A site in a masked study: it follows the run, and answers under masks about what follows.

    enter   the key it signs by, its columns' names, and its labels unless the study has them
    meet    the members and what they have in common, for a hello
    step    a question with what proves it, for a masked reply
    sign    the model of the run, for a signature

Once replies have begun, nothing that goes wrong with the data is told by any other way than the
flag in a reply, which shows how many sites set it and not which.
"""

import logging
from collections.abc import Callable
from typing import Any, TypedDict

import numpy as np

from proxfl.deploy.masking.answering import MaskedSite
from proxfl.deploy.masking.description import DescribedSite, MaskedDescription
from proxfl.deploy.masking.evaluation import DRAWS, EvaluatedSite, MaskedEvaluation
from proxfl.deploy.masking.member import Member
from proxfl.deploy.masking.members import Members
from proxfl.deploy.masking.messages import (
    Charter,
    as_bytes,
    call_in,
    charter_in,
    hello_bytes,
    members_in,
    members_text,
    question_in,
    replies_in,
    reply_payload,
)
from proxfl.deploy.masking.path import models_in
from proxfl.deploy.masking.record import FILE as RECORD
from proxfl.deploy.masking.replica import Program, Question
from proxfl.deploy.masking.session import Refused
from proxfl.deploy.masking.training import SETUP, MaskedTraining
from proxfl.deploy.ops.permissions import private_folder
from proxfl.deploy.protocol.study import TAKES_PART, WAITS, Study
from proxfl.deploy.protocol.trees import largest
from proxfl.deploy.protocol.wire import BadMessage, Value
from proxfl.deploy.site.draws import secret_draws
from proxfl.deploy.site.guard import guards
from proxfl.deploy.site.office import Office
from proxfl.deploy.site.path import path_at
from proxfl.deploy.site.policy import large_with
from proxfl.deploy.site.proposal import Proposal
from proxfl.deploy.site.seat import Seat
from proxfl.deploy.site.worker import Worker
from proxfl.errors import DamageError, DiskError, InputError
from proxfl.storage import documents
from proxfl.tables import Table
from proxfl.train.spec import declared, loss_of

log = logging.getLogger("proxfl.deploy")

FOLDER, CHARTER = "masked", "charter.json"
MEMBERS = "members"  # among the news
COMPARE = (
    "A study waits for you to compare the members' words with two other sites, over the telephone "
    "say: proxfl federate members DIR --site {site}"
)
UNCOUNTED = (*SETUP, DRAWS)  # what tells of no other model than the questions before
LAPSED: dict[str, Value] = {"lapsed": "This process has another hello; meet again."}


class CharterFile(TypedDict):
    """With whom, and about what, this site has begun a study."""

    members: str
    charter: str


def has_replied(office: Office, study: Study) -> bool:
    """Whether a site has answered anything of a study: from then on its flag is all it says."""
    return (office.place(study.id) / FOLDER / RECORD).exists()


Parts = tuple[Program, Callable[[Question], tuple[np.ndarray, bool]]]


def training(site: "FollowingSite", charter: Charter) -> Parts:
    """A run of training, in which no answer hangs on few rows."""
    seat = site.seat
    run = MaskedTraining(seat.study.spec, len(seat.study.sites), *charter)
    return run, MaskedSite(run, seat.table, site.folder, *guards(seat.shares))


def path(site: "FollowingSite", charter: Charter) -> Parts:
    return path_at(site.seat, site.folder, charter)


def evaluation(site: "FollowingSite", charter: Charter) -> Parts:
    seat, run = site.seat, MaskedEvaluation(site.seat.study)
    return run, EvaluatedSite(run, seat.table, secret_draws(seat.office, seat.study.id))


def description(site: "FollowingSite", charter: Charter) -> Parts:
    seat = site.seat
    answers = DescribedSite(seat.study, seat.table, seat.office.policy.count)
    return MaskedDescription(seat.study), answers


# By what is asked, the program that a site follows, and what it answers.
PARTS: dict[str, Callable[["FollowingSite", Charter], Parts]] = {
    "train": training,
    "path": path,
    "evaluate": evaluation,
    "describe": description,
}


class FollowingSite:
    """A table, and the run that is followed once all have met.

    `withheld`, it sets its flag in every reply: where a site that has answered some may not go on,
    a sentence would say which site that is, and for which of its rules.
    """

    def __init__(
        self, study: Study, name: str, table: Table, office: Office, withheld: bool = False
    ):
        self.seat = Seat(study, name, table, office)
        self.withheld, self.overspent = withheld, False
        self.folder = self.seat.folder / FOLDER
        self.member: Member | None = None
        self.met: CharterFile | None = None

    def worker(self) -> Worker:
        setup = {"enter": self.enter, "meet": self.meet, "step": self.step, "sign": self.sign}
        otherwise = "answers under masks in this study, and not otherwise."
        return self.seat.answering(setup, otherwise)

    @property
    def tells_labels(self) -> bool:
        """Whether the classes are those in the sites' rows, as neither study nor model has them."""
        spec, known = self.seat.study.spec, self.seat.study.ask in ("evaluate", "describe")
        return bool(loss_of(spec).target.most) and not known and not declared(spec)

    @property
    def labels(self) -> list[Any]:
        """The classes in this site's rows, unless the study names them for all."""
        labels = loss_of(self.seat.study.spec).target.labels
        return list(labels(self.seat.table.y)) if self.tells_labels else []

    def enter(self, question: dict[str, Value]) -> dict[str, Value]:
        self.tell_of_rows()
        charter = Charter(tuple(self.seat.table.features), tuple(self.labels))
        self.seat.questions.enter("enter", setup=True)
        return {"key": self.key.hex(), "charter": charter.text}

    @property
    def key(self) -> bytes:
        """By which the other members know this site."""
        return self.seat.office.signer.public_key().public_bytes_raw()

    def tell_of_rows(self) -> None:
        if not has_replied(self.seat.office, self.seat.study):
            self.seat.tell_of_rows()

    def meet(self, question: dict[str, Value]) -> dict[str, Value]:
        """A hello, if these are the members that a person here knows, and these the columns."""
        members, charter = members_in(question.get("members")), charter_in(question.get("charter"))
        self.check(members, charter)
        if not self.seat.office.confirmed.holds(members):
            reason = (
                f"a person there compares the members' words, {members.words}, with two others' "
                "(proxfl federate members)"
            )
            self.seat.office.news[MEMBERS] = COMPARE.format(site=self.seat.name)
            return {"decision": WAITS, "reason": reason}
        self.seat.office.news.pop(MEMBERS, None)
        begun = CharterFile(members=members_text(members), charter=charter.text)
        if self.member is None or begun != self.met:
            self.member, self.met = self.begin(members, charter, begun), begun
            self.seat.questions.enter("meet", setup=True, members=members.digest.hex())
        hello = as_bytes(hello_bytes(self.member.hello))
        return {"decision": TAKES_PART, "reason": "", "hello": hello}

    def check(self, members: Members, charter: Charter) -> None:
        if [m.name for m in members.each] != sorted(self.seat.study.sites):
            raise BadMessage("The members are not the sites of the study.")
        if members.each[members.index(self.seat.name)].key != self.key:
            raise BadMessage(f"The members have another key for {self.seat.name} than its own.")
        if sorted(charter.features) != sorted(self.seat.table.features):
            raise BadMessage(f"Site {self.seat.name} has other columns than the charter.")
        if not set(self.labels) <= set(charter.labels):
            raise BadMessage(f"Site {self.seat.name} has labels that the charter has not.")
        if self.tells_labels:
            about = Proposal(self.seat.study, self.seat.table, site=self.seat.name)
            for objection in large_with(self.seat.office.policy, about, charter.labels):
                log.warning("Site %s is met by too large a charter", self.seat.name)
                self.withheld = has_replied(self.seat.office, self.seat.study)
                if not self.withheld:
                    raise BadMessage(f"Site {self.seat.name} declines: {objection.sentence}.")
        elif charter.labels:
            raise BadMessage("The charter has labels where the study leaves none to be told.")

    def begin(self, members: Members, charter: Charter, begun: CharterFile) -> Member:
        """One life of this site in the study; the charter is that of its first."""
        self.tell_of_rows()
        path = private_folder(self.folder) / CHARTER
        if not path.exists():
            documents.write_json(path, dict(begun), private=True)
        elif documents.read_json(path, CharterFile) != begun:
            raise BadMessage(
                f"Site {self.seat.name} began this study with other members, columns or labels; "
                "begin another study."
            )
        try:
            run, self.answers = PARTS[self.seat.study.ask](self, charter)
        except InputError as error:
            raise BadMessage(error) from None
        data = bytes.fromhex(self.seat.fingerprint)
        about = (members, self.seat.name, charter.digest(self.seat.study.text), data, self.folder)
        return Member(self.seat.office.signer, *about, run, self.sums, self.noise)

    def noise(self, tip: bytes, question: Question) -> np.ndarray | None:
        """This site's noise for a question of a round, once it has been counted; also where no
        more may be spent, so that a flag takes as long."""
        if self.seat.account is None or question.kind in SETUP:
            return None
        rows = bytes.fromhex(self.seat.fingerprint)
        seed = self.seat.account.seed(tip, question.content, rows)
        try:
            if not self.withheld:
                self.seat.account.spend(self.seat.name, seed)
            self.overspent = False
        except BadMessage as error:
            log.warning("Site %s sets its flag: %s", self.seat.name, error)
            self.overspent = True
        return self.seat.account.noise.words(seed, question.length, self.seat.table.rows)

    def sums(self, question: Question) -> tuple[np.ndarray, bool]:
        """This site's part of a sum, and whether it may leave; on the audit log before it does.

        It is computed even if it may not: else the site that flags would be the one that is early.
        """
        setup = question.kind in UNCOUNTED
        try:
            values, sound = self.answers(question)
            sound = sound and not (self.withheld or self.overspent)
            if not setup:
                self.seat.questions.check(self.seat.name, self.seat.table.rows, models_in(question))
        except (DiskError, DamageError):
            raise
        except Exception:  # what it was may tell of a row: the flag tells nothing else
            log.exception("Site %s sets its flag", self.seat.name)
            values, sound = np.zeros(question.length), False
        about = {"largest": largest(question.numbers.values()), "numbers": question.length}
        about |= {"masked": True, "models": models_in(question)}
        self.seat.questions.enter(question.kind, setup=setup, **about)
        return values, sound

    def step(self, question: dict[str, Value]) -> dict[str, Value]:
        if self.member is None:
            return LAPSED
        hello = self.member.hello
        call = call_in(question, hello.study, hello.members)
        if hello not in call.hellos:
            return LAPSED
        try:
            return reply_payload(self.member.answer(call))
        except Refused as error:
            raise BadMessage(f"Site {self.seat.name} does not answer: {error}") from None
        except Exception:  # of what kind it is may hang on a row
            log.exception("Site %s fails to answer", self.seat.name)
            raise BadMessage(f"Site {self.seat.name} does not answer; its log says why.") from None

    def sign(self, question: dict[str, Value]) -> dict[str, Value]:
        if self.member is None:
            return LAPSED
        try:
            signature = self.member.sign(question_in(question), replies_in(question))
        except Refused as error:
            raise BadMessage(f"Site {self.seat.name} does not sign: {error}") from None
        self.seat.questions.enter("sign", setup=True)
        return {"signature": as_bytes(signature)}
