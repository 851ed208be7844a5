"""A message between server and site, as bytes, and the checks that come before any of it is used.

    header    64 bytes: what the message is, and the experiment, site, step and round it belongs to
    table     for each array: the length of its name, the name, its type, its axes, their lengths
    arrays    raw, little-endian, rows first, one after the other in the order of the table
    digest    16 bytes of BLAKE2b over all of the above, against torn and flipped bytes

The arrays come in two groups: `settings`, such as step sizes and metrics, and `payload`, which is
what the algorithm says goes over the wire. Nothing is pickled, and no length is believed before it
is seen to fit. Whatever is wrong raises `BadMessage` with one sentence.
"""

import hashlib
import math
import struct
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

LARGEST = 2**28  # bytes: a quarter of a gigabyte is 33 million parameters in float64
MAGIC = b"PXFL"
VERSION = 1
HEADER = struct.Struct("<4sHBB16sIIqqqHHI")
DIGEST = 16

VISIT, UPLINK, DIVERGED, TASK, ANSWER, REFUSAL, HELLO, STATE = range(1, 9)
IN_STEP = (VISIT, UPLINK, DIVERGED)  # the kinds that belong to a step of the algorithm
ANY_SITE = 2**32 - 1  # the server does not know yet which site it talks to
NEVER = -1  # the step a client counts from before any of its replies entered the server's state

STEP_BITS = 28  # a step's number within one life of the server; above it, when that life began

TEXT = 0  # UTF-8, with its length in bytes as the only axis
TYPES = {
    code: np.dtype(name)
    for code, name in enumerate(("?", "i1", "u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8"), 1)
} | {
    16: np.dtype("<f2"),
    17: np.dtype("<f4"),
    18: np.dtype("<f8"),
}
CODES = {kind: code for code, kind in TYPES.items()}

Value = np.ndarray | str
Arrays = Mapping[str, Value]


class BadMessage(ValueError):
    """A message that must not be used, and why, in one sentence."""


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


class Slot(NamedTuple):
    """One line of the table: an array that is still bytes."""

    name: str
    code: int
    shape: tuple[int, ...]
    size: int


def tag(experiment: str) -> bytes:
    """The name of an experiment, in the 16 bytes a header has for it."""
    return digest(experiment.encode())


def step_number(step: int) -> int:
    """A step as people number it."""
    return step % 2**STEP_BITS if step >= 0 else step


def digest(data: bytes | memoryview) -> bytes:
    return hashlib.blake2b(data, digest_size=DIGEST).digest()


def payload_bytes(arrays: Arrays) -> int:
    size = lambda value: len(value.encode()) if isinstance(value, str) else value.nbytes
    return sum(map(size, arrays.values()))


def encode(header: Header, settings: Arrays, payload: Arrays) -> bytes:
    """The bytes of a message; values are arrays of the types above, or text."""
    arrays = [*settings.items(), *payload.items()]
    table = b"".join(line(name, value) for name, value in arrays)
    fixed = HEADER.pack(
        MAGIC,
        VERSION,
        header.kind,
        0,
        header.experiment,
        header.site,
        header.exchange,
        header.step,
        header.counted,
        header.round,
        len(settings),
        len(payload),
        len(table),
    )
    body = b"".join([fixed, table, *(raw(value) for _, value in arrays)])
    return body + digest(body)


def line(name: str, value: Value) -> bytes:
    text = name.encode()
    if isinstance(value, str):
        code, shape = TEXT, (len(value.encode()),)
    else:
        code, shape = CODES[value.dtype.newbyteorder("<")], value.shape
    sizes = struct.pack(f"<{len(shape)}Q", *shape)
    return bytes([len(text)]) + text + bytes([code, len(shape)]) + sizes


def raw(value: Value) -> bytes:
    if isinstance(value, str):
        return value.encode()
    return value.astype(value.dtype.newbyteorder("<"), copy=False).tobytes()


