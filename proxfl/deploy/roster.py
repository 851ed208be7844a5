"""Which Flower node is which site, now.

A node's number is not a site's identity: it may change when the site restarts. Where sites are
registered by key, the key is; a node with another key is nobody. Without keys a node is asked for
its name and believed, so such a deployment trusts everyone who can reach it.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from flwr.proto.node_pb2 import NodeInfo


class Node(NamedTuple):
    """A node in one of its lives: a restart gives it another number or another beginning."""

    number: int
    since: str


class Roster:
    def __init__(self, sites: tuple[str, ...], keys: Mapping[str, bytes] | None = None):
        self.sites = sites
        self.owner = None if keys is None else {key: site for site, key in keys.items()}
        self.names: dict[int, str] = {}  # by node number, as told by the nodes themselves
        self.present: dict[str, Node] = {}
        self.away: set[str] = set()  # sites that the last exchange went on without

    def update(self, online: Iterable[NodeInfo]) -> list[int]:
        """Note who is online; gives the nodes whose site is still to be asked for."""
        unknown, present = [], {}
        for info in online:
            site = self.site_of(info)
            if site is None:
                unknown.append(info.node_id)
            elif site in self.sites:
                node = Node(info.node_id, info.last_activated_at)
                present[site] = max(present.get(site, node), node, key=lambda n: n.since)
        self.present = present
        return unknown

    def site_of(self, info: NodeInfo) -> str | None:
        """The site's name, empty for a stranger; None if it has not been asked yet."""
        if self.owner is not None:
            return self.owner.get(info.public_key, "")
        return self.names.get(info.node_id)

    def learn(self, number: int, name: str) -> None:
        self.names[number] = name
