"""HTTP/1.1 on one connection: h11 over asyncio's streams, with a limit to each wait and each size.

A framework would read a body before the program hears of it. Here nothing but a header is read of
somebody who is not known, and a body goes through piece by piece.
"""

import asyncio
import email.utils
from collections.abc import AsyncIterator, Iterable

import h11
import httpx

from proxfl.deploy.transport.flower.door import Limits

Headers = list[tuple[bytes, bytes]]
BETWEEN_HOPS = {b"connection", b"keep-alive", b"transfer-encoding", b"upgrade", b"te", b"host"}
OURS = BETWEEN_HOPS | {b"accept-encoding", b"date", b"server"}


class Conversation:
    """Requests one after the other, and their answers."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, limits: Limits):
        self.reader, self.writer, self.limits = reader, writer, limits
        self.http = h11.Connection(h11.SERVER, max_incomplete_event_size=limits.largest_header)

    async def next_event(self) -> h11.Event | type[h11.PAUSED]:
        while (event := self.http.next_event()) is h11.NEED_DATA:
            self.http.receive_data(await self.reader.read(self.limits.largest_header))
        return event  # type: ignore[return-value]

    async def request(self, seconds: float) -> h11.Request | None:
        """The header of the next request; None if there is none any more."""
        if self.http.our_state is h11.DONE and self.http.their_state is h11.DONE:
            self.http.start_next_cycle()
        if self.http.our_state is not h11.IDLE:
            return None
        async with asyncio.timeout(seconds):
            event = await self.next_event()
        return event if isinstance(event, h11.Request) else None

    async def body(self, length: int) -> AsyncIterator[bytes]:
        """The pieces of the body whose header was read."""
        now = asyncio.get_running_loop().time()
        until = now + self.limits.body + length / self.limits.slowest
        while True:
            async with asyncio.timeout_at(until):  # not around the yield: others wait there
                event = await self.next_event()
            if isinstance(event, h11.EndOfMessage):
                return
            if not isinstance(event, h11.Data):
                raise ConnectionError("The body ended early.")
            yield bytes(event.data)

    async def answer(
        self, status: int, headers: Headers, pieces: AsyncIterator[bytes] | Iterable[bytes]
    ) -> None:
        dated = [*headers, (b"date", email.utils.formatdate(usegmt=True).encode())]
        await self.send(h11.Response(status_code=status, headers=dated))
        if isinstance(pieces, AsyncIterator):
            async for piece in pieces:
                await self.send(h11.Data(piece))
        else:
            for piece in pieces:
                await self.send(h11.Data(piece))
        await self.send(h11.EndOfMessage())

    async def say(self, status: int, sentence: str = "", *, close: bool = False) -> None:
        """An answer of ours."""
        text = sentence.encode()
        headers = [(b"content-type", b"text/plain"), (b"content-length", b"%d" % len(text))]
        headers += [(b"connection", b"close")] if close else []
        await self.answer(status, headers, [text] if text else [])

    async def send(self, event: h11.Event) -> None:
        self.writer.write(self.http.send(event) or b"")
        async with asyncio.timeout(self.limits.body):
            await self.writer.drain()

    @property
    def over(self) -> bool:
        """Whether the other side is gone."""
        return self.reader.at_eof() or self.writer.is_closing()


def length_of(request: h11.Request) -> int | None:
    """The length a body says it has, once and as a number: h11 sees to both; None if it does not.

    Where a body comes in chunks as well, its length is not to be believed.
    """
    headers = dict(request.headers)
    if b"content-length" not in headers or b"transfer-encoding" in headers:
        return None
    return int(headers[b"content-length"])


def passed_on(message: h11.Request | httpx.Response) -> Headers:
    """The headers of a request or an answer that are not between two neighbours only."""
    raw = message.headers.raw_items() if isinstance(message, h11.Request) else message.headers.raw
    return [(name, value) for name, value in raw if name.lower() not in OURS]
