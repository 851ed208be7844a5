"""Rounds reach TensorBoard and MLflow as they were.

TensorBoard's files are read back byte by byte. MLflow brings many packages of its own, too many for
a test suite, so a stand-in takes its place; it has the calls of MLflow's client and keeps them.
"""

import json
import re
import struct
import sys
from types import SimpleNamespace
from typing import NamedTuple

import pytest

from proxfl.console import sinks
from tests.cli import world
from tests.cli.world import proxfl

ROWS = [
    {"round": 1, "objective": 2.0, "optimality": 1.0, "counted": True},
    {"round": 2, "objective": float("inf"), "optimality": None, "counted": False},
    {"round": 5, "objective": 0.5, "optimality": 0.25, "counted": True},
]
NUMBERS = [
    *((1, "objective", 2.0), (1, "optimality", 1.0), (1, "counted", 1.0)),
    *((2, "counted", 0.0), (5, "objective", 0.5), (5, "optimality", 0.25), (5, "counted", 1.0)),
]


def events(folder):
    """(step, name, value) of every number in the folder: records of length, check, data, check."""
    from tensorboardX.proto.event_pb2 import Event  # and with it PyTorch, where that is installed

    (file,) = folder.iterdir()
    content, found = file.read_bytes(), []
    while content:
        (length,) = struct.unpack("<Q", content[:8])
        event = Event.FromString(content[12 : 12 + length])
        found += [(event.step, value.tag, value.simple_value) for value in event.summary.value]
        content = content[16 + length :]
    return found


class Metric(NamedTuple):
    key: str
    value: float
    timestamp: int
    step: int


class Param(NamedTuple):
    key: str
    value: str


class Client:
    """The calls of MLflow's client that a sink makes."""

    runs: dict

    def __init__(self, tracking_uri):
        self.uri = tracking_uri

    def get_experiment_by_name(self, name):
        return SimpleNamespace(experiment_id=name) if name in self.runs else None

    def create_experiment(self, name):
        self.runs[name] = []
        return name

    def create_run(self, experiment_id):
        run = SimpleNamespace(uri=self.uri, params={}, metrics=[], sizes=[], status="RUNNING")
        self.runs[experiment_id].append(run)
        return SimpleNamespace(info=SimpleNamespace(run_id=run))

    def log_batch(self, run, metrics=(), params=()):
        run.params |= {param.key: param.value for param in params}
        run.metrics += [(metric.step, metric.key, metric.value) for metric in metrics]
        run.sizes.append(len(metrics))

    def set_terminated(self, run, status):
        run.status = status


@pytest.fixture
def runs(monkeypatch):
    """The runs that a stand-in for MLflow was told of."""
    monkeypatch.setattr(Client, "runs", {}, raising=False)
    entities = SimpleNamespace(Metric=Metric, Param=Param)
    module = SimpleNamespace(MlflowClient=Client, entities=entities)
    monkeypatch.setitem(sys.modules, "mlflow", module)
    monkeypatch.setitem(sys.modules, "mlflow.entities", entities)
    return Client.runs


def test_tensorboard_gets_every_finite_number_at_its_round(tmp_path):
    with sinks.tensorboard(tmp_path / "events") as write:
        for row in ROWS:
            write(row)
    assert events(tmp_path / "events") == NUMBERS


def test_mlflow_gets_every_finite_number_at_its_round_and_the_options(runs):
    with sinks.mlflow("http://runs", options={"l1": 0.1}) as write:
        for row in ROWS:
            write(row)
    (run,) = runs["proxfl"]
    assert (run.metrics, run.params, run.status) == (NUMBERS, {"l1": "0.1"}, "FINISHED")
    assert run.uri == "http://runs"


def test_mlflow_is_told_in_messages_of_a_size_it_takes_and_of_a_failure(runs):
    with pytest.raises(KeyboardInterrupt), sinks.mlflow("http://runs") as write:
        for k in range(3000):
            write({"round": k, "objective": 1.0})
        raise KeyboardInterrupt
    (run,) = runs["proxfl"]
    assert run.status == "FAILED" and len(run.metrics) == 3000
    assert max(run.sizes) <= 1000 and len(run.sizes) < 30


def test_an_experiment_may_have_several_runs(runs):
    for _ in range(2):
        with sinks.mlflow("http://runs"):
            pass
    assert len(runs["proxfl"]) == 2


@pytest.mark.parametrize("module", ["tensorboardX", "mlflow"])
def test_a_package_that_is_not_there_is_named(tmp_path, monkeypatch, module):
    monkeypatch.setitem(sys.modules, module, None)
    extra = module.removesuffix("X")
    words = f"the package {module} is not installed; run: pip install 'proxfl[{extra}]'."
    with pytest.raises(ValueError, match=re.escape(words)), getattr(sinks, extra)(str(tmp_path)):
        pass


def test_training_sends_its_rounds_to_both(tmp_path, runs):
    data = world.write(tmp_path / "data", world.diabetes(), 2)
    told = "--target progression --loss squared --l1 1 --mlflow http://runs"
    folders = ["--tensorboard", tmp_path / "events", "--out", tmp_path / "out"]
    outcome = proxfl("train", data, *told.split(), *folders)
    assert outcome.code == 0, outcome.err
    lines = (tmp_path / "out" / "history.jsonl").read_text().splitlines()
    history = [json.loads(line) for line in lines]
    (run,) = runs["proxfl"]
    wanted = [(line["round"], "objective", line["objective"]) for line in history]
    assert [entry for entry in run.metrics if entry[1] == "objective"] == wanted
    assert (run.params["l1"], run.params["loss"]) == ("1.0", "squared")
    sent = [step for step, name, _ in events(tmp_path / "events") if name == "optimality"]
    assert sent == [line["round"] for line in history]
