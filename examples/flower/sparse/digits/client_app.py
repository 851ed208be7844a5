"""What a client does."""

from flwr.app import Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

import proxfl as px
from digits.task import ALGORITHM, PROBLEM, accuracy, load_data, net

app = ClientApp()
client = px.flower.Client(ALGORITHM, PROBLEM)


@app.train()
def fit(message, context):
    place = context.node_config["partition-id"], context.node_config["num-partitions"]
    rows, _ = load_data(*place)
    return client.train(message, context, rows)


@app.evaluate()
def evaluate(message, context):
    place = context.node_config["partition-id"], context.node_config["num-partitions"]
    _, test = load_data(*place)
    module = net()
    module.load_state_dict(message.content["arrays"].to_torch_state_dict())
    found = {"accuracy": accuracy(module, test), "num-examples": len(test[1])}
    return Message(RecordDict({"metrics": MetricRecord(found)}), reply_to=message)
