"""pfl-research's simulator on Figure 1's losses, by FedAvg, which it and we both have.

It knows no proximal step, so the penalty is left out on both sides. It asks for an older
dp-accounting than ours; no privacy is used here, so `make bench` installs it without that.
"""

from typing import Any

import numpy as np

import proxfl as px
from benchmarks.figure1 import ETA, TAU
from benchmarks.flower import CLIENTS, sites
from benchmarks.side import interleaved
from proxfl.losses import Logistic
from proxfl.prox import Zero

ROUNDS = 20


def theirs(data: list[tuple[np.ndarray, np.ndarray]], rounds: int) -> np.ndarray:
    import torch
    from pfl.aggregate.simulate import SimulatedBackend
    from pfl.algorithm.base import NNAlgorithmParams
    from pfl.algorithm.federated_averaging import FederatedAveraging
    from pfl.data.dataset import Dataset
    from pfl.data.federated_dataset import FederatedDataset
    from pfl.data.sampling import get_user_sampler
    from pfl.hyperparam.base import NNTrainHyperParams
    from pfl.model.pytorch import PyTorchModel

    class Regression(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.x = torch.nn.Parameter(torch.zeros(data[0][0].shape[1], dtype=torch.float64))

        def loss(self, A, y):
            return torch.nn.functional.softplus(-y * (A @ self.x)).mean()

        def metrics(self, A, y):
            return {}

    users = [Dataset([torch.tensor(A), torch.tensor(y)]) for A, y in data]
    everyone = get_user_sampler("minimize_reuse", list(range(CLIENTS)))
    training = FederatedDataset(lambda i: users[i], everyone)
    module = Regression()
    model = PyTorchModel(module, torch.optim.SGD, torch.optim.SGD(module.parameters(), lr=1.0))
    steps = NNTrainHyperParams(local_num_epochs=TAU, local_learning_rate=ETA, local_batch_size=None)
    rounds_of = NNAlgorithmParams(
        central_num_iterations=rounds,
        evaluation_frequency=rounds + 1,
        train_cohort_size=CLIENTS,
        val_cohort_size=0,
    )
    FederatedAveraging().run(
        algorithm_params=rounds_of,
        backend=SimulatedBackend(training, training),
        model=model,
        model_train_params=steps,
    )
    return module.x.detach().numpy()


def run(repeats: int = 5) -> dict[str, Any]:
    data = sites()
    problem = px.Problem(loss=Logistic(), g=Zero(), x0=np.zeros(20))
    ours = lambda: px.simulate(
        px.FedAvg(ETA, 1.0, TAU), problem, data, rounds=ROUNDS, progress=False
    )
    # What it sums over users is in single precision, whatever the model is.
    np.testing.assert_allclose(ours().model, theirs(data, ROUNDS), atol=1e-6)
    calls = {"proxfl": ours, "pfl-research": lambda: theirs(data, ROUNDS)}
    return {
        "what": "a round of FedAvg on Figure 1's losses, start of the run included",
        "times": interleaved(calls, repeats, ROUNDS),
    }
