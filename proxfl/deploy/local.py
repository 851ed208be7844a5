"""A Flower deployment inside one process: real messages, no network, no waiting.

Messages, records and contexts are Flower's own, taken apart and put together as Flower does on its
way through a SuperLink. What a test wants to go wrong, it says in `trouble`.
"""

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from flwr.app import Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.proto.node_pb2 import NodeInfo
from flwr.serverapp import Grid
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from flwr.supercore.task_identity import TaskIdentity

from proxfl.deploy.client import client_app
from proxfl.deploy.site.worker import Worker

SERVER_NODE, RUN, TASK = 1, 1, 1


class Lost(Exception):
    """Raised by `trouble` to make a message disappear, as when a site is killed."""


Trouble = Callable[[str, str, Message], Message]  # ("down" or "up", site, message) -> message


def no_trouble(way: str, site: str, message: Message) -> Message:
    return message


@contextlib.contextmanager
def inside_flower() -> Iterator[None]:
    """Flower lets messages be made only inside a task of a run; this is one."""
    before = TaskIdentity._task_id, TaskIdentity._run_id, TaskIdentity._node_id
    TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = TASK, RUN, SERVER_NODE
    try:
        yield
    finally:
        TaskIdentity._task_id, TaskIdentity._run_id, TaskIdentity._node_id = before


def through_the_wire(message: Message) -> Message:
    """What arrives of a message: the same objects, rebuilt from their bytes."""
    contents = {name: part.deflate() for name, part in get_all_nested_objects(message).items()}
    arrived = inflate_object_from_contents(message.object_id, contents)
    arrived.metadata.__dict__["_message_id"] = message.object_id  # pyright: ignore
    return arrived  # pyright: ignore


class LocalNode:
    """A site's SuperNode: its context and its app."""

    def __init__(self, number: int, site: str, worker: Worker, key: bytes = b""):
        self.number = number
        self.site = site
        self.key = key
        self.life = 0
        self.online = True
        self.busy = threading.Lock()  # a SuperNode has one message answered at a time
        self.app: ClientApp = client_app(lambda frame, context: worker.answer(frame))
        config: dict[str, Any] = {"site": site}
        self.context = Context(RUN, number, config, RecordDict(), {})

    @property
    def info(self) -> NodeInfo:
        since = f"{self.life:06d}"
        return NodeInfo(node_id=self.number, public_key=self.key, last_activated_at=since)


class LocalGrid(Grid):
    """A Grid whose nodes answer when their replies are pulled."""

    def __init__(self, nodes: Iterable[LocalNode], trouble: Trouble = no_trouble):
        self.nodes = {node.number: node for node in nodes}
        self.trouble = trouble
        self.waiting: dict[str, Message] = {}

    def set_run(self, run: Any) -> None:
        raise NotImplementedError("A LocalGrid has one run.")

    @property
    def run(self) -> Any:
        raise NotImplementedError("A LocalGrid has one run.")

    def create_message(self, *args: Any, **options: Any) -> Message:
        raise NotImplementedError("Make a Message instead.")

    def get_node_ids(self) -> Iterable[int]:
        return [node.number for node in self.nodes.values() if node.online]

    def get_nodes(self) -> Iterable[NodeInfo]:
        return [node.info for node in self.nodes.values() if node.online]

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        numbers = []
        for message in messages:
            arrived = through_the_wire(message)
            numbers.append(arrived.metadata.message_id)
            self.waiting[numbers[-1]] = arrived
        return numbers

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        replies = []
        for number in [n for n in message_ids if n in self.waiting]:
            node = self.nodes[self.waiting[number].metadata.dst_node_id]
            if node.online:
                message = self.waiting.pop(number)
                try:
                    replies.append(self.answer(node, message))
                except Lost:
                    node.life += 1  # the site comes back, and does not know what it was asked
        return replies

    def answer(self, node: LocalNode, message: Message) -> Message:
        try:
            message = self.trouble("down", node.site, message)
            with node.busy:
                reply = node.app(message, node.context)
        except Lost:
            raise
        except Exception as error:  # as Flower does when an app fails
            reply = Message(Error(2, f"{type(error).__name__}: {error}"), reply_to=message)
        return self.trouble("up", node.site, through_the_wire(reply))

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        return self.pull_messages(self.push_messages(messages))
