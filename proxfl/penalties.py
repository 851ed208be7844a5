"""From options to the regulariser g of the coefficients.

Coefficients are [features], or [features, outputs] where the model has several scores per row. With
an intercept the point is Tree(Coefficients(coef, intercept)), and g is on the leaf `coef` alone.
A group has all outputs of its features, and counts with the root of its size; without a group
file, each feature of a model with several outputs is a group.
"""

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import reduce
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from proxfl.core import Regulariser
from proxfl.prox import (
    L1,
    Box,
    GroupL2,
    NonNegative,
    Nuclear,
    OnLeaves,
    Simplex,
    SquaredL2,
    Then,
    Zero,
    together,
)
from proxfl.prox.directional import Directional
from proxfl.prox.units import Curve, Ellipsoids
from proxfl.spec import SWEPT, Spec
from proxfl.spec import describe as describe
from proxfl.tables import InputError


def penalty(
    spec: Spec, features: Sequence[str], outputs: int = 1, unit: np.ndarray | None = None
) -> Regulariser:
    """The regulariser of a model's point, which holds an intercept if the spec asks for one.

    With a `unit` for each feature the penalty acts on unit * coefficient.
    """
    spec = read_files(spec)
    g = on_coefficients(spec, features, outputs)
    if unit is not None and rescaled(spec):
        g = in_units(spec, features, outputs, unit)
    return OnLeaves(g, ("coef",)) if spec.intercept else g


def on_coefficients(spec: Spec, features: Sequence[str], outputs: int) -> Regulariser:
    """The sum of the parts asked for, if its prox is known."""
    return sum_of(chosen_parts(spec, features, outputs))


def sum_of(parts: Mapping[str, Regulariser]) -> Regulariser:
    try:
        return together(*parts.values())
    except ValueError:
        keys = [key for key in parts if key != "l2"]
        raise InputError(
            f"{', '.join(keys[:-1])} and {keys[-1]} have no known joint prox; keep one of them, or "
            "one of the pairs l1 and nonneg, l1 and box, l1 and group_weight, group_weight and "
            "nonneg (l2 goes with any)."
        ) from None


def chosen_parts(spec: Spec, features: Sequence[str], outputs: int) -> dict[str, Regulariser]:
    """One regulariser for each option that is set, by its key."""
    parts: dict[str, Regulariser] = {}
    if spec.l1:
        factors = feature_factors(spec.feature_weights, features, outputs)
        parts["l1"] = L1(spec.l1 if factors is None else spec.l1 * factors)
    if spec.group_weight:
        parts["group_weight"] = GroupL2.of(labels(spec, features, outputs), spec.group_weight)
    if spec.nuclear:
        demand_outputs("nuclear", outputs > 1, "needs a model with several outputs")
        parts["nuclear"] = Nuclear(spec.nuclear)
    if spec.simplex:
        demand_outputs("simplex", outputs == 1, "needs a model with one output")
        parts["simplex"] = Simplex(spec.simplex)
    if spec.box is not None:
        parts["box"] = box(spec)
    elif spec.nonneg and not spec.simplex:  # which has it
        parts["nonneg"] = NonNegative()
    if spec.l2:
        parts["l2"] = SquaredL2(spec.l2)
    return parts


def rescaled(spec: Spec) -> bool:
    """Whether features get units of their own, in which the penalty's prox must then be known."""
    known = not spec.nuclear and not spec.simplex
    return spec.precondition and not spec.standardise and known


def in_units(spec: Spec, features: Sequence[str], outputs: int, unit: np.ndarray) -> Regulariser:
    """The same penalty as a function of coefficients c / unit, for any that may be `rescaled`."""
    plain, unit = chosen_parts(spec, features, outputs), repeated(unit, outputs)
    curve = spec.l2 * unit**2
    parts: list[Directional] = []
    if isinstance(l1 := plain.get("l1"), L1):
        parts.append(L1(l1.weight * unit))
    if spec.l2 and "group_weight" not in plain:
        parts.append(Curve(curve))
    if isinstance(interval := plain.get("box"), Box):
        parts.append(Box.of(interval.lo / unit, interval.hi / unit))
    if isinstance(positive := plain.get("nonneg"), NonNegative):
        parts.append(positive)
    if isinstance(groups := plain.get("group_weight"), GroupL2):
        parts.append(Ellipsoids(groups.labels, groups.factors, unit, curve, groups.weight))
    return reduce(Then, parts) if parts else Zero()


def demand_outputs(key: str, holds: bool, words: str) -> None:
    if not holds:
        raise InputError(f"key {key!r} {words}; remove it, or change the loss.")


def box(spec: Spec) -> Box:
    """The box, or the part of it that is not negative."""
    lo, hi = spec.box or (-np.inf, np.inf)
    if spec.nonneg and hi < 0:
        raise InputError(f"key 'box' ends at {hi:g} and 'nonneg' leaves nothing of it; drop one.")
    return Box.of(max(lo, 0.0) if spec.nonneg else lo, hi)


