"""Flower's simulation engine on Figure 1's problem: the time of a round, and the same model.

The client does Algorithm 1's local steps in NumPy and keeps its correction in Flower's own client
state; the server sends and receives one array. The start of the engine is not counted.
"""

import logging
import os
import time
from typing import Any

import numpy as np

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")

import proxfl as px
from benchmarks.figure1 import ETA, ETA_G, LONG, TAU, THETA, soft
from benchmarks.side import summary
from proxfl.data import Scaling, synthetic
from proxfl.losses import Logistic
from proxfl.prox import L1

CLIENTS, ROUNDS = 30, 6


def sites() -> list[tuple[np.ndarray, np.ndarray]]:
    return synthetic(50.0, 50.0, scaling=Scaling("unit", smoothness=0.005), seed=0).sites


def local_steps(A, y, p, c) -> np.ndarray:
    total, z = np.zeros_like(p), p
    for t in range(TAU):
        pull = -y / (1 + np.exp(y * (A @ z))) / len(y)
        total = total + pull @ A
        z = soft(p - ETA * (total + (t + 1) * c), (t + 1) * ETA)
    return total


def client_app() -> Any:
    from flwr.app import Array, ArrayRecord, Message, RecordDict
    from flwr.clientapp import ClientApp

    app, data = ClientApp(), sites()

    @app.train()
    def train(message, context):
        A, y = data[int(context.node_config["partition-id"])]
        x = message.content["down"]["x"].numpy()
        p = soft(x, LONG)
        if "memory" in context.state:
            start, mean = (context.state["memory"][k].numpy() for k in ("start", "mean"))
            c = (start - x) / LONG - mean
        else:
            c = np.zeros_like(x)
        total = local_steps(A, y, p, c)
        context.state["memory"] = ArrayRecord({"start": Array(p), "mean": Array(total / TAU)})
        up = RecordDict({"up": ArrayRecord({"sum": Array(-ETA * total)})})
        return Message(up, reply_to=message)

    return app


def server_app(found: dict[str, Any]) -> Any:
    from flwr.app import Array, ArrayRecord, Message, RecordDict
    from flwr.serverapp import ServerApp

    app = ServerApp()

    @app.main()
    def main(grid, context):
        while len(list(grid.get_node_ids())) < CLIENTS:
            time.sleep(0.1)
        x, taken = np.zeros(20), []
        for _ in range(ROUNDS):
            begun = time.perf_counter()
            down = RecordDict({"down": ArrayRecord({"x": Array(x)})})
            asked = [Message(down, node, "train") for node in grid.get_node_ids()]
            ups = [r.content["up"]["sum"].numpy() for r in grid.send_and_receive(asked)]
            assert len(ups) == CLIENTS
            x = soft(x, LONG) + ETA_G * np.mean(ups, axis=0)
            taken.append(time.perf_counter() - begun)
        found.update(model=soft(x, LONG), seconds=taken)

    return app


def run() -> dict[str, Any]:
    from flwr.simulation import run_simulation

    logging.disable(logging.WARNING)
    theirs: dict[str, Any] = {}
    resources = {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}}
    run_simulation(server_app(theirs), client_app(), CLIENTS, backend_config=resources)
    problem = px.Problem(loss=Logistic(), g=L1(THETA), x0=np.zeros(20))
    simulate = lambda rounds: px.simulate(
        px.Decoupled(ETA, ETA_G, TAU), problem, sites(), rounds=rounds, progress=False
    )
    np.testing.assert_allclose(simulate(ROUNDS).model, theirs["model"], atol=1e-10)
    ours = np.array([simulate(2000).history["seconds"][-1] / 2000 for _ in range(ROUNDS - 1)])
    rounds = np.array(theirs["seconds"][1:])  # the first one starts the workers
    return {
        "what": "one round of Figure 1's problem in Flower's simulation engine",
        "times": {"proxfl": summary(ours, ours), "Flower simulation": summary(rounds, ours)},
    }
