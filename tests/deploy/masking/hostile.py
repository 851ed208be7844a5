"""What a hostile server sends: honest requests with one thing changed, signed anew if that helps.

It has a key of its own, and that of the member `south`. A request is changed before it is encoded,
so that the frame is sound and one check has to notice; or a part of the frame is changed, or its
bytes.
"""

import ast
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from proxfl.deploy.masking import member, messages, reply, session
from proxfl.deploy.masking.member import Member, ProvenRequest
from proxfl.deploy.masking.replica import Question
from proxfl.deploy.masking.reply import BYTES, Reply, signed_content, words_in
from proxfl.deploy.masking.session import FIELD, Hello, session_digest
from proxfl.deploy.masking.transcript import next_tip
from proxfl.engine import fixed_point, grid
from tests.deploy.masking.run import FEATURES, Killed, Party, resessioned
from tests.deploy.masking.world import NAMES, STUDY

HERE, NORTH, SOUTH = range(3)  # the member that is asked, an honest one, and the hostile one


class Moment:
    """A member as it stands before a call, which it can be put back to."""

    def __init__(self, party: Party, member: Member, call: ProvenRequest):
        self.party, self.member, self.call, self.record = party, member, call, member.record
        self.memory = dict(member.sessions), member.data, dict(member.said)
        self.noted = self.record.latest, set(self.record.sessions), self.record.size
        self.answer, self.told = member.answer_of, set[bytes]()
        member.answer_of = self.telling

    def telling(self, question: Question) -> tuple[np.ndarray, bool]:
        """The member's answer; what it is about is noted."""
        self.told.add(question.content)
        return self.answer(question)

    def back(self) -> None:
        sessions, data, said = self.memory
        self.member.sessions, self.member.data = dict(sessions), data
        self.member.said = dict(said)
        if self.record.size != self.noted[2]:
            self.member.forget()
        self.record.latest, answered, self.record.size = self.noted
        self.record.sessions = set(answered)
        self.record.drop_rest()


def moments(folder: Path) -> dict[str, Moment]:
    """A member at the start of a run, amid it, begun anew, asked again, and at its end."""

    def until(name: str, step: int) -> tuple[Party, ProvenRequest]:
        """A run up to a step that nobody has answered, or to one more than there are."""
        party, seen = Party(folder / name), []

        def send(call: ProvenRequest) -> list[Reply]:
            seen.append(call)
            if call.request.step == step:
                raise Killed
            return party.send(call)

        try:
            party.run(send)
        except Killed:
            return party, seen[-1]
        (call, exchange), held = (seen[-1], party.kept[-1]), party.processes[HERE].record.latest
        assert held is not None
        tip = next_tip(held.tip, held.step, exchange.words)
        request = call.request._replace(step=held.step + 1, tip=tip)
        return party, call._replace(request=request, replies=exchange.replies)

    def anew(party: Party, call: ProvenRequest) -> ProvenRequest:
        for i in range(len(NAMES)):
            party.restart(i)
        return resessioned(party, call, party.greet())

    made = {}
    for name, step in {"start": 1, "amid": 3, "anew": 3, "said": 3, "again": 3, "over": 99}.items():
        party, call = until(name, step)
        if name in ("said", "again"):
            party.hear(NAMES[HERE], call)
        call = anew(party, call) if name in ("anew", "again") else call
        made[name] = Moment(party, party.processes[HERE], call)
    return made


