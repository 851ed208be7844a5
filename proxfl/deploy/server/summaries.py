"""What sites tell of their tables, read with care and put into one order of columns."""

import contextlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from proxfl.errors import InputError
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
    found: Any = None
    with contextlib.suppress(ValueError):
        found = json.loads(str(text))
    sound = isinstance(found, dict) and all(
        isinstance(found.get(key), kind) for key, kind in KINDS.items()
    )
    if not sound or found["rows"] < 1:
        raise InputError(f"Site {site} sent no summary of its table; check its version of proxfl.")
    for name in BY_COLUMN:
        numbers = np.array(found.get(name, [0.0] * len(found["features"])), float)
        if numbers.shape != (len(found["features"]),) or not np.isfinite(numbers).all():
            raise InputError(f"Site {site} did not send one {name} for each column; check it.")
    return found


def aligned(summaries: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """The summaries with all columns in the order of the first site's."""
    first = next(iter(summaries))
    features = summaries[first]["features"]
    made = {}
    for site, found in summaries.items():
        lacking = [name for name in features if name not in found["features"]]
        extra = [name for name in found["features"] if name not in features]
        if lacking or extra:
            parts = [f"lacks {quoted(lacking)}"] if lacking else []
            parts += [f"has extra {quoted(extra)}"] if extra else []
            raise InputError(
                f"Site {site} {' and '.join(parts)} compared with site {first}; give every site "
                "the same columns, or list the features in federation.toml."
            )
        place = [found["features"].index(name) for name in features]
        moved = {name: [found[name][j] for j in place] for name in BY_COLUMN if name in found}
        made[site] = dict(found) | {"features": list(features)} | moved
    return made
