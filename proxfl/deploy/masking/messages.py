"""Hellos, calls and replies as the arrays and texts of a message, and back, with all checks.

Whatever is wrong raises `BadMessage`: a table of bytes has one row for each member, in their order.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from proxfl.deploy.masking.digests import SIZE, digest
from proxfl.deploy.masking.member import ProvenRequest
from proxfl.deploy.masking.members import Members
from proxfl.deploy.masking.replica import Question
from proxfl.deploy.masking.reply import Reply
from proxfl.deploy.masking.session import Hello
from proxfl.deploy.masking.transcript import Request
from proxfl.deploy.protocol.wire import Arrays, BadMessage, Value
from proxfl.errors import InputError
from proxfl.losses.targets import Label
from proxfl.storage.typed import misfit

SIGNATURE, LAST = 64, 8  # bytes
HELLO = 3 * SIZE + LAST + SIGNATURE
ABOUT = "about "  # before the names of a question's numbers


class Charter(NamedTuple):
    """What members must have in common before a question can be the same for all."""

    features: tuple[str, ...]
    labels: tuple[Label, ...]

    @property
    def text(self) -> str:
        return json.dumps([list(self.features), list(self.labels)])

    def digest(self, study: str) -> bytes:
        """The name of a study, its text and its charter, in all that members sign."""
        return digest("study", study.encode(), self.text.encode())


def charter_in(text: Value | None) -> Charter:
    try:
        features, labels = json.loads(str(text))
    except (ValueError, TypeError, RecursionError):
        raise BadMessage("The charter cannot be read.") from None
    if misfit(features, list[str]) or misfit(labels, list[Label]):
        raise BadMessage("The charter has not a list of columns and one of labels.")
    if not features or len(set(features)) < len(features):
        raise BadMessage("The charter has no columns, or one twice.")
    if len(set(labels)) < len(labels):
        raise BadMessage("The charter has a label twice.")
    return Charter(tuple(features), tuple(labels))


def members_text(members: Members) -> str:
    return json.dumps({m.name: m.key.hex() for m in members.each})


def members_in(text: Value | None) -> Members:
    try:
        return Members.of({n: bytes.fromhex(k) for n, k in json.loads(str(text)).items()})
    except InputError as error:
        raise BadMessage(error) from None
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise BadMessage("The list of members cannot be read.") from None


def as_bytes(data: bytes) -> np.ndarray:
    return np.frombuffer(data, np.uint8)


def bytes_in(payload: Arrays, name: str, size: int | None = None) -> bytes:
    found = payload.get(name)
    if isinstance(found, np.ndarray) and found.dtype == np.uint8 and found.ndim == 1:
        if size is None or len(found) == size:
            return found.tobytes()
    raise BadMessage(f"The message has no {name} of the right size.")


def table_of(rows: Sequence[bytes], size: int) -> np.ndarray:
    return as_bytes(b"".join(rows)).reshape(-1, size)


def rows_in(payload: Arrays, name: str, size: int | None = None) -> list[bytes]:
    found = payload.get(name)
    if not isinstance(found, np.ndarray) or found.dtype != np.uint8 or found.ndim != 2:
        raise BadMessage(f"The message has no table of {name}.")
    if size is not None and found.shape[1] != size:
        raise BadMessage(f"The {name} in the message are of another size than {size} bytes.")
    return [row.tobytes() for row in found]


def number_in(payload: Arrays, name: str) -> int:
    found = payload.get(name)
    if not isinstance(found, np.ndarray) or found.shape or found.dtype != np.int64 or found < 0:
        raise BadMessage(f"The message has no whole number {name!r}.")
    return int(found)


def hello_bytes(hello: Hello) -> bytes:
    """A hello without what both sides know of it."""
    last = hello.last.to_bytes(LAST, "little")
    return hello.key + hello.nonce + hello.data + last + hello.signature


def hello_of(data: bytes, number: int, study: bytes, members: bytes) -> Hello:
    if len(data) != HELLO:
        raise BadMessage(f"A hello has {HELLO} bytes, not {len(data)}.")
    key, nonce, table = (data[i * SIZE : (i + 1) * SIZE] for i in range(3))
    last = int.from_bytes(data[3 * SIZE : 3 * SIZE + LAST], "little")
    if last >= 2**63:
        raise BadMessage("A hello names a step that no run reaches.")
    return Hello(number, study, members, key, nonce, table, last, data[3 * SIZE + LAST :])


def question_payload(question: Question) -> dict[str, Value]:
    about = {f"{ABOUT}{name}": value for name, value in question.numbers.items()}
    return about | {"kind": question.kind, "length": np.array(question.length, np.int64)}


def question_in(payload: Mapping[str, Value]) -> Question:
    kind, numbers = payload.get("kind"), {}
    if not isinstance(kind, str):
        raise BadMessage("The message does not say what it asks.")
    for name, value in payload.items():
        if name.startswith(ABOUT):
            if isinstance(value, str):
                raise BadMessage("A question is about numbers, not about a text.")
            numbers[name.removeprefix(ABOUT)] = value
    return Question(kind, numbers, number_in(payload, "length"))


def replies_payload(replies: Sequence[Reply]) -> dict[str, Value]:
    if not replies:
        return {"replies": np.zeros((0, 1), np.uint8), "signatures": np.zeros((0, 1), np.uint8)}
    masked = table_of([r.masked for r in replies], len(replies[0].masked))
    return {"replies": masked, "signatures": table_of([r.signature for r in replies], SIGNATURE)}


def replies_in(payload: Arrays) -> list[Reply]:
    masked, signatures = rows_in(payload, "replies"), rows_in(payload, "signatures")
    if len(masked) != len(signatures):
        raise BadMessage("The message has not one signature for each reply.")
    return [Reply(i, *both) for i, both in enumerate(zip(masked, signatures, strict=True))]


def call_payload(call: ProvenRequest) -> dict[str, Value]:
    """A call, but for what both sides know: the study and its members."""
    request = call.request
    about = {"session": as_bytes(request.session), "tip": as_bytes(request.tip)}
    about |= {"step": np.array(request.step, np.int64)}
    about |= {"hellos": table_of([hello_bytes(hello) for hello in call.hellos], HELLO)}
    return about | question_payload(call.question) | replies_payload(call.replies)


def call_in(payload: Arrays, study: bytes, members: bytes) -> ProvenRequest:
    question = question_in(payload)
    session, tip = (bytes_in(payload, name, SIZE) for name in ("session", "tip"))
    request = Request(study, session, number_in(payload, "step"), tip, question.content)
    rows = rows_in(payload, "hellos", HELLO)
    hellos = [hello_of(row, i, study, members) for i, row in enumerate(rows)]
    return ProvenRequest(request, question, hellos, replies_in(payload))


def reply_payload(reply: Reply) -> dict[str, Value]:
    return {"masked": as_bytes(reply.masked), "signature": as_bytes(reply.signature)}


def reply_in(payload: Mapping[str, Any], number: int) -> Reply:
    return Reply(number, bytes_in(payload, "masked"), bytes_in(payload, "signature", SIGNATURE))
