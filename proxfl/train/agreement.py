"""What sites must agree on before they train: columns, classes, scaling, weights.

Each site tells a summary of its table (names, counts, means, spreads, label values; never a row).
From all summaries the server makes one agreement, and each site prepares its own data by it.

Models are solved for in coordinates of their own: features centred, if there is an intercept to
take the shift, and scaled, if the penalty can be written for scaled coefficients exactly. The
model is the same, it takes far fewer rounds, and its optimality does not depend on the units in
which features were measured.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from proxfl.core import Regulariser
from proxfl.errors import InputError
from proxfl.losses import Coefficients
from proxfl.losses.targets import Label
from proxfl.points import Point, Tree
from proxfl.problem import Problem, client_weights
from proxfl.tables import Table
from proxfl.train.penalties import chosen
from proxfl.train.regulariser import penalty, rescaled
from proxfl.train.spec import Spec, loss_of


def needs_moments(spec: Spec) -> bool:
    return spec.standardise or spec.precondition or spec.missing == "mean"


def summarise(table: Table, spec: Spec) -> dict[str, Any]:
    """All that a site tells about its table, as JSON can hold it."""
    told: dict[str, Any] = {
        "rows": table.rows,
        "dropped": table.dropped,
        "features": list(table.features),
        "fingerprint": table.fingerprint,
        "labels": list(loss_of(spec).target.labels(table.y)),
        "targets": 1 if table.y.ndim == 1 else table.y.shape[1],
    }
    if needs_moments(spec):
        present = ~np.isnan(table.dense)
        held = np.where(present, table.dense, 0.0)
        count = present.sum(axis=0)
        mean = held.sum(axis=0) / np.maximum(count, 1)
        # Squares around the site's own mean: the same information as plain sums of squares,
        # without their cancellation.
        squares = (np.where(present, table.dense - mean, 0.0) ** 2).sum(axis=0)
        told |= {"count": count.tolist(), "mean": mean.tolist(), "squares": squares.tolist()}
    return told


@dataclass(frozen=True)
class Agreement:
    """The common ground of an experiment; public, and JSON can hold it."""

    sites: tuple[str, ...]
    rows: tuple[int, ...]
    weights: tuple[float, ...]
    features: tuple[str, ...]
    classes: tuple[Label, ...]
    centre: tuple[float, ...]  # subtracted from the features
    scale: tuple[float, ...]  # and what they are then divided by
    unit: tuple[float, ...]  # the penalty acts on unit * coefficient
    fill: tuple[float, ...]  # for missing values
    targets: tuple[Label, ...]  # what the scores of a row are for

    def to_dict(self) -> dict[str, Any]:
        return {name: list(value) for name, value in asdict(self).items()}

    @classmethod
    def from_dict(cls, held: Mapping[str, Any]) -> "Agreement":
        return cls(**{name: tuple(value) for name, value in held.items()})


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
    target = loss_of(spec).target
    classes = target.merge((summaries[site]["labels"] for site in sites), spec.loss)
    count = len(features)
    centre, scale, unit, fill = np.zeros(count), np.ones(count), np.ones(count), np.zeros(count)
    if needs_moments(spec):
        mean, spread = pooled(features, summaries)
        fill = mean
        if spec.intercept and (spec.standardise or spec.precondition):
            centre = mean  # without an intercept, moving the features would change the model itself
        if spec.standardise:
            scale = spread
        elif rescaled(spec):
            scale = spread if spec.intercept else np.hypot(mean, spread)
            unit = 1 / scale
    return Agreement(
        sites=sites,
        rows=rows,
        weights=tuple(client_weights(spec.weights, rows).tolist()),
        features=features,
        classes=classes,
        centre=tuple(centre.tolist()),
        scale=tuple(scale.tolist()),
        unit=tuple(unit.tolist()),
        fill=tuple(fill.tolist()),
        targets=target.outputs(spec.target, int(first["targets"]), classes),
    )


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


def prepare(table: Table, spec: Spec, agreement: Agreement) -> tuple[np.ndarray, np.ndarray]:
    """A site's examples as the loss takes them; they stay at the site."""
    A = np.where(np.isnan(table.dense), np.asarray(agreement.fill), table.dense)
    A = (A - np.asarray(agreement.centre)) / np.asarray(agreement.scale)
    return A, loss_of(spec).target.encode(table, agreement.classes, spec.loss)


def problem_of(spec: Spec, agreement: Agreement) -> Problem:
    """The public problem: loss, penalty, and a start at zero (or inside the constraints)."""
    outputs = len(agreement.targets)
    shape = (len(agreement.features),) if outputs == 1 else (len(agreement.features), outputs)
    g = penalty(spec, agreement.features, outputs, np.array(agreement.unit))
    x0 = jnp.zeros(shape)
    if spec.intercept:
        x0 = Tree(Coefficients(x0, jnp.zeros(shape[1:])))
    if any(option.is_constraint for option in chosen(spec)):  # which may leave 0 out
        x0 = allowed(g, x0)
    return Problem(g=g, x0=x0, loss=loss_of(spec), batch=spec.batch)


@jax.jit
def allowed(g: Regulariser, x: Point) -> Point:
    """A point in the domain of g, near x."""
    return g.prox(x, 1.0)
