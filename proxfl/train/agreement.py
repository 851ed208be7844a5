"""What sites must agree on before they train: columns, classes, scaling, weights.

Each site tells a summary of its table (names, counts, means, spreads, label values; never a row).
From all summaries the server makes one agreement, and each site prepares its own data by it.

Models are solved for in coordinates of their own: features centred, if there is an intercept to
take the shift, and scaled, if the penalty can be written for scaled coefficients exactly. The
model is the same, it takes far fewer rounds, and its optimality does not depend on the units in
which features were measured. Sparse features are not centred, since their zeros would go; that is
the same model, too.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.sparse import issparse

from proxfl.core import Regulariser
from proxfl.errors import InputError
from proxfl.losses import Clipped, Coefficients, Linear, Loss
from proxfl.losses.targets import Label, refuse
from proxfl.points import Point, Tree
from proxfl.problem import Problem, Shard, client_weights, stack
from proxfl.tables import Table
from proxfl.tables.formats import filled
from proxfl.train.penalties import chosen
from proxfl.train.regulariser import penalty, rescaled
from proxfl.train.spec import Spec, columns_of, declared, fills, loss_of


def needs_moments(spec: Spec) -> bool:
    return spec.standardise or spec.precondition or fills(spec)


def is_centred(spec: Spec) -> bool:
    """Whether the features' means are subtracted: something must take up the shift."""
    taken_up = spec.intercept or loss_of(spec).ignores_shifts
    return taken_up and (spec.standardise or spec.precondition)


def row_counts(table: Table, spec: Spec) -> np.ndarray:
    """How much each row counts, checked; 1, unless a column says otherwise."""
    if spec.row_weights is None:
        return np.ones(table.rows)
    counts = table.beside[spec.row_weights]
    refuse(table, counts < 0, "is below 0", "weights are 0 or more", spec.row_weights)
    return counts


def offsets(table: Table, spec: Spec) -> np.ndarray | None:
    """What is added to the score of each row, if anything is."""
    found = None if spec.offset is None else table.beside[spec.offset]
    if spec.exposure is None:
        return found
    exposure = table.beside[spec.exposure]
    refuse(table, ~(exposure > 0), "is not positive", "correct it or drop the row", spec.exposure)
    return np.log(exposure) + (0.0 if found is None else found)


def summarise(table: Table, spec: Spec) -> dict[str, Any]:
    """All that a site tells about its table, as JSON can hold it."""
    told: dict[str, Any] = {
        "rows": table.rows,
        "dropped": table.dropped,
        "features": list(table.features),
        "fingerprint": table.fingerprint,
        "labels": [] if declared(spec) else list(loss_of(spec).target.labels(table.y)),
        "targets": 1 if table.y.ndim == 1 else table.y.shape[1],
    }
    counts = row_counts(table, spec)
    if spec.row_weights is not None:
        told["total"] = float(counts.sum())
        if not told["total"]:
            what = f"column {spec.row_weights!r} is 0 in all rows"
            raise InputError(f"{table.source}: {what}; leave the site out.")
    if table.stays_sparse:
        told["sparse"] = True
    if needs_moments(spec):
        of = sparse_moments if table.stays_sparse else dense_moments
        moments = of(table.A if table.stays_sparse else table.dense, counts)
        names = ("count", "mean", "squares")
        told |= {name: found.tolist() for name, found in zip(names, moments, strict=True)}
    return told


# By column: how much is present, its mean, and the squares around that: the same information as
# plain sums of squares, without their cancellation.
Moments = tuple[np.ndarray, np.ndarray, np.ndarray]


def dense_moments(A: np.ndarray, counts: np.ndarray) -> Moments:
    present = ~np.isnan(A)
    count = counts @ present
    mean = counts @ np.where(present, A, 0.0) / np.where(count > 0, count, 1.0)
    return count, mean, counts @ np.where(present, A - mean, 0.0) ** 2


def sparse_moments(A: Any, counts: np.ndarray) -> Moments:
    entries = A.tocoo()
    present, column = ~np.isnan(entries.data), entries.col
    weight, value = counts[entries.row], np.where(present, entries.data, 0.0)
    total = lambda numbers: np.bincount(column, numbers, minlength=A.shape[1])
    count = counts.sum() - total(weight * ~present)
    mean = total(weight * value) / np.where(count > 0, count, 1.0)
    held = total(weight * present)
    around = total(weight * np.where(present, value - mean[column], 0.0) ** 2)
    return count, mean, around + np.maximum(count - held, 0.0) * mean**2