def feature_factors(table: Any, features: Sequence[str], outputs: int) -> np.ndarray | None:
    """One factor per coefficient, 1 for features the table leaves out."""
    if table is None:
        return None
    refuse_unknown("feature_weights", table, features)
    return repeated(np.array([table.get(name, 1.0) for name in features]), outputs)


def labels(spec: Spec, features: Sequence[str], outputs: int) -> np.ndarray:
    """The number of each coefficient's group, -1 for none."""
    if spec.group is None:
        demand_outputs("group_weight", outputs > 1, "needs 'group' if the model has one output")
        return repeated(np.arange(len(features)), outputs)
    table: Any = spec.group
    refuse_unknown("group", table, features)
    lacking = [name for name in features if name not in table]
    if lacking:
        raise InputError(
            f"key 'group' gives no group to {lacking[0]!r} ({len(lacking)} such in all); add it, "
            "with an empty group to leave it unpenalised."
        )
    names = sorted({group for name in features if (group := table[name])})
    numbers = {"": -1} | {group: k for k, group in enumerate(names)}
    return repeated(np.array([numbers[table[name]] for name in features]), outputs)


def repeated(by_feature: np.ndarray, outputs: int) -> np.ndarray:
    return by_feature if outputs == 1 else np.repeat(by_feature[:, None], outputs, axis=1)


def refuse_unknown(key: str, table: Mapping[str, Any], features: Sequence[str]) -> None:
    unknown = sorted(set(table) - set(features))
    if unknown:
        near = get_close_matches(unknown[0], features, n=1)
        hint = f"did you mean {near[0]!r}?" if near else "remove it or check the data."
        raise InputError(f"key {key!r} names {unknown[0]!r}, which is no feature; {hint}")


def read_files(spec: Spec) -> Spec:
    """The same options with the content of their files in place of paths, as a manifest wants."""
    group, factors = spec.group, spec.feature_weights
    if isinstance(group, str):
        group = read_table(Path(group), "group")
    if isinstance(factors, str):
        path = Path(factors)
        factors = {name: as_weight(path, name, v) for name, v in read_table(path, "weight").items()}
    return replace(spec, group=group, feature_weights=factors)


def read_table(path: Path, column: str) -> dict[str, str]:
    """A CSV file with the columns `feature` and the one named."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = csv.DictReader(file, skipinitialspace=True)
            if not {"feature", column} <= set(rows.fieldnames or ()):
                raise InputError(f"{path}: the first line must name feature and {column}; add it.")
            pairs = [(row["feature"], (row[column] or "").strip()) for row in rows]
    except (OSError, UnicodeDecodeError, csv.Error):
        raise InputError(f"{path}: this cannot be read as CSV; check the file.") from None
    table = dict(pairs)
    if len(table) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"{path}: feature {twice!r} has more than one line; keep one.")
    return table


def as_weight(path: Path, name: str, text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = np.nan
    if not 0 <= found < np.inf:
        raise InputError(
            f"{path}: the weight of {name!r} must be a non-negative number, got {text!r}; "
            "0 leaves it unpenalised."
        )
    return found


def largest_useful_weight(
    key: str, spec: Spec, features: Sequence[str], gradient: np.ndarray
) -> float:
    """The smallest weight under `key`, all else as in the spec, that leaves no coefficient.

    `gradient` is that of the loss in the coefficients where they are zero, with the intercept, and
    the coefficients that nothing penalises, at their best. For one penalty the answer is its dual
    norm: over the features |gradient_j| / factor_j for l1, over the groups |gradient_k| /
    sqrt(size_k), or the largest singular value. It is 0 if the rest of the penalty does the same.
    """
    if key not in SWEPT:
        raise InputError(f"a path runs along one of {', '.join(SWEPT)}, got {key!r}; choose one.")
    spec, outputs = read_files(spec), 1 if gradient.ndim == 1 else gradient.shape[1]
    parts = chosen_parts(replace(spec, **{key: 1.0}), features, outputs)
    if key == "nuclear":
        sum_of(parts)
        return float(np.linalg.norm(gradient, 2))
    swept: Any = parts[key]  # its weight is 1, but for the factors of features
    penalised = np.asarray(swept.prox(jnp.ones(gradient.shape), 0.5)) != 1
    down = jnp.asarray(-gradient)

    def empties(weight: float) -> bool:
        """Whether 0 is optimal, that is, the prox of one step down from 0."""
        g = sum_of(parts | {key: replace(swept, weight=weight * swept.weight)})
        return not np.any(np.asarray(g.prox(down, 1.0))[penalised])

    return smallest(empties, float(np.max(np.abs(gradient))) or 1.0)


def smallest(holds: Callable[[float], bool], guess: float) -> float:
    """The least number from which on the condition holds, to a relative 2^-52 of the guess."""
    most = next((guess * 2.0**k for k in range(100) if holds(guess * 2.0**k)), None)
    if most is None:
        raise InputError("no weight leaves an empty model; the constraint must allow it, check it.")
    least = 0.0
    while most - least > 2.0**-52 * max(most, guess):
        middle = (least + most) / 2
        least, most = (least, middle) if holds(middle) else (middle, most)
    return most if least else 0.0
