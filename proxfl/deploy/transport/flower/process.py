"""The process of a site: data loaded, code compiled, answering one message at a time.

python -m proxfl.deploy.transport.flower.process FOLDER --site NAME --data FILE ...
"""

import argparse
import logging
import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from proxfl.deploy.ops.home import SITE_STATUS, write_json
from proxfl.deploy.ops.permissions import lock, private_folder
from proxfl.deploy.protocol.plan import read_plan, read_table
from proxfl.deploy.protocol.wire import BadMessage
from proxfl.deploy.site.site import Site
from proxfl.deploy.site.worker import Worker
from proxfl.deploy.transport.flower.site import Server, attend

log = logging.getLogger("proxfl.deploy")

STARTING = "It is starting."


def serve(worker: Worker, server: str, authority: Path | None, key: Path | None) -> None:
    """Answer the server's messages out of the worker's folder, until SIGTERM."""
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Flower raises it to end a process it refuses
    handle = lock(private_folder(worker.folder))  # held until the end: closing it frees the folder
    say = spoken(worker.folder)
    say(STARTING)
    with suppress(BadMessage):  # it has not agreed to anything yet
        worker.warm_up()
    attend(Server(server, authority, key), worker.folder, worker.answer, stop, say)
    os.close(handle)


def spoken(folder: Path) -> Callable[[str], None]:
    """What puts a sentence into the site's status, if it is another than before."""
    last = ""

    def say(sentence: str) -> None:
        nonlocal last
        if sentence != last:
            log.info(sentence)
            write_json(folder / SITE_STATUS, {"pid": os.getpid(), "sentence": sentence})
        last = sentence

    return say


def main() -> None:
    parser = argparse.ArgumentParser(description="Answer a server's messages for one site.")
    parser.add_argument("folder", type=Path, help="the site's private folder")
    parser.add_argument("--plan", required=True, type=Path, help="the folder of federation.toml")
    parser.add_argument("--site", required=True)
    parser.add_argument("--data", required=True, type=Path)
    parser.add_argument("--server", required=True, help="host:port")
    parser.add_argument("--authority", type=Path, help="the certificate that vouches for it")
    parser.add_argument("--key", type=Path, help="the site's private key")
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    for chatty in ("jax", "httpx"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    plan = read_plan(given.plan)
    site = Site(plan, given.site, read_table(plan, given.data), given.folder)
    serve(site.worker(), given.server, given.authority, given.key)


if __name__ == "__main__":
    main()
