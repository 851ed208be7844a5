"""A finished run as its folder holds it, for a page or a terminal."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from proxfl.train.spec import Spec


class Saved(NamedTuple):
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


def scales(saved: Saved) -> dict[str, float]:
    """What a coefficient is multiplied with to be one of standardised features, if asked for."""
    agreement = saved.manifest["agreement"]
    scale = agreement["scale"] if saved.spec.standardise else np.ones(len(agreement["scale"]))
    return dict(zip(agreement["features"], scale, strict=True))
