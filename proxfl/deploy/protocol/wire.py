"""A message between server and site, as bytes, and the checks that come before any of it is used.

    header    72 bytes: what the message is, and the experiment, site, step and round it belongs to
    values    arrays and texts by name, as a safetensors file holds them
    digest    16 bytes of BLAKE2b over all of the above, against torn and flipped bytes

The values come in two groups: `settings`, such as step sizes and metrics, and `payload`, which is
what the algorithm says goes over the wire. A text is an array of its UTF-8 bytes. Nothing is
pickled, and no length is believed before it is seen to fit. Whatever is wrong raises `BadMessage`
with one sentence.
"""

import hashlib
import json
import struct
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import safetensors
import safetensors.numpy

from proxfl.console.words import printable

LARGEST = 2**28  # bytes: a quarter of a gigabyte is 33 million parameters in float64
LARGEST_TABLE = 2**22  # bytes for names, types and shapes: some forty thousand arrays
LONGEST_NAME = 255
MAGIC = b"PXFL"
VERSION = 3
TAG = 32  # bytes: a digest in full, of which nobody finds two texts
HEADER = struct.Struct(f"<4sHH{TAG}sIqqqI")
DIGEST = 16

VISIT, UPLINK, DIVERGED, TASK, ANSWER, REFUSAL, HELLO, STATE = range(1, 9)
IN_STEP = (VISIT, UPLINK, DIVERGED)  # the kinds that belong to a step of the algorithm
ANY_SITE = 2**32 - 1  # the server does not know yet which site it talks to
NEVER = -1  # the step a client counts from before any of its replies entered the server's state

STEP_BITS = 28  # a step's number within one life of the server; above it, the number of that life
LAST_EPOCH = 2**35 - 1  # which is what is left of 63 bits

Value = np.ndarray | str
Arrays = Mapping[str, Value]


class BadMessage(ValueError):
    """A message that must not be used, and why, in one sentence, whoever's words are in it."""

    def __init__(self, sentence: object = ""):
        super().__init__(printable(sentence))


class Transient(BadMessage):
    """An answer that did not come this time and may come the next."""


class Header(NamedTuple):
    """What a message is and where it belongs; `counted` is as in `proxfl.train.federation.Call`."""

    kind: int
    experiment: bytes
    site: int
    step: int = 0
    counted: int = NEVER
    round: int = 0
    exchange: int = 0


class Frame(NamedTuple):
    """A message that passed every check that needs no knowledge of the experiment."""

    header: Header
    settings: dict[str, Value]
    payload: dict[str, Value]
    digest: bytes  # by which the same message is known again


def tag(experiment: str) -> bytes:
    """The name of an experiment, in the bytes a header has for it."""
    return hashlib.sha256(experiment.encode()).digest()


def step_number(step: int) -> int:
    """A step as people number it."""
    return step % 2**STEP_BITS if step >= 0 else step


def epoch(step: int) -> int:
    """The life of the server that a step belongs to; 0 is before the first."""
    return max(step, 0) >> STEP_BITS


def digest(data: bytes | memoryview) -> bytes:
    return hashlib.blake2b(data, digest_size=DIGEST).digest()


def payload_bytes(arrays: Arrays) -> int:
    size = lambda value: len(value.encode()) if isinstance(value, str) else value.nbytes
    return sum(map(size, arrays.values()))


def encode(header: Header, settings: Arrays, payload: Arrays) -> bytes:
    """The bytes of a message; values are real arrays or text."""
    held = {}
    for group, values in (("settings", settings), ("payload", payload)):
        for name, value in values.items():
            if isinstance(value, str):
                held[f"{group}/text/{name}"] = np.frombuffer(value.encode(), np.uint8)
            else:
                held[f"{group}/array/{name}"] = np.asarray(value, order="C")
    body = HEADER.pack(MAGIC, VERSION, *header) + safetensors.numpy.save(held)
    return body + digest(body)


