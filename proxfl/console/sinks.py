"""Rounds as they come, to where people watch: TensorBoard and MLflow, each by an extra of its name.

A sink is a context that gives a function of rows; a row is a dictionary with a `round`, of which
each number is sent under its name. What was sent is complete once the context is left.
"""

import importlib
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from os import PathLike
from typing import Any

Row = Mapping[str, Any]
Write = Callable[[Row], None]

BATCH = 500  # numbers to a message: a server may take longer to answer than a round does


def needed(module: str, extra: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        package, install = module.split(".")[0], f"pip install 'proxfl[{extra}]'"
        raise ValueError(f"the package {package} is not installed; run: {install}.") from None


def numbers(row: Row) -> dict[str, float]:
    """What can be drawn against the rounds: numbers that are known and finite."""
    known = {name: float(v) for name, v in row.items() if name != "round" and v is not None}
    return {name: value for name, value in known.items() if math.isfinite(value)}


@contextmanager
def tensorboard(folder: str | PathLike) -> Iterator[Write]:
    """Event files in a folder, for `tensorboard --logdir FOLDER`."""
    with needed("tensorboardX", "tensorboard").SummaryWriter(str(folder)) as writer:

        def write(row: Row) -> None:
            for name, value in numbers(row).items():
                writer.add_scalar(name, value, int(row["round"]))

        yield write


@contextmanager
def mlflow(
    uri: str, experiment: str = "proxfl", options: Mapping[str, Any] | None = None
) -> Iterator[Write]:
    """A new run on an MLflow server (http://...), with the options as its parameters."""
    entities = needed("mlflow.entities", "mlflow")
    client = needed("mlflow", "mlflow").MlflowClient(tracking_uri=uri)
    found = client.get_experiment_by_name(experiment)
    number = found.experiment_id if found else client.create_experiment(experiment)
    run = client.create_run(number).info.run_id
    params = [entities.Param(name, str(value)[:500]) for name, value in (options or {}).items()]
    client.log_batch(run, params=params)
    held: list[Any] = []

    def send() -> None:
        client.log_batch(run, metrics=held)
        held.clear()

    def write(row: Row) -> None:
        now, step = int(1000 * time.time()), int(row["round"])
        held.extend(entities.Metric(name, v, now, step) for name, v in numbers(row).items())
        if len(held) >= BATCH:
            send()

    status = "FAILED"
    try:
        yield write
        status = "FINISHED"
    finally:
        send()
        client.set_terminated(run, status)


@contextmanager
def opened(
    folder: str | PathLike | None, uri: str | None, options: Mapping[str, Any] | None = None
) -> Iterator[Write]:
    """Both sinks, either or none: a folder for TensorBoard, an address for MLflow."""
    with ExitStack() as stack:
        sinks = [] if folder is None else [stack.enter_context(tensorboard(folder))]
        sinks += [] if uri is None else [stack.enter_context(mlflow(uri, options=options))]

        def write(row: Row) -> None:
            for sink in sinks:
                sink(row)

        yield write
