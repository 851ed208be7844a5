"""A SuperLink's database, as Flower makes it, with a run and nodes in it."""

import warnings

from flwr.app import Message
from flwr.supercore.constant import NOOP_FEDERATION_ID, TaskType
from flwr.superlink.config_loader import get_objectstore_linkstate_factories
from flwr.superlink.federation.noop_federation_manager import NoOpFederationManager

from proxfl.deploy.transport.flower.envelope import wrap
from proxfl.deploy.transport.flower.private_names import get_all_nested_objects, get_object_tree
from tests.deploy.grid import inside_flower

SUPERLINK = 1  # its own number among nodes


class LinkState:
    """A database on the disk; nodes are known by `keys` and online for as long as it takes."""

    def __init__(self, path, keys):
        _, factory = get_objectstore_linkstate_factories(str(path), NoOpFederationManager())
        with warnings.catch_warnings(action="ignore"):  # which are Flower's own
            self.state = factory.state()
        about = ("publisher/app", "1.0.0", "0" * 64, {}, NOOP_FEDERATION_ID, None, "me")
        self.run = self.state.create_run(*about, TaskType.SERVER_APP)
        self.nodes = [self.state.create_node("me", "me", key, 0.0) for key in keys]

    def activate(self):
        for node in self.nodes:
            self.state.activate_node(node, 1e4)

    def announce(self, node, frame):
        """Store a message for a node, as a run's program does, before its parts are there."""
        with inside_flower():
            message = Message(wrap(frame), node, "query")
        message.metadata.__dict__.update(_run_id=self.run, _src_node_id=SUPERLINK)
        return self.store(message)

    def post(self, node, frame):
        """The same, and all parts of it."""
        self.put(*self.announce(node, frame))

    def put(self, message, session, parts):
        """The parts of a message that was announced."""
        for name, part in get_all_nested_objects(message).items():
            if name in parts:
                assert self.state.store_object(self.run, session, name, part.deflate())

    def answer(self, node, frame):
        """Announce a node's reply to the message it was sent."""
        (message,) = self.state.get_message_ins(node, 1)
        with inside_flower():
            reply = Message(wrap(frame), reply_to=message)
        return message.metadata.message_id, *self.store(reply)

    def store(self, message):
        message.metadata.__dict__["_message_id"] = message.object_id
        tree, session = get_object_tree(message), self.state.start_session(self.run)
        stored, parts = self.state.store_message_and_object_tree(message, tree, session)
        assert stored
        return message, session, parts
