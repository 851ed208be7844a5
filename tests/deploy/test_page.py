"""The page to watch: who gets to see it, how many, what a browser may do for it, what it shows."""

import contextlib
import http.client
import json
import os
import re
import selectors
import socket
import stat
import threading

import pytest

from proxfl.cli.commands.federate import views
from proxfl.deploy.ops import page as pages
from proxfl.deploy.ops.home import PAGE, SITE_STATUS, Home, write_json
from proxfl.deploy.ops.page import CONNECTIONS, WATCHERS, StatusPage
from proxfl.deploy.protocol.membership import Membership
from proxfl.deploy.server.ledger import Ledger
from proxfl.deploy.server.status import Status, after_round, so_far
from proxfl.deploy.site import audit
from proxfl.errors import InputError
from proxfl.storage.files import append
from proxfl.train.drivers.driver import Record, Settings
from tests.browser import CHROMIUM, MISSING, tab
from tests.deploy.field import NAMES

EVIL = "<img src=x onerror=alert(1)></script><script>alert(1)</script>"
SHOWN = {
    "title": f"heart {EVIL}",
    "command": "proxfl federate serve",
    "sentence": f"Study {EVIL} is being run.",
    "tone": "wait",
    "notes": [f"note {EVIL}"],
    "facts": [["round", "3 of 9"], [EVIL, EVIL]],
    "curve": {"goal": 1e-6, "points": [[1, 0.5], [2, 1e-3], [3, 2e-7]]},
    "tables": [{"name": EVIL, "heads": ["site", "numbers"], "rows": [[EVIL, 1234], ["south", 5]]}],
}


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(pages, "LOOK_SECONDS", 0.02)


@contextlib.contextmanager
def opened(folder, view=lambda: SHOWN):
    made = StatusPage(folder, view)
    try:
        yield made
    finally:
        made.close()


def heard(page, request):
    """All that comes back for some bytes."""
    come = b""
    with socket.create_connection(("127.0.0.1", page.server.place["port"]), 20) as link:
        with contextlib.suppress(ConnectionError, BrokenPipeError):  # it may hear enough
            link.sendall(request)
            while piece := link.recv(2**16):
                come += piece
    return come


def request(page, method="GET", path=None, hosts=None):
    path = f"/{page.server.place['token']}/" if path is None else path
    hosts = page.server.names[:1] if hosts is None else hosts
    lines = [f"{method} {path} HTTP/1.1", *(f"Host: {host}" for host in hosts), "", ""]
    return "\r\n".join(lines).encode()


def gone(link):
    try:
        return link.recv(1) == b""
    except ConnectionError:
        return True


class Watcher:
    """A connection that takes events; `status` is of its answer."""

    def __init__(self, page):
        self.link = http.client.HTTPConnection("127.0.0.1", page.server.place["port"], timeout=20)
        self.link.request("GET", f"/{page.server.place['token']}/events")
        self.answer = self.link.getresponse()
        self.status = self.answer.status

    def event(self):
        while True:
            line = self.answer.readline().decode().removesuffix("\n")
            if line.startswith("data: "):
                assert self.answer.readline() == b"\n"
                return json.loads(line.removeprefix("data: "))

    def close(self):
        self.answer.close()
        self.link.close()


