"""What a client does."""

from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from digits.task import accuracy, load_data, net, train

app = ClientApp()


@app.train()
def fit(message, context):
    place = context.node_config["partition-id"], context.node_config["num-partitions"]
    rows, _ = load_data(*place)
    module = net()
    module.load_state_dict(message.content["arrays"].to_torch_state_dict())
    train(module, rows, context.run_config["local-steps"], context.run_config["lr"])
    content = {
        "arrays": ArrayRecord(module.state_dict()),
        "metrics": MetricRecord({"num-examples": len(rows[1])}),
    }
    return Message(RecordDict(content), reply_to=message)


@app.evaluate()
def evaluate(message, context):
    place = context.node_config["partition-id"], context.node_config["num-partitions"]
    _, test = load_data(*place)
    module = net()
    module.load_state_dict(message.content["arrays"].to_torch_state_dict())
    found = {"accuracy": accuracy(module, test), "num-examples": len(test[1])}
    return Message(RecordDict({"metrics": MetricRecord(found)}), reply_to=message)
