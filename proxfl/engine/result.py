"""What a run gives back."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from proxfl.core import Algorithm
from proxfl.engine.round import Run
from proxfl.points import Point
from proxfl.storage.export import arrays, save_safetensors

if TYPE_CHECKING:
    import matplotlib.figure
    import pandas


@dataclass(frozen=True)
class Result:
    """The model, the metrics along the way, and the run to go on from.

    `history` holds one NumPy array per metric, beside `round`, `seconds` and the bytes each client
    has sent and received so far. `met` says whether the bounds given as `until` were reached.
    """

    model: Point
    history: dict[str, np.ndarray]
    run: Run
    algorithm: Algorithm
    met: bool
    bytes_up: int
    bytes_down: int
    compile_seconds: float

    def plot(self, metric: str = "optimality", along: str = "round") -> "matplotlib.figure.Figure":
        """One metric of the history against rounds, seconds or bytes; the figure is not shown."""
        from proxfl.drawing.curves import compare  # matplotlib is not for runs that draw nothing

        return compare({type(self.algorithm).__name__: self}, metric, along)

    def frame(self) -> "pandas.DataFrame":
        """The history as a table, one row per observation."""
        import pandas

        return pandas.DataFrame(self.history)

    def arrays(self) -> dict[str, np.ndarray]:
        """The model by the paths of its leaves; what the penalty put to zero is exactly zero."""
        return arrays(self.model)

    def export(self, path: str | os.PathLike) -> None:
        """Write the model as a safetensors file."""
        save_safetensors(path, self.model)

    def to(self, module: Any) -> Any:
        """Write the model into the PyTorch module it is of, and give that back."""
        from proxfl.torch import write  # an extra

        return write(module, self.model)


class DivergenceError(ArithmeticError):
    """The iterates left the finite numbers; `result` holds what was recorded until then."""

    result: Result

    @classmethod
    def of(cls, result: Result, advice: str) -> "DivergenceError":
        name, r = type(result.algorithm).__name__, int(result.run.round)
        error = cls(f"{name} diverged: after round {r} its model is no longer finite. {advice}")
        error.result = result
        return error


class Recorder:
    """Gathers observations on the host, with the seconds spent up to each of them."""

    def __init__(self):
        self.parts: list[dict[str, np.ndarray]] = []
        self.clock = 0.0
        self.compile_seconds = 0.0

    def add(self, log: Mapping[str, Any], spent: float = 0.0) -> None:
        part = {name: np.atleast_1d(np.asarray(column)) for name, column in log.items()}
        rows = len(part["round"])
        # Rounds inside one call of the compiled program all cost about the same.
        part["seconds"] = self.clock + spent * np.arange(1, rows + 1) / max(rows, 1)
        self.parts.append(part)
        self.clock += spent

    def history(self, up: int, down: int) -> dict[str, np.ndarray]:
        history = {
            name: np.concatenate([part[name] for part in self.parts]) for name in self.parts[0]
        }
        history["round"] = history["round"].astype(np.int64)
        return history | {
            "bytes_up": history["round"] * up,
            "bytes_down": history["round"] * down,
        }
