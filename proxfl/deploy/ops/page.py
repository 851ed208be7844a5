"""A page that shows, live, how things stand: for people at this machine, who cannot change a thing.

It listens on this machine alone, and answers only GET, only who knows the token in its address, and
only under a name of this machine: a page from elsewhere could have its own name lead here (DNS
rebinding). Everything else gets one and the same empty answer. The document is a file without words
from outside; those come as events, as data, whenever they have changed. Port and token are kept, so
that a page in a browser goes on by itself when its command is started again.
"""

import base64
import hashlib
import hmac
import json
import re
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from pathlib import Path
from typing import Any, TypedDict

from proxfl.deploy.ops.home import PAGE, read_json, write_json
from proxfl.errors import InputError

HERE = "127.0.0.1"
CONNECTIONS, WATCHERS = 16, 8  # at a time
LOOK_SECONDS = 1.0  # between two looks at what is shown, as long as somebody watches
BEAT_SECONDS = 15.0  # without news, after which a watcher who is gone is noticed
PATIENCE = 10.0  # seconds for a request to come, or for an event to go

View = Callable[[], Mapping[str, Any]]


class PageFile(TypedDict):
    """Where the page is."""

    port: int
    token: str


class StatusPage:
    """Serves what `view` gives, from threads of its own, until it is closed."""

    def __init__(self, folder: Path, view: View):
        path = folder / PAGE
        try:
            place: PageFile = read_json(path, "", PageFile)
            self.server = Server(place, view)
        except (InputError, OSError):  # no page before this, or its port is somebody else's now
            self.server = Server({"port": 0, "token": secrets.token_urlsafe(32)}, view)
            write_json(path, self.server.place)
        self.address = f"http://{HERE}:{self.server.place['port']}/{self.server.place['token']}/"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def look(self) -> None:
        """Nothing has to be done for it now and then."""

    def close(self) -> None:
        self.server.over.set()
        self.server.shutdown()
        self.server.server_close()


class Server(ThreadingHTTPServer):
    """A bounded number of connections, and of watchers among them."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, place: PageFile, view: View):
        super().__init__((HERE, place["port"]), Visit)
        self.place: PageFile = {"port": self.server_address[1], "token": place["token"]}
        self.names = [f"{name}:{self.place['port']}" for name in (HERE, "localhost")]
        self.document = resources.files("proxfl.deploy.ops").joinpath("page.html").read_bytes()
        self.policy = policy_for(self.document.decode())
        self.view, self.shown, self.looked = view, "", -LOOK_SECONDS
        self.busy, self.over = threading.Lock(), threading.Event()
        self.places = threading.BoundedSemaphore(CONNECTIONS)
        self.watchers = threading.BoundedSemaphore(WATCHERS)

    def latest(self) -> str:
        """What is to be shown, looked up once for all watchers."""
        with self.busy:
            if time.monotonic() - self.looked >= LOOK_SECONDS / 2:
                try:
                    now: Mapping[str, Any] = self.view()
                except (InputError, OSError) as error:
                    now = json.loads(self.shown or "{}") | {"sentence": str(error), "tone": "bad"}
                self.shown, self.looked = json.dumps(now), time.monotonic()
            return self.shown

    def process_request(self, request: Any, client_address: Any) -> None:
        if self.places.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser went away, which it may."""


class Visit(BaseHTTPRequestHandler):
    """One request; HTTP/1.0, so a connection is one request's."""

    timeout = PATIENCE
    server: Server  # pyright: ignore[reportIncompatibleVariableOverride] -- it has no other

    def do_GET(self) -> None:
        start = f"/{self.server.place['token']}/"
        known = hmac.compare_digest(self.path[: len(start)].encode(), start.encode())
        here = [host in self.server.names for host in self.headers.get_all("Host", [])] == [True]
        shows = {"": self.show, "events": self.tell}.get(self.path[len(start) :])
        if known and here and shows is not None:
            shows()
        else:
            self.refuse()

    def show(self) -> None:
        self.begin("text/html; charset=utf-8")
        self.wfile.write(self.server.document)

    def tell(self) -> None:
        """Events, until the watcher is gone; each is all there is to show."""
        if not self.server.watchers.acquire(blocking=False):
            self.refuse(503)
            return
        try:
            self.begin("text/event-stream")
            last, told = "", 0.0
            while True:
                now = self.server.latest()
                if now != last or time.monotonic() - told > BEAT_SECONDS:
                    self.wfile.write(b":\n\n" if now == last else f"data: {now}\n\n".encode())
                    last, told = now, time.monotonic()
                if self.server.over.wait(LOOK_SECONDS):
                    return
        finally:
            self.server.watchers.release()

    def begin(self, kind: str) -> None:
        self.send_response_only(200)
        headers = {
            "Content-Type": kind,
            "Content-Security-Policy": self.server.policy,
            "Cross-Origin-Resource-Policy": "same-origin",
            "Cache-Control": "no-store",
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
        }
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def refuse(self, status: int = 404) -> None:
        self.send_response_only(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def send_error(self, *_: Any, **__: Any) -> None:
        """What is no GET, or no HTTP, hears as little as who does not know the token."""
        self.close_connection = True
        self.refuse()

    def log_message(self, format: str, *args: Any) -> None:
        """Requests hold the token, so they are in no log."""


def policy_for(document: str) -> str:
    """What a browser may do for the page: run and draw what is in it, and ask for its events."""

    def own(tag: str) -> str:
        parts = re.findall(f"<{tag}>(.*?)</{tag}>", document, re.DOTALL)
        digests = [base64.b64encode(hashlib.sha256(part.encode()).digest()) for part in parts]
        return " ".join(f"'sha256-{digest.decode()}'" for digest in digests)

    return (
        f"default-src 'none'; script-src {own('script')}; style-src {own('style')}; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    )
