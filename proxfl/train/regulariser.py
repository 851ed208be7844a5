"""From options to the regulariser g of the coefficients.

Coefficients are [features], or [features, outputs] where the model has several scores per row. With
an intercept the point is Tree(Coefficients(coef, intercept)), and g is on the leaf `coef` alone.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Any

import jax.numpy as jnp
import numpy as np

from proxfl.core import Regulariser
from proxfl.errors import InputError
from proxfl.prox import OnLeaves, SquaredL2, together
from proxfl.prox.together import NoJointProx
from proxfl.train.penalties import REGISTRY, chosen, swept
from proxfl.train.penalties.by_feature import repeated
from proxfl.train.spec import Spec

NO_START = "no weight leaves an empty model; the constraint must allow it, check it."


def penalty(
    spec: Spec, features: Sequence[str], outputs: int = 1, unit: np.ndarray | None = None
) -> Regulariser:
    """The regulariser of a model's point, which holds an intercept if the spec asks for one.

    With a `unit` for each feature the penalty acts on unit * coefficient.
    """
    spec = spec.read_files()
    parts = chosen_parts(spec, features, outputs)
    g = sum_of(parts)
    if unit is not None and rescaled(spec):
        change: Any = {key: REGISTRY[key].in_units for key in parts}
        by = repeated(unit, outputs)
        g = sum_of({key: change[key](part, by) for key, part in parts.items()})
    return OnLeaves(g, ("coef",)) if spec.intercept else g


def on_coefficients(spec: Spec, features: Sequence[str], outputs: int) -> Regulariser:
    """The sum of the parts asked for, if its prox is known."""
    return sum_of(chosen_parts(spec, features, outputs))


def chosen_parts(spec: Spec, features: Sequence[str], outputs: int) -> dict[str, Regulariser]:
    """One regulariser for each option that is set, by its key."""
    return {option.key: option.make(spec, features, outputs) for option in chosen(spec)}


def sum_of(parts: Mapping[str, Regulariser]) -> Regulariser:
    try:
        return together(*parts.values())
    except NoJointProx:
        keys = [key for key, g in parts.items() if not isinstance(g, SquaredL2)]
        pairs = [f"{a} and {b}" for a, b in combinations(keys, 2) if goes(parts[a], parts[b])]
        more = f", or the pair {', or '.join(pairs)}" if pairs else ""
        raise InputError(
            f"{', '.join(keys[:-1])} and {keys[-1]} have no known joint prox; keep one of them"
            f"{more}."
        ) from None
    except ValueError as error:
        raise InputError(f"{' and '.join(parts)} cannot be had together: {error}") from None


def goes(*parts: Regulariser) -> bool:
    try:
        together(*parts)
    except ValueError:
        return False
    return True


def rescaled(spec: Spec) -> bool:
    """Whether features get units of their own, in which the penalty's prox must then be known."""
    known = all(option.in_units is not None for option in chosen(spec))
    return spec.precondition and not spec.standardise and known


def largest_useful_weight(
    key: str, spec: Spec, features: Sequence[str], gradient: np.ndarray
) -> float:
    """The smallest weight under `key`, all else as in the spec, that leaves no coefficient.

    `gradient` is that of the loss in the coefficients where they are zero, with the intercept, and
    the coefficients that nothing penalises, at their best. For one penalty the answer is its dual
    norm: over the features |gradient_j| / factor_j for l1, over the groups |gradient_k| /
    sqrt(size_k), or the largest singular value. It is 0 if the rest of the penalty does the same.
    """
    sweep = REGISTRY[key].sweep if key in REGISTRY else None
    if sweep is None:
        raise InputError(f"a path runs along one of {', '.join(swept())}, got {key!r}; choose one.")
    spec, outputs = spec.read_files(), 1 if gradient.ndim == 1 else gradient.shape[1]
    at = lambda weight: chosen_parts(spec.replace(**{key: weight}), features, outputs)
    ones = at(1.0)
    sum_of(ones)
    if sweep.dual_norm is not None:
        return sweep.dual_norm(gradient)
    penalised = np.asarray(ones[key].prox(jnp.ones(gradient.shape), 0.5)) != 1
    down = jnp.asarray(-gradient)

    def empties(weight: float) -> bool:
        """Whether 0 is optimal, that is, the prox of one step down from 0."""
        return not np.any(np.asarray(sum_of(at(weight)).prox(down, 1.0))[penalised])

    return smallest(empties, float(np.max(np.abs(gradient))) or 1.0)


def refuse_path_without_start(key: str, spec: Spec, features: Sequence[str], outputs: int) -> None:
    """Refuse a path that cannot start at the empty model, before anybody is asked."""
    parts = chosen_parts(spec.read_files().replace(**{key: 1.0}), features, outputs)
    shape = (len(features),) if outputs == 1 else (len(features), outputs)
    if np.any(np.asarray(sum_of(parts).prox(jnp.zeros(shape), 1.0))):
        raise InputError(NO_START)


def smallest(holds: Callable[[float], bool], guess: float) -> float:
    """The least number from which on the condition holds, to a relative 2^-52 of the guess."""
    most = next((guess * 2.0**k for k in range(100) if holds(guess * 2.0**k)), None)
    if most is None:
        raise InputError(NO_START)
    least = 0.0
    while most - least > 2.0**-52 * max(most, guess):
        middle = (least + most) / 2
        least, most = (least, middle) if holds(middle) else (middle, most)
    return most if least else 0.0
