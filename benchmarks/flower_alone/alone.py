"""The least a Flower app can do in a round: an array to each site, its double back.

It writes when each round began, one line each, and the end.
"""

import time

import numpy as np
from flwr.app import ArrayRecord, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp

server = ServerApp()
site = ClientApp()


@site.query()
def double(message, context):
    (array,) = message.content["x"].to_numpy_ndarrays()
    return Message(RecordDict({"x": ArrayRecord([2 * array])}), reply_to=message)


@server.main()
def rounds(grid, context):
    config, nodes = context.run_config, []
    while len(nodes) < config["sites"]:
        time.sleep(1.0)
        nodes = list(grid.get_node_ids())
    for _ in range(config["rounds"]):
        note(config["out"])
        question = RecordDict({"x": ArrayRecord([np.ones(config["numbers"])])})
        replies = grid.send_and_receive([Message(question, node, "query") for node in nodes])
        assert len([reply for reply in replies if not reply.has_error()]) == len(nodes)
    note(config["out"])


def note(path):
    with open(path, "a") as file:
        file.write(f"{time.time()}\n")
