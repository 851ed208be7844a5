"""A message of ours inside one of Flower's: one array of bytes, which Flower does not look into."""

from flwr.app import Array, ArrayRecord, Message, RecordDict

from proxfl.deploy.protocol.wire import BadMessage, Passing

RECORD, NAME, STYLE = "proxfl", "frame", "proxfl.frame"


def wrap(frame: bytes) -> RecordDict:
    return RecordDict({RECORD: ArrayRecord({NAME: Array("uint8", (len(frame),), STYLE, frame)})})


def unwrap(message: Message) -> bytes:
    """Our bytes in a Flower message, or BadMessage."""
    if message.has_error():
        error = message.error
        reason = " ".join((error.reason or "no reason given").split())
        raise Passing(f"Flower reports error {error.code}: {reason}")
    record = message.content.get(RECORD)
    array = record.get(NAME) if isinstance(record, ArrayRecord) and len(record) == 1 else None
    if array is None or array.stype != STYLE or len(message.content) != 1:
        raise BadMessage("The Flower message does not hold one ProxFL message and nothing else.")
    return array.data


def flower_bytes(message: Message) -> int:
    """The size of a Flower message as Flower stores and sends it, ours included."""

    def size(part) -> int:
        return len(part.deflate()) + sum(size(child) for child in (part.children or {}).values())

    return size(message)
