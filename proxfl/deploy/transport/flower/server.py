"""The server's side of Flower: its `Grid` as a transport, and which of its nodes is which site.

A node's number is not a site's identity: it may change when the site restarts. Where sites are
registered by key, the key is; a node with another key is nobody. Without keys a node is asked for
its name and believed, so such a deployment trusts everyone who can reach it.
"""

import queue
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from flwr.app import Message
from flwr.serverapp import Grid

from proxfl.deploy.protocol import wire
from proxfl.deploy.protocol.transport import Arrival, Sending, Transport
from proxfl.deploy.protocol.wire import BadMessage, Header, Transient
from proxfl.deploy.transport.flower.envelope import flower_bytes, wrap
from proxfl.deploy.transport.flower.letters import Letters
from proxfl.deploy.transport.flower.private_names import replace, soon
from proxfl.deploy.transport.flower.replies import Replies

STRANGER = ""


class Node(NamedTuple):
    """A node in one of its lives: a restart gives it another number or another beginning."""

    since: str
    number: int


class FlowerTransport(Transport):
    """`keys` gives the sites' public keys of this moment as Flower reports them; None: without.

    With the SuperLink's `database` at hand, replies are noticed there, and Flower is not asked.
    """

    def __init__(
        self,
        grid: Grid,
        experiment: str,
        sites: tuple[str, ...],
        keys: Callable[[], Mapping[str, bytes]] | None = None,
        database: Path | None = None,
    ):
        self.grid, self.tag, self.sites = grid, wire.tag(experiment), sites
        self.keys, self.owner = keys, {}
        self.names: dict[int, str] = {}  # by node, what it called itself
        self.nodes: dict[str, Node] = {}
        self.greeted: dict[str, int] = {}  # by sending, the node asked for its name
        letters = None if database is None else Letters(database)
        self.replies = Replies(grid, letters)
        replace("pull_objects", soon if letters is None else partial(pull, letters))

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
            for sending in self.push({f"node {node}": (node, frame)}).values():
                self.greeted[sending.name] = node

    def send(self, frames: Mapping[str, bytes]) -> Mapping[str, Sending]:
        there = frames.keys() & self.nodes.keys()
        return self.push({site: (self.nodes[site].number, frames[site]) for site in sorted(there)})

    def push(self, letters: Mapping[str, tuple[int, bytes]]) -> Mapping[str, Sending]:
        """One request for all, by whom they go to: each costs the SuperLink about the same."""
        messages = [Message(wrap(frame), node, "query") for node, frame in letters.values()]
        sizes = [flower_bytes(message) for message in messages]
        names = list(self.grid.push_messages(messages)) if messages else []
        sent = zip(letters, names, sizes, strict=False)  # none, if it does not take them
        made = {to: Sending(name, size) for to, name, size in sent if name}
        for to, sending in made.items():
            self.replies.expect(sending.name, to)
        return made

    def receive(self, seconds: float) -> list[Arrival]:
        arrived = []
        try:
            arrived.append(self.replies.inbox.get(timeout=seconds))
            while True:
                arrived.append(self.replies.inbox.get_nowait())
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
        self.replies.forget()
        self.greeted = {}

    def now(self) -> float:
        return time.monotonic()


def pull(
    letters: Letters, object_ids: Sequence[str], pull_object_fn: Callable[[str], bytes]
) -> dict[str, bytes]:
    """The parts of a reply, itself the last of them, in place of Flower's function of that name.

    They are read in the database, as far as they are there: each that is asked for costs a request.
    """
    found = letters.parts(object_ids[-1])
    left = [name for name in object_ids if not found.get(name)]
    return found | (soon(left, pull_object_fn=pull_object_fn) if left else {})
