"""A frame of ours inside a message of Flower's: records of bytes, which Flower does not look into.

Flower makes one request for every record, so there is one for each few megabytes and no more.
"""

from flwr.app import ConfigRecord, Message, RecordDict

from proxfl.deploy.protocol.wire import BadMessage, Transient
from proxfl.deploy.transport.flower.private_names import get_all_nested_objects

NAME = "proxfl"
PART = 2**22  # bytes: the gate takes requests of a few times that


def wrap(frame: bytes) -> RecordDict:
    starts = range(0, max(len(frame), 1), PART)
    parts = [ConfigRecord({NAME: frame[start : start + PART]}) for start in starts]
    return RecordDict({f"{NAME}-{i:06d}": part for i, part in enumerate(parts)})


def unwrap(message: Message) -> bytes:
    """Our bytes in a Flower message, or BadMessage."""
    if message.has_error():
        error = message.error
        reason = " ".join((error.reason or "no reason given").split())
        raise Transient(f"Flower reports error {error.code}: {reason}")
    parts = []
    for _, record in sorted(message.content.items()):
        part = record.get(NAME) if isinstance(record, ConfigRecord) and len(record) == 1 else None
        if not isinstance(part, bytes):
            raise BadMessage("The Flower message holds something else than a ProxFL message.")
        parts.append(part)
    return b"".join(parts)


def flower_bytes(message: Message) -> int:
    """The size of a Flower message as Flower stores and sends it, ours included."""
    return sum(len(part.deflate()) for part in get_all_nested_objects(message).values())