@dataclass(frozen=True)
class Agreement:
    """The common ground of an experiment; public, and JSON can hold it."""

    sites: tuple[str, ...]
    rows: tuple[int, ...]
    counts: tuple[float, ...]  # of rows: how much all of a site count
    weights: tuple[float, ...]
    features: tuple[str, ...]
    classes: tuple[Label, ...]
    centre: tuple[float, ...]  # subtracted from the features
    scale: tuple[float, ...]  # and what they are then divided by
    unit: tuple[float, ...]  # the penalty acts on unit * coefficient
    fill: tuple[float, ...]  # for missing values
    targets: tuple[Label, ...]  # what the scores of a row are for

    def to_dict(self) -> dict[str, Any]:
        return {field.name: list(getattr(self, field.name)) for field in fields(self)}

    @classmethod
    def from_dict(cls, held: Mapping[str, Any]) -> "Agreement":
        return cls(**{field.name: tuple(held[field.name]) for field in fields(cls)})


def agree(spec: Spec, summaries: Mapping[str, Mapping[str, Any]]) -> Agreement:
    """One agreement from all sites' summaries; the sites' order is that of their names given."""
    sites = tuple(summaries)
    first = summaries[sites[0]]
    for site in sites:
        if list(summaries[site]["features"]) != list(first["features"]):
            raise InputError(
                f"Site {site} has other columns than site {sites[0]}; give all the same names in "
                "the same order."
            )
    features = tuple(first["features"])
    rows = tuple(int(summaries[site]["rows"]) for site in sites)
    totals = [summaries[site].get("total", summaries[site]["rows"]) for site in sites]
    target = loss_of(spec).target
    classes = target.merge((summaries[site]["labels"] for site in sites), spec.loss, declared(spec))
    count = len(features)
    centre, scale, unit, fill = np.zeros(count), np.ones(count), np.ones(count), np.zeros(count)
    if needs_moments(spec):
        mean, spread = pooled(features, summaries)
        fill = mean
        sparse = any(summaries[site].get("sparse") for site in sites)
        centred = is_centred(spec) and not sparse
        if centred:
            centre = mean  # without an intercept, moving the features would change the model itself
        if spec.standardise:
            scale = spread
        elif rescaled(spec):
            scale = spread if centred else np.hypot(mean, spread)
            unit = 1 / scale
    return Agreement(
        sites=sites,
        rows=rows,
        counts=tuple(map(float, totals)),
        weights=tuple(client_weights(spec.weights, totals).tolist()),
        features=features,
        classes=classes,
        centre=tuple(centre.tolist()),
        scale=tuple(scale.tolist()),
        unit=tuple(unit.tolist()),
        fill=tuple(fill.tolist()),
        targets=target.outputs(columns_of(spec), int(first["targets"]), classes),
    )


def agreement_bytes(
    summaries: Mapping[str, Mapping[str, Any]], agreement: Agreement
) -> tuple[int, int]:
    """What coming to an agreement sends, as text: up and down, all sites together."""
    up = sum(len(json.dumps(summary)) for summary in summaries.values())
    return up, len(summaries) * len(json.dumps(agreement.to_dict()))


def pooled(features: tuple[str, ...], summaries: Mapping[str, Mapping[str, Any]]):
    """Mean and standard deviation over all sites, from each site's own."""
    counts = np.array([told["count"] for told in summaries.values()], float)
    means = np.array([told["mean"] for told in summaries.values()], float)
    squares = np.array([told["squares"] for told in summaries.values()], float)
    total = counts.sum(axis=0)
    for feature, n in zip(features, total, strict=True):
        if n == 0:
            raise InputError(f"Column {feature!r} has no value at any site; leave it out.")
    mean = (counts * means).sum(axis=0) / total
    variance = (squares + counts * (means - mean) ** 2).sum(axis=0) / total
    spread = np.sqrt(variance)
    # A constant column stays as it is; its spread is 0 but for the rounding in its mean.
    return mean, np.where(spread > 1e-13 * np.abs(mean), spread, 1.0)


