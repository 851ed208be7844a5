"""Losses of linear models: each is one file, which says all there is to know about it.

A loss is of a site: one number for the scores of all its rows. Most are sums over rows, and are
defined by one row (`rowwise.py`); in Cox's, rows are compared with one another.
"""

import abc
import dataclasses
import functools
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, dataclass_transform

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from proxfl.losses.base import Loss
from proxfl.losses.centring import Pair
from proxfl.losses.targets import Target
from proxfl.options import Kind, Option
from proxfl.points import Point, Scalar, Tree

# The losses that have a name, by it; defining one enters it.
REGISTRY: dict[str, type["Linear"]] = {}

Scores = Float[Array, " rows *outputs"]
Weights = Float[Array, " rows"]


class Coefficients(NamedTuple):
    """A linear model with an intercept, which a regulariser can then leave alone."""

    coef: Float[Array, " cols"] | Float[Array, "cols outputs"]
    intercept: Float[Array, ""] | Float[Array, " outputs"]


def scores_at(x: Point, batch: Any) -> Scores:
    """What the linear model x says of each row of (A, y) or (A, y, offset), before any link."""
    A, _, *offset = batch
    if isinstance(x, Tree):
        coef, intercept = x.params
        z = jax.vmap(lambda z: z + intercept)(A @ coef)
    else:
        z = A @ x
    return z + offset[0] if offset else z


def augmented(A: Any, features: Int[Array, " some"], x: Point) -> Float[Array, " rows some"]:
    """Some columns of A; the one after the last is that of the intercept, if x has one."""
    B = A.take(features, axis=1, mode="fill", fill_value=0.0)
    if isinstance(x, Tree):
        B = B + (features == A.shape[1]).astype(B.dtype)[None, :]
    return B


def coef_of(x: Point) -> Any:
    """The coefficients of a linear model, without its intercept."""
    return x.params.coef if isinstance(x, Tree) else x


def setting(kind: Kind, meaning: str, default: Any) -> Any:
    """A field of a loss that users may set: an option, whose key begins with the loss's name."""
    return dataclasses.field(default=default, metadata={"kind": kind, "meaning": meaning})


