"""Flower's Grid over clients in this process: messages are taken apart and rebuilt."""

from flwr.app import Context, Error, Message, RecordDict
from flwr.serverapp import Grid

from tests.deploy.grid import through_the_wire

NODES = (40, 7, 23)  # node ids say nothing about the order of clients


class Nodes(Grid):
    """Flower's Grid over clients in this process; `lost` says which replies never arrive."""

    run = set_run = create_message = get_nodes = push_messages = pull_messages = None

    def __init__(self, app, lost=lambda step, node: False):
        self.app, self.lost, self.step = app, lost, 0
        self.contexts = {
            node: Context(
                1, node, {"partition-id": i, "num-partitions": len(NODES)}, RecordDict(), {}
            )
            for i, node in enumerate(NODES)
        }

    def get_node_ids(self):
        return list(self.contexts)

    def send_and_receive(self, messages, *, timeout=None):
        replies = [self.answer(through_the_wire(message)) for message in messages]
        self.step += bool(replies and replies[0].metadata.message_type == "train")
        return replies[::-1]

    def answer(self, message):
        node = message.metadata.dst_node_id
        context = self.contexts[node]
        # The context, too, is taken apart and rebuilt between two messages.
        context.state = RecordDict(dict(context.state.items()))
        reply = through_the_wire(self.app(message, context))
        if message.metadata.message_type == "train" and self.lost(self.step, node):
            return Message(Error(2, "the reply was lost"), reply_to=message)
        return reply
