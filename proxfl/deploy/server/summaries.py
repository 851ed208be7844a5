"""What sites tell of their tables: parsed once, here, and put into one order of columns.

Whatever a site sends, the server goes on with a summary that some table of ours could have, or
says in a sentence which site did not send one. Where sites contradict one another, those that
differ from most are named.
"""

import json
import math
from collections import Counter
from collections.abc import Hashable, Mapping
from typing import Any, NotRequired, TypedDict

import numpy as np

from proxfl.console.words import called
from proxfl.deploy.protocol import wire
from proxfl.errors import InputError
from proxfl.losses.targets import Label
from proxfl.storage.typed import misfit
from proxfl.tables.formats import quoted
from proxfl.tables.sites import LARGEST
from proxfl.train.agreement import needs_moments
from proxfl.train.spec import Spec, loss_of

BY_COLUMN = ("count", "mean", "squares")
MOST_ROWS = 2**53  # beyond, a float does not count them
MOST_LABELS = 10_000  # of one site; each is an output of the model
MOST_PARAMETERS = wire.LARGEST // 8  # a model must fit into a message
DIGITS = 64  # of a fingerprint
ROUNDING = 1 + 1e-9


class SiteSummary(TypedDict):
    """A summary; see `proxfl.train.agreement.summarise`."""

    rows: int
    dropped: int
    features: list[str]
    fingerprint: str
    labels: list[Label]
    targets: int
    total: NotRequired[float]
    count: NotRequired[list[float]]
    mean: NotRequired[list[float]]
    squares: NotRequired[list[float]]
    sparse: NotRequired[bool]


def read_summary(site: str, text: Any, spec: Spec) -> dict[str, Any]:
    """A site's summary, or InputError if no site of ours would send it."""
    try:
        found: Any = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        found = None
    wrong = misfit(found, SiteSummary) or impossible(found, spec)
    if wrong:
        raise InputError(
            f"Site {site} sent no summary of its table: {wrong}; check it, and its version of "
            "proxfl."
        )
    kept = [key for key in SiteSummary.__annotations__ if key in found]
    if spec.row_weights is None:  # else a site could weigh more than its rows
        kept = [key for key in kept if key != "total"]
    return {key: found[key] for key in kept}


def impossible(told: Any, spec: Spec) -> str | None:
    """What no table has, of a summary whose types are right; None if a table may have all."""
    rows, features, labels = told["rows"], told["features"], told["labels"]
    target, outputs = loss_of(spec).target, max(told["targets"], len(labels))
    numbers = [label for label in labels if not isinstance(label, str)]
    most = 2 if spec.event else target.most  # whether there are events is told, and is no class
    if not 1 <= rows <= MOST_ROWS or not 0 <= told["dropped"] <= MOST_ROWS:
        return "its rows, or those it dropped, are no number of rows"
    if not features or len(set(features)) < len(features) or "" in features:
        return "its columns are none, or have no name, or one twice"
    if len(told["fingerprint"]) > DIGITS:
        return "its fingerprint is none"
    if not 1 <= told["targets"] <= MOST_PARAMETERS:
        return f"it has {told['targets']} targets"
    if len(set(labels)) < len(labels) or len(labels) > min(rows, most, MOST_LABELS):
        return f"it tells {len(labels)} labels, which are too many, or one twice"
    if numbers and (len(numbers) < len(labels) or not all(map(is_value, numbers))):
        return "its labels are not all text, and not all finite numbers"
    if (len(features) + 1) * outputs > MOST_PARAMETERS:
        return f"its {len(features)} columns for {outputs} outputs are too many for a message"
    if spec.row_weights is not None and not 0 < told.get("total", 0.0) <= LARGEST:
        return "what its rows weigh together is no such number"
    return impossible_moments(told) if needs_moments(spec) else None


def impossible_moments(told: Any) -> str | None:
    """The same of counts, means and squares; within these bounds, sums over sites are finite."""
    width = (len(told["features"]),)
    found = {name: np.array(told.get(name, ()), float) for name in BY_COLUMN}
    lacking = [name for name, numbers in found.items() if numbers.shape != width]
    if lacking:
        return f"it has not one {lacking[0]} for each column"
    count, mean, squares = found.values()
    weight = told.get("total", told["rows"])
    sound = {
        "count": (count >= 0) & (count <= ROUNDING * weight),
        "mean": np.abs(mean) <= ROUNDING * LARGEST,
        "squares": (squares >= 0) & (squares <= count * (2 * ROUNDING * LARGEST) ** 2),
    }
    for name, each in sound.items():
        if not each.all():
            column = told["features"][each.argmin()]
            return f"the {name} of column {called(column)} is that of no column"
    return None


def is_value(number: int | float) -> bool:
    return math.isfinite(number) and abs(number) <= LARGEST


def aligned(summaries: Mapping[str, Mapping[str, Any]], spec: Spec) -> dict[str, dict[str, Any]]:
    """The summaries with all columns in one order; InputError names a site that does not fit."""
    like = most_alike({site: frozenset(told["features"]) for site, told in summaries.items()})
    features, made = summaries[like]["features"], {}
    for site, found in summaries.items():
        lacking = sorted(set(features) - set(found["features"]))
        extra = sorted(set(found["features"]) - set(features))
        if lacking or extra:
            parts = [f"lacks {quoted(lacking)}"] if lacking else []
            parts += [f"has extra {quoted(extra)}"] if extra else []
            raise InputError(
                f"Site {site} {' and '.join(parts)} compared with site {like}; give every site "
                "the same columns, or list the features in federation.toml."
            )
        place = {name: j for j, name in enumerate(found["features"])}
        order = [place[name] for name in features]
        moved = {name: [found[name][j] for j in order] for name in BY_COLUMN if name in found}
        made[site] = dict(found) | {"features": list(features)} | moved
    refuse_other("number of targets", {site: told["targets"] for site, told in made.items()})
    refuse_other("kind of labels", {s: kind_of(told) for s, told in made.items() if told["labels"]})
    refuse_stray_labels({site: told["labels"] for site, told in made.items()}, spec)
    return made


def most_alike(facts: Mapping[str, Hashable]) -> str:
    """The first site of those, the most, that say the same."""
    (usual, _), *_ = Counter(facts.values()).most_common(1)
    return next(site for site, fact in facts.items() if fact == usual)


def kind_of(told: Mapping[str, Any]) -> str:
    return "text" if isinstance(told["labels"][0], str) else "numbers"


def refuse_other(what: str, facts: Mapping[str, Hashable]) -> None:
    like = most_alike(facts) if facts else ""
    for site, fact in facts.items():
        if fact != facts[like]:
            raise InputError(
                f"Site {site} has another {what} than site {like}, {fact} and not {facts[like]}; "
                "write the target in one way at all sites."
            )


def refuse_stray_labels(labels: Mapping[str, list[Label]], spec: Spec) -> None:
    """Where labels are more than the loss has classes, the sites with the rarest are named."""
    target = loss_of(spec).target
    times = Counter(label for told in labels.values() for label in told)
    if not target.most or len(times) <= target.most:
        return
    usual = {label for label, _ in times.most_common(int(target.most))}
    site, stray = next((s, x) for s, told in labels.items() for x in told if x not in usual)
    raise InputError(
        f"Site {site} has the label {called(stray)} beside {quoted(sorted(map(str, usual)))} of "
        f"most, and {spec.loss} takes {target.most}; correct it, or use a loss for more classes."
    )
