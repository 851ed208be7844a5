"""Messages between the processes of one site, over a Unix socket only its owner can open.

Imports nothing heavy: the Flower process that uses it lives for one message.
"""

import contextlib
import os
import socket
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path

SOCKET = "worker.sock"
LENGTH = struct.Struct("<Q")
CONNECT_SECONDS = 30.0  # a worker that was killed is back and compiled within this time
TRIES = 3
LARGEST = 2**28  # bytes: a quarter of a gigabyte is 33 million parameters in float64


def send(connection: socket.socket, data: bytes) -> None:
    connection.sendall(LENGTH.pack(len(data)))
    connection.sendall(data)


def receive(connection: socket.socket, largest: int = LARGEST) -> bytes:
    (size,) = LENGTH.unpack(exactly(connection, LENGTH.size))
    if size > largest:
        raise ConnectionError(f"The other process announced {size} bytes, more than {largest}.")
    return exactly(connection, size)


def exactly(connection: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = connection.recv(min(size - len(parts), 2**20))
        if not part:
            raise ConnectionError("The other process ended before its message did.")
        parts += part
    return bytes(parts)


def request(folder: Path, data: bytes, seconds: float) -> bytes:
    """Ask the worker that serves `folder`, waiting for it to be (back) up.

    A worker that dies in the middle is asked again: it answers a repeated question as before.
    """
    for _ in range(TRIES):
        with reach(folder, CONNECT_SECONDS) as connection, contextlib.suppress(ConnectionError):
            connection.settimeout(seconds)
            send(connection, data)
            return receive(connection)
    raise ConnectionError(f"The worker in {folder} died {TRIES} times on the same message.")


def reach(folder: Path, seconds: float) -> socket.socket:
    """A connection to the worker, as soon as there is one."""
    deadline = time.monotonic() + seconds
    while True:
        connection = open_socket()
        try:
            with contextlib.chdir(folder):  # the path of a Unix socket must be short
                connection.connect(SOCKET)
            return connection
        except (FileNotFoundError, ConnectionError):
            connection.close()
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def reachable(folder: Path) -> bool:
    """Whether a worker listens there."""
    try:
        reach(folder, 0.0).close()
    except (OSError, ConnectionError):
        return False
    return True


def open_socket() -> socket.socket:
    return socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)


@contextlib.contextmanager
def listening(folder: Path) -> Iterator[socket.socket]:
    """A socket in `folder`, which must be this process's alone."""
    path = folder.absolute() / SOCKET
    path.unlink(missing_ok=True)
    with open_socket() as listener:
        mask = os.umask(0o177)
        try:
            with contextlib.chdir(folder):
                listener.bind(SOCKET)
        finally:
            os.umask(mask)
        listener.listen()
        try:
            yield listener
        finally:
            path.unlink(missing_ok=True)


def serve(listener: socket.socket, answer: Callable[[bytes], bytes]) -> None:
    """Answer one connection at a time, for ever."""
    while True:
        connection, _ = listener.accept()
        with connection, contextlib.suppress(ConnectionError, TimeoutError):
            connection.settimeout(60.0)  # a caller that neither writes nor reads holds no one up
            send(connection, answer(receive(connection)))
