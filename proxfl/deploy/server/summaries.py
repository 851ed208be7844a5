"""What sites tell of their tables, read with care and put into one order of columns."""

import contextlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from proxfl.tables import InputError
from proxfl.tables.formats import quoted

BY_COLUMN = ("count", "mean", "squares")
KINDS = {
    "rows": int,
    "dropped": int,
    "features": list,
    "fingerprint": str,
    "labels": list,
    "targets": int,
}


def read_summary(site: str, text: Any) -> dict[str, Any]:
    """A site's summary, or InputError if no site of ours would send it."""
    told: Any = None
    with contextlib.suppress(ValueError):
        told = json.loads(str(text))
    sound = isinstance(told, dict) and all(
        isinstance(told.get(key), kind) for key, kind in KINDS.items()
    )
    if not sound or told["rows"] < 1:
        raise InputError(f"Site {site} sent no summary of its table; check its version of proxfl.")
    for name in BY_COLUMN:
        numbers = np.array(told.get(name, [0.0] * len(told["features"])), float)
        if numbers.shape != (len(told["features"]),) or not np.isfinite(numbers).all():
            raise InputError(f"Site {site} did not send one {name} for each column; check it.")
    return told


def aligned(summaries: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """The summaries with all columns in the order of the first site's."""
    first = next(iter(summaries))
    features = summaries[first]["features"]
    made = {}
    for site, told in summaries.items():
        lacking = [name for name in features if name not in told["features"]]
        extra = [name for name in told["features"] if name not in features]
        if lacking or extra:
            parts = [f"lacks {quoted(lacking)}"] if lacking else []
            parts += [f"has extra {quoted(extra)}"] if extra else []
            raise InputError(
                f"Site {site} {' and '.join(parts)} compared with site {first}; give every site "
                "the same columns, or list the features in federation.toml."
            )
        place = [told["features"].index(name) for name in features]
        moved = {name: [told[name][j] for j in place] for name in BY_COLUMN if name in told}
        made[site] = dict(told) | {"features": list(features)} | moved
    return made