def decode(frame: bytes, finite: bool = True) -> Frame:
    """Read a message, or raise BadMessage; numbers must be finite unless they are our own."""
    if len(frame) > LARGEST:
        raise BadMessage(f"The message has {len(frame)} bytes, more than the {LARGEST} allowed.")
    if len(frame) < HEADER.size + DIGEST:
        raise BadMessage(f"The message has {len(frame)} bytes, too few for a header: truncated.")
    magic, version, *fields = HEADER.unpack_from(frame)
    header, found = Header(*fields), frame[-DIGEST:]
    if magic != MAGIC:
        raise BadMessage("The message does not start like one of ProxFL's.")
    if version != VERSION:
        raise BadMessage(f"The message speaks protocol {version}, this side speaks {VERSION}.")
    if digest(memoryview(frame)[:-DIGEST]) != found:
        raise BadMessage("The message's digest does not fit its bytes: truncated or altered.")
    kind, step, counted, turn = header.kind, header.step, header.counted, header.round
    if not VISIT <= kind <= STATE:
        raise BadMessage(f"The message is of the unknown kind {kind}.")
    if step < 0 or turn < 0 or counted < NEVER or (counted >= step and kind in IN_STEP):
        raise BadMessage(
            f"The message claims step {step} and round {turn} after step {counted}, "
            "which no run can reach."
        )
    return Frame(header, *values_in(frame[HEADER.size : -DIGEST], finite), found)


def values_in(data: bytes, finite: bool) -> tuple[dict[str, Value], dict[str, Value]]:
    """The settings and the payload of a message."""
    table = int.from_bytes(data[:8], "little")
    if table > LARGEST_TABLE:
        raise BadMessage(f"The message's table has {table} bytes, {LARGEST_TABLE} are allowed.")
    try:
        arrays = safetensors.numpy.load(data)
        json.loads(data[8 : 8 + table], object_pairs_hook=distinct)
    except (safetensors.SafetensorError, KeyError, ValueError, OverflowError) as error:
        words = " ".join(str(error).split())[:200]
        raise BadMessage(f"The message's arrays cannot be read: {words}.") from error
    settings, payload = {}, {}
    for place, array in sorted(arrays.items()):
        group, form, name = (*place.split("/", 2), "", "")[:3]
        values = {"settings": settings, "payload": payload}.get(group)
        if values is None or form not in ("array", "text") or len(place) > LONGEST_NAME:
            raise BadMessage(f"The array {place[:LONGEST_NAME]!r} has no place in a message.")
        if name in values:
            raise BadMessage(f"The message holds {name!r} twice.")
        values[name] = text_of(name, array) if form == "text" else array
        if array.dtype.kind not in "biuf":
            raise BadMessage(f"The array {name!r} is of the type {array.dtype}, which is not sent.")
        if array.dtype == np.bool_ and (array.view(np.uint8) > 1).any():
            raise BadMessage(f"The array {name!r} holds truth values other than 0 and 1.")
        if finite and array.dtype.kind == "f" and not np.isfinite(array).all():
            raise BadMessage(f"The array {name!r} holds NaN or Inf.")
    return settings, payload


def distinct(pairs: list[tuple[str, Any]]) -> None:
    """Of two arrays of the same name, safetensors would take the last."""
    if len(dict(pairs)) != len(pairs):
        raise BadMessage("two have the same name")


def text_of(name: str, array: np.ndarray) -> str:
    try:
        if array.dtype == np.uint8 and array.ndim == 1:
            return array.tobytes().decode()
    except UnicodeDecodeError:
        pass
    raise BadMessage(f"The text {name!r} in the message is not UTF-8.")


def refusal(header: Header, reason: str) -> bytes:
    """Why a request was not answered."""
    return encode(header._replace(kind=REFUSAL), {}, {"reason": reason})


def brief(frame: bytes) -> Header:
    """The header of a message that may be broken further on, to address a refusal by."""
    if len(frame) < HEADER.size:
        return Header(REFUSAL, bytes(TAG), ANY_SITE)
    found = Header(*HEADER.unpack_from(frame)[2:])
    place = {"step": max(found.step, 0), "counted": max(found.counted, NEVER)}
    return found._replace(round=max(found.round, 0), **place)


def same_place(asked: Header, found: Header, who: str) -> None:
    """Refuse an answer that belongs elsewhere than the question."""
    for field in ("experiment", "site", "step", "counted", "round", "exchange"):
        want, got = getattr(asked, field), getattr(found, field)
        if want != got:
            want, got = (
                v.hex()[:8] if isinstance(v, bytes) else step_number(v) for v in (want, got)
            )
            raise BadMessage(f"{who} answered for {field} {got}, but was asked for {want}.")


def decode_reply(data: bytes, kind: int) -> Frame:
    """A reply of the kind that was asked for, or BadMessage in the site's words or ours."""
    frame = decode(data)
    found = frame.header.kind
    if found == REFUSAL:
        raise BadMessage(reason_in(frame))
    if found != kind and (found, kind) != (DIVERGED, UPLINK):
        raise BadMessage(f"A message of kind {found} came where {kind} was due.")
    return frame


def reason_in(frame: Frame) -> str:
    """What a site says, fit for a log: one line, not too long."""
    return " ".join(str(frame.payload.get("reason", "")).split())[:500]
