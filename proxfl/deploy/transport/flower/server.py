"""The server's side of Flower: its `Grid` as a transport, and which of its nodes is which site.

A node's number is not a site's identity: it may change when the site restarts. Where sites are
registered by key, the key is; a node with another key is nobody. Without keys a node is asked for
its name and believed, so such a deployment trusts everyone who can reach it.

Replies are fetched one by one, each by a thread of its own: Flower waits for up to a minute for a
reply whose sender died while sending it, and the others must not wait with it.
"""

import queue
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from flwr.app import Message
from flwr.serverapp import Grid

from proxfl.deploy.protocol import wire
from proxfl.deploy.protocol.transport import Arrival, Sending, Transport
from proxfl.deploy.protocol.wire import BadMessage, Header, Transient
from proxfl.deploy.transport.flower.envelope import flower_bytes, unwrap, wrap
from proxfl.deploy.transport.flower.private_names import RunNotRunningException, replace, soon

FIRST_WAIT, LONGEST_WAIT = 0.1, 1.0  # between two looks for a reply: each costs the SuperLink
REST = 3.0  # times a look's own duration, so that a busy SuperLink gets to its work
STRANGER = ""

replace("pull_objects", soon)


class Node(NamedTuple):
    """A node in one of its lives: a restart gives it another number or another beginning."""

    since: str
    number: int


class FlowerTransport(Transport):
    """`keys` gives the sites' public keys of this moment as Flower reports them; None: without."""

    def __init__(
        self,
        grid: Grid,
        experiment: str,
        sites: tuple[str, ...],
        keys: Callable[[], Mapping[str, bytes]] | None = None,
    ):
        self.grid, self.tag, self.sites = grid, wire.tag(experiment), sites
        self.keys, self.owner = keys, {}
        self.names: dict[int, str] = {}  # by node, what it called itself
        self.nodes: dict[str, Node] = {}
        self.greeted: dict[str, int] = {}  # by sending, the node asked for its name
        self.inbox: queue.Queue[Arrival | Exception] = queue.Queue()
        self.over = threading.Event()

    def present(self) -> Mapping[str, str]:
        self.nodes = {}
        self.owner = {key: site for site, key in self.keys().items()} if self.keys else {}
        for info in self.grid.get_nodes():
            site = self.site_of(info)
            if site is None:
                self.greet(info.node_id)
            elif site in self.sites:
                node = Node(info.last_activated_at, info.node_id)
                self.nodes[site] = max(self.nodes.get(site, node), node)
        return {site: f"{node.number} since {node.since}" for site, node in self.nodes.items()}

    def site_of(self, info: Any) -> str | None:
        """The site's name, empty for a stranger; None if it has not said yet."""
        if self.keys is not None:
            return self.owner.get(info.public_key, STRANGER)
        return self.names.get(info.node_id)

    def greet(self, node: int) -> None:
        """Ask a node seen for the first time which site it is."""
        if node not in self.greeted.values():
            frame = wire.encode(Header(wire.HELLO, self.tag, wire.ANY_SITE), {}, {})
            sending = self.push(f"node {node}", node, frame)
            if sending is not None:
                self.greeted[sending.name] = node

    def send(self, site: str, frame: bytes) -> Sending | None:
        return self.push(site, self.nodes[site].number, frame) if site in self.nodes else None

    def push(self, to: str, node: int, frame: bytes) -> Sending | None:
        message = Message(wrap(frame), node, "query")
        size = flower_bytes(message)
        (name,) = self.grid.push_messages([message]) or ("",)
        if not name:
            return None
        job = (self.grid, to, name, self.inbox, self.over)
        threading.Thread(target=fetch, args=job, daemon=True).start()
        return Sending(name, size)

    def receive(self, seconds: float) -> list[Arrival]:
        arrived = []
        try:
            arrived.append(self.inbox.get(timeout=seconds))
            while True:
                arrived.append(self.inbox.get_nowait())
        except queue.Empty:
            pass
        return [news for arrival in arrived for news in self.taken(arrival)]

    def taken(self, arrival: Arrival | Exception) -> list[Arrival]:
        """What is for the server; a node that was greeted is met, and news only if a stranger."""
        if isinstance(arrival, Exception):
            raise arrival
        node = self.greeted.pop(arrival.sending, None)
        if node is None:
            return [arrival]
        try:
            self.names[node] = self.name_in(arrival.content)
        except BadMessage as error:
            if not isinstance(error, Transient):
                self.names[node] = STRANGER  # who is not asked again
            return [Arrival(arrival.sender, "", BadMessage(f"Not let in: {error}"))]
        return []

    def name_in(self, content: bytes | BadMessage) -> str:
        if isinstance(content, BadMessage):
            raise content
        frame = wire.decode_reply(content, wire.ANSWER)
        name = frame.payload.get("site")
        if frame.header.experiment != self.tag or not isinstance(name, str):
            raise BadMessage("It takes part in another experiment.")
        if name not in self.sites:
            raise BadMessage(f"It calls itself {name!r}, which is no site of this experiment.")
        return name

    def forget(self) -> None:
        self.over.set()
        self.over, self.greeted = threading.Event(), {}

    def now(self) -> float:
        return time.monotonic()


def fetch(grid: Grid, to: str, name: str, inbox: queue.Queue, over: threading.Event) -> None:
    """Put the reply to a message into the inbox, once there is one."""
    begun = time.monotonic()
    try:
        while not over.is_set():
            looked = time.monotonic()
            for reply in grid.pull_messages([name]):
                inbox.put(Arrival(to, name, unwrap(reply), flower_bytes(reply)))
                return
            now = time.monotonic()  # a reply is noticed within a tenth of its time
            wait = max(FIRST_WAIT, (now - begun) / 10, REST * (now - looked))
            over.wait(min(LONGEST_WAIT, wait))
    except BadMessage as error:
        inbox.put(Arrival(to, name, error))
    except RunNotRunningException as error:
        inbox.put(error)
    except Exception as error:  # what a site sends can break Flower's reading of it
        problem = BadMessage(f"Flower cannot read its reply ({type(error).__name__}).")
        inbox.put(Arrival(to, name, problem))
