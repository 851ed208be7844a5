"""The process of a site: studies as they come, answering one message at a time.

python -m proxfl.deploy.transport.flower.process FOLDER --site NAME --data FILE ...
"""

import argparse
import logging
import os
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol, runtime_checkable

from proxfl.deploy.ops.home import SITE_STATUS, write_json
from proxfl.deploy.ops.permissions import lock, private_folder
from proxfl.deploy.protocol.membership import LiveMembership
from proxfl.deploy.site.office import Office
from proxfl.deploy.site.reception import Reception
from proxfl.deploy.transport.flower.site import Server, Stop, attend
from proxfl.errors import DiskError

log = logging.getLogger("proxfl.deploy")

STARTING = "It is starting."
# Flower warns of every try to reach the server; how the site stands with it is said here.
CHATTY = {"jax": logging.WARNING, "httpx": logging.WARNING, "flwr": logging.ERROR}
NOTHING: Mapping[str, str] = {}


@runtime_checkable
class Answering(Protocol):
    """A worker, or a reception."""

    @property
    def folder(self) -> Path: ...
    def answer(self, request: bytes) -> bytes: ...


def serve(
    site: Answering,
    server: str,
    authority: Path | None,
    key: Path | None,
    news: Mapping[str, str] = NOTHING,
) -> None:
    """Answer the server's messages from the site's folder, until SIGTERM; `news` is for people."""
    stop = Stop()
    signal.signal(signal.SIGTERM, stop.request)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Flower raises it to end a process it refuses
    handle = lock(private_folder(site.folder))  # held until the end: closing it frees the folder
    say = spoken(site.folder, news)
    say(STARTING)
    attend(Server(server, authority, key), site.folder, site.answer, stop, say)
    os.close(handle)


def spoken(folder: Path, news: Mapping[str, str]) -> Callable[[str], None]:
    """What puts a sentence and the news into the site's status, if they are others than before."""
    last: tuple[str, list[str]] = ("", [])

    def say(sentence: str) -> None:
        nonlocal last
        now = sentence, list(news.values())
        if now != last:
            log.info(sentence)
            about = {"pid": os.getpid(), "sentence": sentence, "news": now[1]}
            try:
                write_json(folder / SITE_STATUS, about)
            except DiskError as error:  # which is no reason not to answer
                log.warning("The status of the site is not up to date: %s", error)
        last = now

    return say


def main() -> None:
    parser = argparse.ArgumentParser(description="Answer a server's messages for one site.")
    parser.add_argument("folder", type=Path, help="the site's private folder")
    parser.add_argument("--federation", required=True, type=Path, help="where federation.toml is")
    parser.add_argument("--site", required=True)
    parser.add_argument("--data", required=True, type=Path)
    parser.add_argument("--server", required=True, help="host:port")
    parser.add_argument("--authority", type=Path, help="the certificate that vouches for it")
    parser.add_argument("--key", type=Path, help="the site's private key")
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    for name, level in CHATTY.items():
        logging.getLogger(name).setLevel(level)
    about = (LiveMembership(given.federation), given.site, given.data, Office(given.folder))
    reception = Reception(*about)
    serve(reception, given.server, given.authority, given.key, reception.office.news)


if __name__ == "__main__":
    main()