def prepare(table: Table, spec: Spec, agreement: Agreement) -> tuple[Any, ...]:
    """A site's examples as the loss takes them; they stay at the site."""
    fill, centre, scale = map(np.asarray, (agreement.fill, agreement.centre, agreement.scale))
    if table.stays_sparse and not centre.any():
        A = filled(table.A, fill)
        A.data /= scale[A.indices]
    else:
        A = (filled(table.dense, fill) - centre) / scale
    y, offset = (
        loss_of(spec).target.encode(table, agreement.classes, spec.loss),
        offsets(table, spec),
    )
    return (A, y) if offset is None else (A, y, offset)


def shards_for(
    spec: Spec,
    tables: Sequence[Table],
    agreement: Agreement,
    weights: np.ndarray,
    capacity: int | None = None,
) -> Shard:
    """Shards of so many rows each; a site without rows gets one of zeros, and has no weight."""
    examples = [prepare(table, spec, agreement) if table.rows else None for table in tables]
    if not all(issparse(held[0]) for held in examples if held):
        densified = lambda A, *more: (A.toarray() if issparse(A) else A, *more)
        examples = [held and densified(*held) for held in examples]
    first = next(held for held in examples if held)
    nothing = jax.tree.map(lambda a: 0 * a[:1] if issparse(a) else np.zeros_like(a[:1]), first)
    counts = None
    if spec.row_weights is not None:
        counts = [row_counts(table, spec) if table.rows else np.ones(1) for table in tables]
    capacity = max(1, *(table.rows for table in tables)) if capacity is None else capacity
    held = [nothing if found is None else found for found in examples]
    made = stack(held, weights, capacity, np.float64, counts)
    if spec.site_intercepts:
        refuse_without_level(loss_of(spec), tables, made)
    return made


def shard_form(spec: Spec, agreement: Agreement) -> Shard:
    """What is known of a shard without its rows: shapes and types, of as many as a batch has."""
    outputs, rows = len(agreement.targets), spec.batch or 1
    shape: Any = jax.ShapeDtypeStruct
    features = shape((rows, len(agreement.features)), jnp.float64)
    labels = loss_of(spec).target.encoded(rows, outputs)
    counts = None if spec.row_weights is None else shape((rows,), jnp.float64)
    return Shard((features, labels), shape((), jnp.int32), shape((), jnp.float64), counts)


def refuse_without_level(loss: Linear, tables: Sequence[Table], shards: Shard) -> None:
    """Refuse a site whose loss has no least value in its intercept: all of one class, say."""
    for i, table in enumerate(tables):
        shard = jax.tree.map(lambda a, i=i: a[i], shards)
        _, y, *offset = shard.examples
        weights = shard.row_weights(np.float64)
        z = offset[0] if offset else jnp.zeros_like(weights)
        if table.rows and not has_level(loss, z, y, weights):
            raise InputError(
                f"{table.source}: the site has no intercept of its own, since its rows would have "
                "an infinite one; leave the site out, or use one intercept for all."
            )


has_level = jax.jit(lambda loss, z, y, weights: loss.exists(z, y, weights), static_argnums=0)


def problem_of(spec: Spec, agreement: Agreement) -> Problem:
    """The public problem: loss, penalty, and a start at zero (or inside the constraints)."""
    outputs = len(agreement.targets)
    shape = (len(agreement.features),) if outputs == 1 else (len(agreement.features), outputs)
    g = penalty(spec, agreement.features, outputs, np.array(agreement.unit))
    x0 = jax.device_put(np.zeros(shape))
    if spec.intercept:
        x0 = Tree(Coefficients(x0, jax.device_put(np.zeros(shape[1:]))))
    if any(option.is_constraint for option in chosen(spec)):  # which may leave 0 out
        x0 = allowed(g, x0)
    loss: Loss = loss_of(spec)
    if spec.dp_clip is not None:
        loss = Clipped(loss, spec.dp_clip)
    return Problem(g=g, x0=x0, loss=loss, batch=spec.batch)


@jax.jit
def allowed(g: Regulariser, x: Point) -> Point:
    """A point in the domain of g, near x."""
    return g.prox(x, 1.0)