@dataclass_transform(frozen_default=True, field_specifiers=(setting,))
class Linear(Loss):
    """A loss of the scores z = A coef (+ intercept) (+ offset) of a site's rows.

    A class that is not abstract (has no `abc.ABC` among its bases) becomes a frozen dataclass,
    whose `setting` fields are its options, and goes into the registry; it must leave nothing out.
    """

    name: ClassVar[str]
    formula: ClassVar[str]  # of one row, with its settings in braces
    target: ClassVar[Target]
    takes_intercept: ClassVar[bool] = True
    ignores_shifts: ClassVar[bool] = False  # whether a number added to all scores changes nothing
    only_differences: ClassVar[bool] = False  # the same of a number added to all scores of one row
    log_link: ClassVar[bool] = False  # whether scores are logs of means, so that exposure counts
    has_dual: ClassVar[bool] = False  # whether `imbalance` and `dual` are known
    kinked: ClassVar[bool] = False  # whether the slope bends at some score
    has_survival: ClassVar[bool] = False  # whether sites are asked for `survival`
    ignores_padding = True
    # Whether it is minus a log-likelihood, for standard errors: "exact", "scaled" by a dispersion
    # that the residuals give, "partial" if rows are no terms of their own, or None.
    likelihood: ClassVar[str | None] = None
    ratio: ClassVar[str | None] = None  # what exp of a coefficient is called, if it has a name
    facts: ClassVar[tuple[str, ...]] = ("name", "formula", "curvature", "convex", "target")

    @abc.abstractmethod
    def at(self, z: Scores, y: Any, weights: Weights) -> Scalar:
        """The loss of a site whose rows have these scores."""

    @abc.abstractmethod
    def slopes(self, z: Scores, y: Any, weights: Weights) -> Scores:
        """The derivative of `at` in z; exactly 0 for rows of weight zero, whatever they hold."""

    @staticmethod
    @abc.abstractmethod
    def mean(z: np.ndarray) -> np.ndarray:
        """What scores say of y: its mean, or the probability of each class, in columns."""

    @abc.abstractmethod
    def influence(self, z: Scores, y: Any, weights: Weights) -> Weights:
        """How much each row weighs in differences of gradients near these scores: the absolute
        second derivative of `at` in its own."""

    def level(self, z: Scores, y: Any, weights: Weights) -> Scalar:
        """What a site whose rows have these scores adds to them by itself."""
        return jnp.zeros((), z.dtype)

    @property
    def of_new_rows(self) -> "Linear":
        """The loss of rows that a site has not trained on, whose scores have its level added."""
        return self

    def exists(self, z: Scores, y: Any, weights: Weights) -> Any:
        """Whether a site with these scores has a level."""
        return jnp.asarray(True)

    def imbalance(self, z: Scores, y: Any, weights: Weights) -> Pair:
        """What a site tells of the mean of its slopes; see `centring.py`."""
        raise NotImplementedError

    def dual(
        self, z: Scores, y: Any, weights: Weights, scale: Scalar, correction: Pair | None = None
    ) -> tuple[Scalar, Scores]:
        """A bound from above on the conjugate of scale * u, and u: the slopes at z, corrected."""
        raise NotImplementedError

    def of_rows(self, z: Scores, y: Any, counts: Weights) -> tuple[Scalar, Scalar]:
        """The sum over rows that count so often, and how much it is above the least it could be."""
        rows = jnp.sum(counts)
        share = counts / jnp.where(rows > 0, rows, 1.0)
        value = self.at(z, y, share)
        # Where the slopes are 0 a loss is least, and minus its conjugate.
        least = -self.dual(z, y, share, jnp.zeros((), z.dtype))[0]
        return rows * value, rows * (value - least)

    def survival(self, z: Scores, y: Any, weights: Weights) -> dict[str, Any]:
        """What a site tells of a model that is trained, beside its loss."""
        return {}

    def refuse_counts(self, given: bool) -> None:
        """Raise InputError if rows cannot count more or less than others with these settings."""

    def __init_subclass__(cls, **options: Any):
        super().__init_subclass__(**options)
        if abc.ABC in cls.__bases__:
            return
        methods = {m for base in cls.__mro__[1:] for m in getattr(base, "__abstractmethods__", ())}
        lacking = [fact for fact in cls.facts if not hasattr(cls, fact)]
        lacking += sorted(m for m in methods if is_abstract(getattr(cls, m)))
        if lacking:
            raise TypeError(f"loss {cls.__name__} leaves out {', '.join(lacking)}; define it.")
        dataclasses.dataclass(frozen=True)(cls)
        odd = [f.name for f in fields_of(cls) if "kind" not in f.metadata]
        if odd:
            raise TypeError(f"loss {cls.__name__} has a field {odd[0]!r}; make it a setting(...).")
        kinds = [base for base in cls.__mro__[1:] if abc.ABC in base.__bases__]
        parts = set(cls.facts).union(*map(dir, kinds))
        taken = [f.name for f in fields_of(cls) if f.name in parts]
        if taken:
            raise TypeError(
                f"loss {cls.__name__} has a setting {taken[0]!r}, the name of what every loss "
                "has; choose another."
            )
        if REGISTRY.get(cls.name, cls).__module__ != cls.__module__:
            raise TypeError(f"there is a loss {cls.name!r} already; choose another name.")
        REGISTRY[cls.name] = cls

    def __post_init__(self):
        for key, option in self.options().items():
            try:
                object.__setattr__(self, key, option.kind.read(getattr(self, key)))
            except (TypeError, ValueError):
                where, given = f"{type(self).__name__}.{key}", getattr(self, key)
                raise ValueError(f"{where} must be {option.kind.words}, got {given!r}.") from None

    @classmethod
    def options(cls) -> Mapping[str, Option]:
        """What users may set, by field."""
        return options_of(cls)

    @property
    def settings(self) -> dict[str, Any]:
        """What it was given of its options, by field."""
        return {name: getattr(self, name) for name in self.options()}

    @property
    def described(self) -> str:
        return self.formula.format(**vars(self))

    def check(self, y: Any) -> str | None:
        """A sentence on what is wrong with these labels; None if nothing is."""
        return self.target.complaint(y, type(self).__name__)

    def complaint(self, x, examples):
        y = jax.tree.map(np.asarray, examples[1])
        return self.check(y) or self.target.misfit(y, coef_of(x), type(self).__name__)

    def total(self, x, batch, weights):
        return self.at(scores_at(x, batch), batch[1], weights)

    def gradient(self, x, batch, weights):
        A, pull = batch[0], self.slopes(scores_at(x, batch), batch[1], weights)
        if isinstance(x, Tree):
            return Tree(Coefficients(A.T @ pull, jnp.sum(pull, axis=0)))
        return A.T @ pull


@functools.cache
def options_of(kind: type[Linear]) -> Mapping[str, Option]:
    option = lambda f: Option(
        f"{kind.name}_{f.name}", f.metadata["kind"], f.metadata["meaning"], f.default
    )
    return MappingProxyType({f.name: option(f) for f in fields_of(kind)})


def fields_of(loss: Any) -> tuple[dataclasses.Field, ...]:
    return dataclasses.fields(loss)


def is_abstract(method: Any) -> bool:
    return getattr(method, "__isabstractmethod__", False)
