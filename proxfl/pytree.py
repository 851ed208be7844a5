"""Frozen dataclasses that JAX sees through, whose fields say what values they accept.

Fields are leaves (traced, swept, differentiated) unless declared `static()`. A field may carry a
rule, which holds from construction on: a broken one raises ValueError in a sentence. JAX takes
these objects apart and rebuilds them with tracers, and with its own markers, inside; rebuilding
therefore goes past the constructor.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, dataclass_transform

import jax
import jax.core
import numpy as np

T = TypeVar("T")


class Condition(NamedTuple):
    """A condition on a field's value, and the words for it."""

    words: str
    holds: Callable[[np.ndarray], bool]


POSITIVE = Condition("positive and finite", lambda v: bool((np.isfinite(v) & (v > 0)).all()))
NON_NEGATIVE = Condition(
    "non-negative and finite", lambda v: bool((np.isfinite(v) & (v >= 0)).all())
)
FRACTION = Condition("between 0 and 1", lambda v: bool(((v >= 0) & (v <= 1)).all()))


def leaf(*, default: Any = dataclasses.MISSING, rule: Condition | None = None) -> Any:
    """A field that is data to the program: changing it compiles nothing."""
    return dataclasses.field(default=default, metadata={"rule": rule})


def positive(*, default: Any = dataclasses.MISSING) -> Any:
    return leaf(default=default, rule=POSITIVE)


def non_negative(*, default: Any = dataclasses.MISSING) -> Any:
    return leaf(default=default, rule=NON_NEGATIVE)


def fraction(*, default: Any = dataclasses.MISSING) -> Any:
    return leaf(default=default, rule=FRACTION)


def static(*, default: Any = dataclasses.MISSING, rule: Condition | None = None) -> Any:
    """A field that is part of the program: changing it compiles anew."""
    return dataclasses.field(default=default, metadata={"static": True, "rule": rule})


def count(*, default: Any = dataclasses.MISSING, least: int = 1) -> Any:
    """A static whole number of at least 1, or more."""
    holds = lambda v: v.dtype.kind in "iu" and bool(v >= least)
    return static(default=default, rule=Condition(f"a whole number of at least {least}", holds))


def choice(*others: str, default: str) -> Any:
    """A static name out of a few."""
    names = (default, *others)
    rule = Condition(f"one of {', '.join(names)}", lambda v: v.item() in names)
    return static(default=default, rule=rule)


@dataclass_transform(
    frozen_default=True,
    field_specifiers=(leaf, positive, non_negative, fraction, static, count, choice),
)
def pytree(cls: type[T]) -> type[T]:
    """Make `cls` a frozen dataclass whose rules are kept, and register it with JAX."""
    cls.__post_init__ = keep_rules  # type: ignore[attr-defined]
    frozen: Any = dataclasses.dataclass(frozen=True)(cls)
    fields = dataclasses.fields(frozen)
    dynamic = [f.name for f in fields if not f.metadata.get("static")]
    fixed = [f.name for f in fields if f.metadata.get("static")]

    def flatten(obj):
        return [getattr(obj, name) for name in dynamic], tuple(getattr(obj, n) for n in fixed)

    def flatten_with_keys(obj):
        leaves, aux = flatten(obj)
        keys = map(jax.tree_util.GetAttrKey, dynamic)
        return list(zip(keys, leaves, strict=True)), aux

    def unflatten(aux, leaves):
        obj = object.__new__(frozen)
        for name, value in zip(dynamic + fixed, (*leaves, *aux), strict=True):
            object.__setattr__(obj, name, value)
        return obj

    jax.tree_util.register_pytree_with_keys(frozen, flatten_with_keys, unflatten, flatten)
    return frozen


def keep_rules(self: Any) -> None:
    """Runs after a constructor; values known only to a traced program are left alone."""
    for field in dataclasses.fields(self):
        value, rule = getattr(self, field.name), field.metadata.get("rule")
        if rule is None or isinstance(value, jax.core.Tracer):
            continue
        if not rule.holds(np.asarray(value)):
            name = f"{type(self).__name__}.{field.name}"
            raise ValueError(f"{name} must be {rule.words}, got {value!r}.")
        if isinstance(value, int) and not field.metadata.get("static"):
            object.__setattr__(self, field.name, float(value))  # 4 and 4.0 are one program
