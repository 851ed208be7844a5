"""A server wholly in an attacker's hands, and no member, against the sites of a masked study.

Every message goes through it, and it forges what it can: its own keys it has, those of members not.
`Alone` follows the honest run to a step, and asks there about models of its own choosing in every
way that we know of; then it goes on honestly, as if nothing had been. `WAYS` has with each way the
words by which a site refuses it, so that no attack fails for a mistake of its own.
"""

import re
from collections import Counter
from dataclasses import replace

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from proxfl.deploy.masking.conductor import Conductor
from proxfl.deploy.masking.members import Members
from proxfl.deploy.masking.messages import (
    HELLO,
    Charter,
    bytes_in,
    call_payload,
    charter_in,
    hello_of,
    members_text,
    reply_in,
)
from proxfl.deploy.masking.replica import Question
from proxfl.deploy.masking.reply import Reply, signed_content, words_in
from proxfl.deploy.masking.session import session_digest
from proxfl.deploy.masking.training import MaskedTraining
from proxfl.deploy.masking.transcript import first_tip, next_tip
from proxfl.deploy.protocol.study import make_study
from proxfl.deploy.protocol.wire import BadMessage
from proxfl.engine import fixed_point
from tests.deploy.red_team import Line


class Alone:
    """The server of a masked study, which the sites take part in."""

    def __init__(self, sites, study):
        self.study = study
        self.lines = {name: Line(sites[name], i) for i, name in enumerate(study.sites)}
        self.tell("propose", {"study": study.text})
        for line in self.lines.values():
            line.experiment = study.id
        told = self.tell("enter", {})
        self.members = Members.of({n: bytes.fromhex(told[n]["key"]) for n in told})
        found = charter_in(next(iter(told.values()))["charter"])
        labels = {x for each in told.values() for x in charter_in(each["charter"]).labels}
        self.charter = Charter(found.features, tuple(sorted(labels)))
        self.study_name = self.charter.digest(study.text)
        self.own, self.asked, self.kept = Ed25519PrivateKey.generate(), [], []
        self.tried, self.answered = Counter(), Counter()  # by way

    def tell(self, task, payload):
        return {name: line.task(task, payload) for name, line in self.lines.items()}

    def greet(self):
        named = {"members": members_text(self.members), "charter": self.charter.text}
        told = self.tell("meet", named)
        read = lambda i, m: hello_of(
            bytes_in(told[m.name], "hello", HELLO), i, self.study_name, self.members.digest
        )
        return [read(i, m) for i, m in enumerate(self.members.each)]

    def send(self, call):
        told = self.tell("step", call_payload(call))
        self.asked.append(call)
        return [reply_in(told[m.name], i) for i, m in enumerate(self.members.each)]

    def run(self, deviate=lambda call: None):
        """The honest run; before each step is asked, `deviate` may ask for something else."""

        def send(call):
            deviate(call)
            return self.send(call)

        program = MaskedTraining(self.study.spec, len(self.lines), *self.charter)
        about = (self.members, self.study_name, self.greet, send, self.kept.append)
        return Conductor(*about).run(program)

    def ask_about(self, name, call, w, b):
        """Ask a site about a model, in every way, when the step of an honest call is due."""
        for question in questions_about(call.question, w, b):
            for way, words in WAYS.items():
                self.tried[way.__name__] += 1
                try:
                    way(self, self.lines[name], call, question)
                    self.answered[way.__name__] += 1
                except BadMessage as refusal:
                    if not re.search(words, str(refusal)):
                        raise

    def step(self, line, call):
        """A site's answer, as the server has it; of one that has begun anew, there is none."""
        if "lapsed" in line.task("step", call_payload(call)):
            raise BadMessage("It has another hello.")

    def propose(self, line, study):
        line.experiment, own = line.site.membership.channel, line.experiment
        try:
            found = line.task("propose", {"study": study.text})
        finally:
            line.experiment = own
        if found["decision"] != "takes part":
            raise BadMessage(found["reason"])


def questions_about(due, w, b):
    """As the question that is due, with other models in it; and for a gradient alone."""
    model = {"params.coef": np.asarray(w, float), "params.intercept": np.asarray(b, float)}
    numbers = {k: model.get(k.partition(".")[2], v) for k, v in due.numbers.items()}
    if any(k.partition(".")[2] in model for k in due.numbers):
        yield replace(due, numbers=numbers)
    yield Question("evaluate x", {f"x.{k}": v for k, v in model.items()}, len(w) + 2)


def about(call, question, **more):
    return call._replace(
        request=call.request._replace(question=question.content, **more), question=question
    )


def in_its_place(server, line, call, question):
    server.step(line, about(call, question))


def under_the_step_before(server, line, call, question):
    server.step(line, about(call, question, step=call.request.step - 1))


def as_the_first_step(server, line, call, question):
    tip = first_tip(server.study_name, server.members.digest)
    server.step(line, about(call, question, step=1, tip=tip)._replace(replies=()))


def after_a_sum_of_its_own(server, line, call, question):
    """One reply of the step before is another, signed by a key of the server's."""
    words, before = words_in(call.replies[0].masked), server.kept[-1]
    lie = fixed_point.add(words, fixed_point.encode(np.full(len(words), 1e6)))
    content = signed_content(call.request.session, call.request.digest, 0, lie.tobytes())
    forged = [Reply(0, lie.tobytes(), server.own.sign(content)), *call.replies[1:]]
    total = fixed_point.add(before.words, fixed_point.encode(np.full(len(words) - 1, 1e6)))
    tip = next_tip(server.asked[-1].request.tip, call.request.step - 1, total)
    server.step(line, about(call, question, tip=tip)._replace(replies=forged))


def in_a_session_of_its_own(server, line, call, question):
    """All others' hellos are the server's, with keys that it knows the secrets of."""
    hellos = list(call.hellos)
    for i, hello in enumerate(hellos):
        if server.lines[server.members.each[i].name] is not line:
            key = X25519PrivateKey.generate().public_key().public_bytes_raw()
            made = hello._replace(key=key)
            hellos[i] = made._replace(signature=server.own.sign(made.content))
    named = session_digest(server.study_name, server.members.digest, hellos)
    server.step(line, about(call, question, session=named)._replace(hellos=hellos))


def with_members_of_its_own(server, line, call, question):
    """A list in which all other keys are the server's: nobody there has compared its words."""
    key = server.own.public_key().public_bytes_raw()
    others = {
        m.name: m.key if server.lines[m.name] is line else key[:-1] + bytes([i])
        for i, m in enumerate(server.members.each)
    }
    named = {"members": members_text(Members.of(others)), "charter": server.charter.text}
    found = line.task("meet", named)
    if found["decision"] != "takes part":
        raise BadMessage(found["reason"])


def in_the_clear(server, line, call, question):
    line.task("evaluate", dict(question.numbers), "x")


def in_a_study_without_masks(server, line, call, question):
    spec, sites = server.study.spec, server.study.sites
    server.propose(line, make_study("clear", server.study.federation, sites, spec, unmasked=True))


WAYS = {
    in_its_place: "is not the question that follows in this run",
    under_the_step_before: "was asked otherwise in this session",
    as_the_first_step: "Step 1 (cannot follow step|was asked otherwise)",
    after_a_sum_of_its_own: "The reply of .* is not signed by its key",
    in_a_session_of_its_own: "The hello of .* is not signed by its key",
    with_members_of_its_own: "a person there compares the members' words",
    in_the_clear: "knows no task 'evaluate'",
    in_a_study_without_masks: "it answers under masks only",
}