def decode(frame: bytes, largest: int = LARGEST, finite: bool = True) -> Frame:
    """Read a message, or raise BadMessage; numbers must be finite unless they are our own."""
    if len(frame) > largest:
        raise BadMessage(f"The message has {len(frame)} bytes, more than the {largest} allowed.")
    if len(frame) < HEADER.size + DIGEST:
        raise BadMessage(f"The message has {len(frame)} bytes, too few for a header: truncated.")
    view = memoryview(frame)
    fields = HEADER.unpack_from(view)
    magic, version, kind, zero, experiment, site, exchange, step, counted, round_ = fields[:10]
    settings, payload, table = fields[10:]
    if magic != MAGIC or zero != 0:
        raise BadMessage("The message does not start like one of ProxFL's.")
    if version != VERSION:
        raise BadMessage(f"The message speaks protocol {version}, this side speaks {VERSION}.")
    if digest(view[:-DIGEST]) != view[-DIGEST:]:
        raise BadMessage("The message's digest does not fit its bytes: truncated or altered.")
    if not VISIT <= kind <= STATE:
        raise BadMessage(f"The message is of the unknown kind {kind}.")
    if step < 0 or round_ < 0 or counted < NEVER or (counted >= step and kind in IN_STEP):
        raise BadMessage(
            f"The message claims step {step} and round {round_} after step {counted}, "
            "which no run can reach."
        )
    start = HEADER.size + table
    if start > len(frame) - DIGEST:
        raise BadMessage(f"The message's table of {table} bytes does not fit into it.")
    slots = read_table(view[HEADER.size : start], settings + payload)
    values = read_arrays(view[start:-DIGEST], slots, finite)
    named = [(slot.name, value) for slot, value in zip(slots, values, strict=True)]
    header = Header(kind, experiment, site, step, counted, round_, exchange)
    return Frame(header, unique(named[:settings]), unique(named[settings:]))


def read_table(table: memoryview, arrays: int) -> list[Slot]:
    slots, at = [], 0
    for _ in range(arrays):
        named = at + 1 + piece(table, at, 1)[0]
        name = text_of(piece(table, at + 1, named - at - 1))
        code, axes = piece(table, named, 2)
        at = named + 2 + 8 * axes
        shape = struct.unpack(f"<{axes}Q", piece(table, named + 2, 8 * axes))
        if code != TEXT and code not in TYPES:
            raise BadMessage(f"The array {name!r} is of the unknown type {code}.")
        if code == TEXT and axes != 1:
            raise BadMessage(f"The text {name!r} has {axes} axes instead of one.")
        width = 1 if code == TEXT else TYPES[code].itemsize
        slots.append(Slot(name, code, shape, math.prod(shape) * width))
    if at != len(table):
        raise BadMessage("The message's table of arrays is longer than its arrays.")
    return slots


def piece(table: memoryview, at: int, size: int) -> memoryview:
    if at + size > len(table):
        raise BadMessage("The message's table of arrays ends too early.")
    return table[at : at + size]


def read_arrays(data: memoryview, slots: list[Slot], finite: bool) -> list[Value]:
    expected = sum(slot.size for slot in slots)
    if expected != len(data):
        raise BadMessage(f"The arrays should take {expected} bytes, the message has {len(data)}.")
    values, at = [], 0
    for slot in slots:
        values.append(read_value(data[at : at + slot.size], slot, finite))
        at += slot.size
    return values


def read_value(data: memoryview, slot: Slot, finite: bool) -> Value:
    if slot.code == TEXT:
        return text_of(data)
    kind = TYPES[slot.code]
    if len(slot.shape) > 32 or math.prod(max(axis, 1) for axis in slot.shape) > LARGEST:
        raise BadMessage(f"The array {slot.name!r} has the impossible shape {slot.shape}.")
    if kind == np.bool_ and slot.size and np.frombuffer(data, np.uint8).max() > 1:
        raise BadMessage(f"The array {slot.name!r} holds truth values other than 0 and 1.")
    value = np.frombuffer(data, kind).reshape(slot.shape)
    if finite and kind.kind == "f" and not np.isfinite(value).all():
        raise BadMessage(f"The array {slot.name!r} holds NaN or Inf.")
    return value


def text_of(data: memoryview) -> str:
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError as error:
        raise BadMessage("A text in the message is not UTF-8.") from error


def unique(named: list[tuple[str, Value]]) -> dict[str, Value]:
    arrays = dict(named)
    if len(arrays) != len(named):
        raise BadMessage("The message holds two arrays of the same name.")
    return arrays


def refusal(header: Header, reason: str) -> bytes:
    """Why a request was not answered."""
    return encode(header._replace(kind=REFUSAL), {}, {"reason": reason})


def brief(frame: bytes) -> Header:
    """The header of a message that may be broken further on, to address a refusal by."""
    if len(frame) < HEADER.size:
        return Header(REFUSAL, bytes(16), ANY_SITE)
    _, _, kind, _, tag, site, exchange, step, counted, turn, *_ = HEADER.unpack_from(frame)
    place = max(step, 0), max(counted, NEVER), max(turn, 0), exchange
    return Header(kind, tag, site, *place)


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