class Hostile:
    """A server with a key of its own and a member's, and what it changes in an honest call."""

    def __init__(self, moment: Moment, rng: Random):
        self.call, self.rng, self.party = moment.call, rng, moment.party
        self.own, self.south = Ed25519PrivateKey.generate(), moment.party.signers["south"]
        self.entry = moment.record.latest

    def changed(self) -> ProvenRequest:
        """The honest call with one thing changed, and what follows from that put right or not."""
        ways = (self.of_request, self.of_question, self.of_hello, self.of_hello, self.of_hellos)
        ways += (self.of_reply, self.of_replies) if self.call.replies else ()
        return self.rng.choice(ways)()

    def asked(self, **fields: Any) -> ProvenRequest:
        return self.call._replace(request=self.call.request._replace(**fields))

    def of_request(self) -> ProvenRequest:
        rng, step = self.rng, self.call.request.step
        other = rng.choice([step - 1, step + 1, step + 2, 1, 0, 2**62])
        return rng.choice(
            [
                lambda: self.asked(session=rng.randbytes(32)),
                lambda: self.asked(tip=rng.randbytes(32)),
                lambda: self.asked(tip=flipped(self.call.request.tip, rng)),
                lambda: self.asked(step=max(other, 0)),
            ]
        )()

    def of_question(self) -> ProvenRequest:
        question, rng = self.call.question, self.rng
        numbers = dict(question.numbers) or {"x": np.zeros(FEATURES)}
        x = np.array(numbers["x"], float)
        place, step = rng.randrange(len(x)), grid.step_of(x)
        moved = [rng.choice((-2, -1, 1, 2)) * step, 1e7, 1e-9, 1e-3 * step, np.spacing(x[place])]
        x[place] = rng.choice([x[place] + rng.choice(moved), -x[place]])
        odd = rng.choice([x, x.astype(np.float32), x[:2], x[None], np.float64(3.0), np.arange(3)])
        name = rng.choice(["x", "y"])
        changes: list[dict[str, Any]] = [
            {"kind": rng.choice(["rows", "gradient", "model", ""])},
            {"length": rng.choice([0, 1, 2, question.length + 1, 2**40])},
            {"numbers": {name: x}},
            {"numbers": {"x": x}},
            {"numbers": numbers | {name: np.asarray(odd)}},
        ]
        other = question.__class__(**{**vars(question), **rng.choice(changes)})
        return self.asked(question=other.content)._replace(question=other)

    def of_hello(self) -> ProvenRequest:
        """A hello of one member with another field, signed by it or by a stranger or as it was."""
        rng, hellos = self.rng, list(self.call.hellos)
        number = rng.choice([HERE, NORTH, SOUTH, SOUTH, SOUTH])
        other, own = hellos[number], int.from_bytes(hellos[number].key, "little")
        small = [value.to_bytes(32, "little") for value in (0, 1, FIELD - 1)]
        twice = [value.to_bytes(32, "little") for value in (FIELD + 9, own | 1 << 255)]
        taken = [hellos[NORTH].key, hellos[HERE].key]
        keys = rng.choice([small, twice, taken, [rng.randbytes(31) + b"\0"]])
        changes: list[dict[str, Any]] = [
            {"key": rng.choice(keys)},
            {"key": rng.choice(keys)},
            {"nonce": rng.randbytes(32)},
            {"data": rng.randbytes(32)},
            {"last": other.last + rng.choice([1, 2, 2**40])},
            {"last": 2**63 + rng.randrange(9)},
        ]
        other = other._replace(**rng.choice(changes))
        signers = [self.own, self.south] + [self.south] * 2 * (number == SOUTH)
        hellos[number] = other._replace(
            signature=rng.choice(signers).sign(other.content)
            if rng.randrange(5)
            else flipped(other.signature, rng)
        )
        return self.sessioned(hellos)

    def of_hellos(self) -> ProvenRequest:
        return self.sessioned(reordered(self.call.hellos, self.rng))

    def sessioned(self, hellos: Sequence[Hello]) -> ProvenRequest:
        """In the session that these hellos make, or in that of before."""
        named = session_digest(STUDY, self.party.members.digest, hellos)
        other = self.call if self.rng.randrange(4) == 0 else self.asked(session=named)
        return other._replace(hellos=hellos)

    def of_reply(self) -> ProvenRequest:
        """A member's reply with other numbers, signed by it, by another or as it was."""
        rng, entry, replies = self.rng, self.entry, list(self.call.replies)
        number = rng.choice([HERE, NORTH, SOUTH, SOUTH, SOUTH])
        words = words_in(replies[number].masked)
        lie = np.zeros((len(words), 2), np.uint64)
        lie[rng.randrange(len(words))] = fixed_point.encode(np.array([rng.choice([1.0, -3.0])]))[0]
        wild = np.frombuffer(rng.randbytes(words.nbytes), np.uint64).reshape(-1, 2)
        masked = fixed_point.add(words, rng.choice([lie, lie, wild])).astype("<u8").tobytes()
        assert entry is not None
        asked = self.named_before(entry)
        content = signed_content(*asked, number, masked)
        signature = rng.choice([self.own, self.south, self.south]).sign(content)
        signature = signature if rng.randrange(4) else replies[number].signature
        replies[number] = Reply(number, masked, signature)
        total = words_in(replies[0].masked)
        for other in replies[1:]:
            total = fixed_point.add(total, words_in(other.masked))
        tip = next_tip(entry.tip, entry.step, total[:-1])
        follows = self.asked(tip=tip) if rng.randrange(2) else self.call
        return follows._replace(replies=replies)

    def named_before(self, entry: Any) -> tuple[bytes, bytes]:
        """The session and the request of the step before, which replies are signed for."""
        request = self.call.request._replace(
            session=entry.session, step=entry.step, tip=entry.tip, question=entry.question
        )
        return entry.session, request.digest

    def of_replies(self) -> ProvenRequest:
        if self.rng.randrange(2):
            return self.call._replace(replies=reordered(self.call.replies, self.rng))
        end = self.rng.choice([-BYTES, BYTES])  # all of them longer or shorter by a number
        other = lambda r: r._replace(masked=(r.masked + bytes(BYTES))[: len(r.masked) + end])
        return self.call._replace(replies=[other(r) for r in self.call.replies])


