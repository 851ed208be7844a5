"""What the server does."""

import torch
from flwr.app import ArrayRecord
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg

import proxfl as px
from digits.task import ALGORITHM, PROBLEM, net

app = ServerApp()


@app.main()
def main(grid, context):
    module = net()
    strategy = px.flower.Strategy(ALGORITHM, PROBLEM, FedAvg())
    result = strategy.start(
        grid=grid,
        initial_arrays=ArrayRecord(module.state_dict()),
        num_rounds=context.run_config["num-server-rounds"],
    )
    torch.save(result.arrays.to_torch_state_dict(), "model.pt")
