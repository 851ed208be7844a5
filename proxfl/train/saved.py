"""What the folder of a result tells, for a page or a terminal."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from proxfl.spec import Spec


class Told(NamedTuple):
    """The files of a result: model.json, manifest.json and the lines of history.jsonl."""

    model: Mapping[str, Any]
    manifest: Mapping[str, Any]
    history: Sequence[Mapping[str, Any]]

    @property
    def spec(self) -> Spec:
        return Spec.from_dict(self.manifest["config"])

    def series(self, name: str) -> np.ndarray:
        """One number of each round; NaN where there is none."""
        return np.array([line[name] for line in self.history], float)


def scales(told: Told) -> dict[str, float]:
    """What a coefficient is multiplied with to be one of standardised features, if asked for."""
    agreement = told.manifest["agreement"]
    scale = agreement["scale"] if told.spec.standardise else np.ones(len(agreement["scale"]))
    return dict(zip(agreement["features"], scale, strict=True))


def count(things: Sequence[Any] | int, name: str) -> str:
    number = things if isinstance(things, int) else len(things)
    return f"{number:,} {name}{'' if number == 1 else 's'}"


def unit_of(number: float | int) -> tuple[str, float]:
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if number >= scale:
            return unit, scale
    return "bytes", 1.0


def size(number: int) -> str:
    unit, scale = unit_of(number)
    return f"{number / scale:.3g}\N{NO-BREAK SPACE}{unit}"
