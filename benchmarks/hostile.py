"""`python -m benchmarks.hostile PORT`: many connections to a gate of this machine, none kind.

Silence, half a TLS handshake, a header that comes byte by byte or is huge, bodies that break off,
lengths that make no sense. Each begins anew a while after it is ended. They come from addresses of
their own, as strangers do; it stops after ten minutes, or when its input ends.
"""

import asyncio
import contextlib
import random
import ssl
import sys

NUMBER, ADDRESSES = 2000, 40
PAUSE, LONGEST = 2.0, 600.0  # seconds
HEAD = b"POST /v1/fleet/push-object HTTP/1.1\r\nhost: a\r\n"


async def silence(reader, writer):
    pass


async def half_handshake(reader, writer):
    writer.write(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")


async def slow_header(reader, writer):
    writer.write(HEAD)
    while True:
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(1.0)


async def huge_header(reader, writer):
    writer.write(HEAD)
    while True:
        writer.write(b"x: " + b"a" * 2**16 + b"\r\n")
        await writer.drain()


async def broken_body(reader, writer):
    writer.write(HEAD + b"content-length: 16777216\r\n\r\n" + bytes(2**18))
    await writer.drain()
    writer.transport.abort()


async def odd_length(reader, writer):
    odd = random.choice([b"-1", b"1, 2", b"9" * 40, b"0x10"])
    writer.write(HEAD + b"content-length: " + odd + b"\r\n\r\n")


IN_THE_CLEAR = (silence, half_handshake)
UNDER_TLS = (slow_header, huge_header, broken_body, odd_length)


def trust() -> ssl.SSLContext:
    """An attacker does not care who the server is."""
    made = ssl.create_default_context()
    made.check_hostname, made.verify_mode = False, ssl.CERT_NONE
    return made


async def attacker(number: int, port: int, tls: ssl.SSLContext) -> None:
    kind = (IN_THE_CLEAR + UNDER_TLS)[number % 6]
    where = {
        "host": "127.0.0.1",
        "port": port,
        "local_addr": (f"127.0.9.{number % ADDRESSES + 1}", 0),
    }
    await asyncio.sleep(random.uniform(0.0, PAUSE))
    while True:
        with contextlib.suppress(OSError, ssl.SSLError):
            options = {"ssl": tls, "ssl_handshake_timeout": 60.0} if kind in UNDER_TLS else {}
            reader, writer = await asyncio.open_connection(**where, **options)
            try:
                await kind(reader, writer)
                await reader.read()  # until it is sent away
            finally:
                writer.transport.abort()
        await asyncio.sleep(PAUSE)


async def main(port: int) -> None:
    tls = trust()
    tasks = [asyncio.create_task(attacker(i, port, tls)) for i in range(NUMBER)]
    over = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await asyncio.wait([over, *tasks], timeout=LONGEST, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()


if __name__ == "__main__":
    import uvloop

    uvloop.run(main(int(sys.argv[1])))
