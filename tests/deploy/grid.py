"""Flower's `Grid` inside one process: real messages, taken apart and rebuilt as on their way."""

import contextlib
from types import SimpleNamespace

from flwr.app import Error, Message
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity

from proxfl.deploy.transport.flower.envelope import wrap
from proxfl.deploy.transport.flower.private_names import (
    NodeInfo,
    get_all_nested_objects,
    inflate_object_from_contents,
)
from proxfl.deploy.transport.flower.site import answered


@contextlib.contextmanager
def inside_flower():
    """Flower lets messages be made only inside a task of a run; this is one."""
    TaskIdentity.task_id = TaskIdentity.run_id = TaskIdentity.node_id = 1
    try:
        yield
    finally:
        TaskIdentity._task_id = TaskIdentity._run_id = TaskIdentity._node_id = None


def through_the_wire(message):
    """What arrives of a message: the same objects, rebuilt from their bytes."""
    contents = {name: part.deflate() for name, part in get_all_nested_objects(message).items()}
    arrived = inflate_object_from_contents(message.object_id, contents)
    arrived.metadata.__dict__["_message_id"] = message.object_id
    return arrived


def node(number, worker, key=b""):
    return SimpleNamespace(number=number, worker=worker, key=key, since="0")


class LocalGrid(Grid):
    """A Grid whose nodes answer when their replies are pulled; `spoil` may change a reply."""

    run = set_run = create_message = get_node_ids = send_and_receive = None

    def __init__(self, nodes, spoil=lambda node, message: message):
        self.nodes, self.spoil, self.waiting = {n.number: n for n in nodes}, spoil, {}

    def get_nodes(self):
        return [
            NodeInfo(node_id=n.number, public_key=n.key, last_activated_at=n.since)
            for n in self.nodes.values()
        ]

    def push_messages(self, messages):
        arrived = [through_the_wire(message) for message in messages]
        self.waiting |= {message.metadata.message_id: message for message in arrived}
        return [message.metadata.message_id for message in arrived]

    def pull_messages(self, message_ids):
        return [self.answer(self.waiting.pop(n)) for n in message_ids if n in self.waiting]

    def answer(self, message):
        node = self.nodes[message.metadata.dst_node_id]
        reply = Message(wrap(answered(message, node.worker.answer)), reply_to=message)
        return self.spoil(node, through_the_wire(reply))


def failed(message):
    return Message(Error(2, "the site's process ended"), reply_to=message)