def reordered(each: Sequence[Any], rng: Random) -> list[Any]:
    """One left out, twice there, or in the place of another."""
    some, at, to = list(each), rng.randrange(len(each)), rng.randrange(len(each))
    match rng.randrange(4):
        case 0:
            return []
        case 1:
            return some[:at] + some[at + 1 :]
        case 2:
            return some[:at] + some[at:][:1] + some[at:]
        case _:
            some[at], some[to] = some[to], some[at]
            return some


def flipped(data: bytes, rng: Random) -> bytes:
    made = bytearray(data)
    made[rng.randrange(len(made))] ^= 1 << rng.randrange(8)
    return bytes(made)


def spoilt(payload: dict[str, Any], rng: Random) -> dict[str, Any]:
    """One part of a request left out, of another form, or with some of its bits flipped."""
    name = rng.choice(sorted(payload))
    value = payload[name]
    if rng.randrange(4) == 0:
        return {key: held for key, held in payload.items() if key != name}
    if isinstance(value, str):
        return payload | {name: rng.choice(("rows", "round", "model", "", np.zeros(3)))}
    if rng.randrange(2):
        odd = [value[..., :-1], value[:-1]] if value.ndim else [-1 - value]
        odd += [value[None], value.astype(np.float64), "a text"]
        return payload | {name: rng.choice(odd)}
    data = bytearray(value.tobytes())
    for _ in range(rng.randint(1, 3) if data else 0):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return payload | {name: np.frombuffer(bytes(data), value.dtype).reshape(value.shape)}


@cache
def sentences() -> dict[str, re.Pattern[str]]:
    """Every sentence by which a request is turned down, as the code has it."""
    made = {}
    for module in (messages, session, member, reply):
        for form in raised(ast.parse(Path(str(module.__file__)).read_text())):
            made["...".join(form)] = re.compile(".*".join(map(re.escape, form)), re.DOTALL)
    return made


def raised(tree: ast.AST) -> Iterator[list[str]]:
    """The texts of the refusals in a module, in parts around what is filled in."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("Refused", "BadMessage"):
            (text,) = node.args
            if isinstance(text, ast.Constant):
                yield [str(text.value)]
            if isinstance(text, ast.JoinedStr):
                parts = [v.value if isinstance(v, ast.Constant) else None for v in text.values]
                yield "".join("\0" if p is None else str(p) for p in parts).split("\0")


def sentence_of(error: ValueError) -> str:
    """Which of them it is; the longest that fits."""
    fits = [name for name, form in sentences().items() if form.fullmatch(str(error))]
    return max(fits, key=len)