def test_whoever_knows_less_than_the_address_gets_one_and_the_same_empty_answer(tmp_path):
    with opened(tmp_path) as page:
        port, token = page.server.place["port"], page.server.place["token"]
        assert page.server.server_address[0] == "127.0.0.1" and len(token) >= 43
        none = heard(page, request(page, path="/"))
        assert none == b"HTTP/1.0 404 Not Found\r\nContent-Length: 0\r\n\r\n"
        for odd in ("/", f"/{token}", f"/{token[:-1]}/", f"/{token}x/",
                    "/%00/", f"/{token.swapcase()}/", f"/{token}/page.json", f"/{token}/../",
                    f"/{token}/events/", f"/{token}/?", "/é/", "/" + "a" * 70_000):  # fmt: skip
            assert heard(page, request(page, path=odd)) == none, odd
        for hosts in ([], ["evil.example"], [f"evil.example:{port}"], ["127.0.0.1"],
                      [f"localhost:{port + 1}"], [f"127.0.0.1:{port}", "evil.example"],
                      [f"127.0.0.1:{port}"] * 2, [f"0.0.0.0:{port}"]):  # fmt: skip
            assert heard(page, request(page, hosts=hosts)) == none, hosts
        for method in ("POST", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "get", "X"):
            assert heard(page, request(page, method)) == none, method
        for rubbish in (b"\0" * 100, b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\x16\x03\x01"):
            assert token.encode() not in heard(page, rubbish + b"\r\n")
        assert heard(page, request(page, hosts=[f"localhost:{port}"])).startswith(b"HTTP/1.0 200")


def test_a_browser_may_do_nothing_for_it_but_run_what_is_in_it(tmp_path):
    with opened(tmp_path) as page:
        head, _, document = heard(page, request(page)).partition(b"\r\n\r\n")
    headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n")[1:])
    assert not any(name.lower().startswith("access-control") for name in headers)
    assert headers["Cache-Control"] == "no-store" and headers["Referrer-Policy"] == "no-referrer"
    rules = dict(rule.split(" ", 1) for rule in headers["Content-Security-Policy"].split("; "))
    assert rules["default-src"] == rules["frame-ancestors"] == rules["base-uri"] == "'none'"
    assert rules["connect-src"] == "'self'"
    for rule in ("script-src", "style-src"):
        assert re.fullmatch(r"'sha256-[\w+/]{43}='", rules[rule])
    text = document.decode()
    assert set(re.findall(r"https?://[^\"' ]*", text)) == {"http://www.w3.org/2000/svg"}
    assert set(re.findall(r"(?:src|href)=\"([^\"]*)\"", text)) == {"data:,"}
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(", text)


def test_events_come_when_something_changes_and_nobody_looks_where_nobody_watches(tmp_path):
    now, looks = {"sentence": "one\n\ndata: forged"}, []
    with opened(tmp_path, lambda: looks.append(1) or dict(now)) as page:
        heard(page, request(page))
        assert not looks
        watcher = Watcher(page)
        seen = [watcher.event()]
        for sentence in ("two", "three"):
            before = len(looks)
            while len(looks) < before + 3:  # looks that find nothing new
                threading.Event().wait(0.01)
            now["sentence"] = sentence
            seen.append(watcher.event())
        assert [event["sentence"] for event in seen] == ["one\n\ndata: forged", "two", "three"]
        watcher.close()


def test_what_cannot_be_read_is_said_and_the_page_goes_on(tmp_path):
    state = {"broken": False}

    def view():
        if state["broken"]:
            raise InputError("status.json: it does not fit its digest.")
        return SHOWN

    with opened(tmp_path, view) as page:
        watcher = Watcher(page)
        assert watcher.event() == SHOWN
        state["broken"] = True
        told = watcher.event()
        assert told["sentence"].startswith("status.json") and told["facts"] == SHOWN["facts"]
        state["broken"] = False
        assert watcher.event() == SHOWN
        watcher.close()


def test_watchers_and_connections_are_bounded_and_their_places_come_back(tmp_path):
    with opened(tmp_path) as page:
        watchers = [Watcher(page) for _ in range(WATCHERS)]
        assert {watcher.status for watcher in watchers} == {200}
        assert Watcher(page).status == 503
        silent = [
            socket.create_connection(("127.0.0.1", page.server.place["port"]))
            for _ in range(CONNECTIONS + 4)
        ]
        shut, waiting = set(), selectors.DefaultSelector()
        for link in silent:
            waiting.register(link, selectors.EVENT_READ)
        while len(shut) < WATCHERS + 4:  # those for whom there was no place
            shut |= {key.fileobj for key, _ in waiting.select(20) if gone(key.fileobj)}
        waiting.close()
        assert heard(page, request(page)) == b""
        for link in silent:
            link.close()
        for watcher in watchers:
            watcher.close()
        page.server.over.set()  # ends those whose going was not noticed yet
        for _ in range(WATCHERS):
            assert page.server.watchers.acquire(timeout=20)


def test_the_address_stays_unless_its_port_is_taken(tmp_path):
    with opened(tmp_path) as page:
        first = page.address
    assert stat.S_IMODE(os.stat(tmp_path / PAGE).st_mode) == 0o600
    with opened(tmp_path) as page:
        assert page.address == first
        with opened(tmp_path) as other:  # the port may be somebody's who has heard the token
            assert other.server.place["port"] != page.server.place["port"]
            assert other.server.place["token"] != page.server.place["token"]


def test_a_site_shows_what_its_audit_log_has_as_it_grows(tmp_path):
    folder = tmp_path / "north"
    view = views.of_site(folder, "north", "field", "fed.example.org:9092")
    assert view()["tone"] == "wait" and view()["tables"][0]["rows"] == []
    about = {"pid": os.getpid(), "sentence": "It is connected to the server."}
    write_json(folder / SITE_STATUS, about | {"news": ["\x1b[2JSo."]})
    log, told = audit.Audit(folder), view()
    assert told["tone"] == "good" and told["notes"] == ["\\x1b[2JSo."]
    log.enter(audit.STUDY, "a" * 64, name=EVIL, ask="train", decision="takes part", reason="")
    log.enter(audit.TOLD, "a" * 64, question="enter")
    assert [row[1:4] for row in view()["tables"][0]["rows"]] == [["train", "takes part", 0]]
    for numbers in (5, 7):
        log.enter(audit.ANSWER, "a" * 64, question="newton x u", numbers=numbers, masked=True)
    append(folder / audit.FILE, b'{"line": 5, "befo')  # as a crash leaves it
    told = view()
    assert [row[3:5] for row in told["tables"][0]["rows"]] == [[2, 12]]
    assert told["tables"][1]["rows"] == [["enter", 1, 0, ""], ["newton", 2, 12, "yes"]]
    assert dict(told["facts"]) == {
        "server": "fed.example.org:9092",
        "questions answered": "2",
        "lines of the audit log": "4",
    }
    log.enter(audit.ANSWER, "a" * 64, question="round", numbers=1)  # the torn line stays one
    assert dict(view()["facts"])["lines of the audit log"] == "6"
    assert view() == views.of_site(folder, "north", "field", "fed.example.org:9092")()


def test_the_server_shows_the_run_its_curve_and_what_went_wrong(tmp_path):
    home, ledger = Home(tmp_path), Ledger()
    view = views.of_server(home, Membership("field", NAMES), True, lambda: "")
    assert "no run yet" in view()["sentence"] and view()["curve"] is None
    ledger.enter("up", "north", "round", 8_000_000, 9_000_000, 9_500_000)
    ledger.exchanges["round"] = 41
    for number in range(30):
        ledger.fault(number, EVIL, f"\x1b{number}{EVIL}")
    nothing, settings = float("nan"), Settings(rounds=3000, tol=1e-6)
    records = [
        Record(r, 0.0, 10.0 ** (-r / 500) if r % 2 else nothing, 1.0, True) for r in range(3000)
    ]
    about = {"run": "1", "pid": os.getpid(), "out": "results", "sites": list(NAMES)}
    about |= {"options": {"study": "ridge"}, "answered": 3, "away": []}
    with Status(home.status, lambda: NAMES, **about) as status:
        status.tell(**after_round(records, 0.1, settings), **so_far(ledger))
        told = view()
    assert told["sentence"] == "Study ridge is being run. Not there: north, south, west."
    facts, points = dict(told["facts"]), told["curve"]["points"]
    assert facts["exchanges"] == "41" and facts["from the sites"] == "8\N{NO-BREAK SPACE}MB"
    assert facts["went wrong"] == "30 times" and told["curve"]["goal"] == 1e-6
    assert points[0] == [1, 10 ** (-1 / 500)] and points[-1] == [2999, 10 ** (-2999 / 500)]
    assert 100 < len(points) < 300 and points == sorted(points)
    troubles = told["tables"][1]["rows"]
    assert troubles[0][2] == f"\\x1b29{EVIL}" and 0 < len(troubles) < 30
    assert "\x1b" not in json.dumps(told) and "is finished: round 2999" in view()["sentence"]


SEEN = """({
  wide: [...document.querySelectorAll("body *")].filter(part =>
    part.getBoundingClientRect().right > innerWidth + 1).map(part => part.outerHTML.slice(0, 80)),
  scroll: document.documentElement.scrollWidth - innerWidth,
  made: document.querySelectorAll("img, b, main script").length,
  loaded: performance.getEntriesByType("resource").map(entry => entry.name),
  words: document.body.innerText,
  curve: document.querySelector("svg[role=img]").getAttribute("aria-label"),
  unnamed: [...document.querySelectorAll("table")].filter(table => !table.caption).length,
  heads: [...document.querySelectorAll("th")].every(head => head.scope === "col"),
  live: document.querySelectorAll("[role=status]").length,
  lang: document.documentElement.lang,
})"""


@pytest.mark.skipif(CHROMIUM is None, reason=MISSING)
def test_a_browser_shows_it_at_any_width_and_over_a_death_and_return_of_the_server(tmp_path):
    now = dict(SHOWN)
    with tab(tmp_path / "browser") as browser:
        with opened(tmp_path, lambda: now) as page:
            for width, dark in ((1000, False), (380, True)):
                browser.open(page.address, width, dark=dark)
                browser.until("document.querySelector('svg') !== null")
                seen = browser.value(SEEN)
                assert seen["wide"] == [] and seen["scroll"] <= 0
                assert seen["made"] == 0 and seen["words"].count(EVIL) == 7
                assert set(seen["loaded"]) <= {f"{page.address}events"}
                assert "5.0e-1 at round 1, 2.0e-7 at round 3; the goal is 1e-6" in seen["curve"]
                assert (seen["unnamed"], seen["heads"], seen["live"]) == (0, True, 2)
                paper = browser.value("getComputedStyle(document.body).backgroundColor")
                assert (paper == "rgb(21, 24, 28)") == dark
            assert browser.said == [] and "Live." in seen["words"]
            now["sentence"] = "Another."
            browser.until("document.getElementById('sentence')?.textContent === 'Another.'")
        browser.until("document.body.className === 'lost'")
        assert "Lost: proxfl federate serve does not answer" in browser.value(SEEN)["words"]
        now["sentence"] = "It is back."
        with opened(tmp_path, lambda: now):
            browser.until("document.getElementById('sentence')?.textContent === 'It is back.'")
            browser.until("document.body.className === ''")
