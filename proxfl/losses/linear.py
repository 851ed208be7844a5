"""Losses of linear models: each is one file, which says all there is to know about it."""

import abc
import dataclasses
from typing import Any, ClassVar, NamedTuple, dataclass_transform

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from proxfl.losses.base import RowLoss
from proxfl.losses.centring import Centring
from proxfl.losses.targets import Target
from proxfl.options import Kind, Option
from proxfl.points import Point, Tree

# The losses that have a name, by it; defining one enters it.
REGISTRY: dict[str, type["Linear"]] = {}


class Coefficients(NamedTuple):
    """A linear model with an intercept, which a regulariser can then leave alone."""

    coef: Float[Array, " cols"] | Float[Array, "cols outputs"]
    intercept: Float[Array, ""] | Float[Array, " outputs"]


def scores(x: Point, A: Any) -> Float[Array, " rows *outputs"]:
    """What the linear model x predicts for each row, before any link function."""
    if isinstance(x, Tree):
        coef, intercept = x.params
        return jax.vmap(lambda z: z + intercept)(A @ coef)
    return A @ x


def coef_of(x: Point) -> Any:
    """The coefficients of a linear model, without its intercept."""
    return x.params.coef if isinstance(x, Tree) else x


def setting(kind: Kind, meaning: str, default: Any) -> Any:
    """A field of a loss that users may set: an option, whose key begins with the loss's name."""
    return dataclasses.field(default=default, metadata={"kind": kind, "meaning": meaning})


@dataclass_transform(frozen_default=True, field_specifiers=(setting,))
class Linear(RowLoss):
    """A loss of the scores z = A coef (+ intercept); a batch is (A, y).

    `value` and `slope` speak of one row, whose score is a scalar or one number per output. A class
    that is not abstract (has no `abc.ABC` among its bases) becomes a frozen dataclass, whose
    `setting` fields are its options, and goes into the registry; it must leave nothing out.
    """

    name: ClassVar[str]
    formula: ClassVar[str]  # of one row, with its settings in braces
    target: ClassVar[Target]
    ignores_padding = True
    facts: ClassVar[tuple[str, ...]] = ("name", "formula", "curvature", "convex", "target")

    @abc.abstractmethod
    def value(self, z: Float[Array, "*outputs"], y: Any) -> Float[Array, ""]: ...

    @abc.abstractmethod
    def slope(self, z: Float[Array, "*outputs"], y: Any) -> Float[Array, "*outputs"]:
        """The derivative of `value` in z."""

    @staticmethod
    @abc.abstractmethod
    def mean(z: np.ndarray) -> np.ndarray:
        """What scores say of y: its mean, or the probability of each class, in columns."""

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
    def options(cls) -> dict[str, Option]:
        """What users may set, by field."""
        return {
            f.name: Option(
                f"{cls.name}_{f.name}", f.metadata["kind"], f.metadata["meaning"], f.default
            )
            for f in fields_of(cls)
        }

    @property
    def described(self) -> str:
        return self.formula.format(**vars(self))

    def check(self, y: np.ndarray) -> str | None:
        """A sentence on what is wrong with these labels; None if nothing is."""
        if np.all(self.target.accepts(y)):
            return None
        name, words, values = type(self).__name__, self.target.words, np.unique(y)
        few = ", ".join(str(v.item()) for v in values[:5]) + (", ..." if len(values) > 5 else "")
        return f"{name} labels must be {words}, got values {{{few}}}; {self.target.remedy}."

    def complaint(self, x, examples):
        y = np.asarray(examples[1])
        return self.check(y) or self.target.misfit(y, coef_of(x), type(self).__name__)

    def __call__(self, x, batch):
        A, y = batch
        return jax.vmap(self.value)(scores(x, A), y)

    def gradient(self, x, batch, weights):
        A, y = batch
        slope = jax.vmap(self.slope)(scores(x, A), y)
        # Not just weight * slope: a slope that overflowed in an ignored row would give 0 * inf.
        pull = jax.vmap(lambda w, s: jnp.where(w == 0, 0.0, w * s))(weights, slope)
        if isinstance(x, Tree):
            return Tree(Coefficients(A.T @ pull, jnp.sum(pull, axis=0)))
        return A.T @ pull


class Convex(Linear, abc.ABC):
    """A loss that is convex in the scores, and so has a dual; see `centring.py`."""

    convex = True
    centring: ClassVar[Centring]
    facts = (*Linear.facts, "centring")

    @abc.abstractmethod
    def second(self, z: Float[Array, "*outputs"], y: Any) -> Float[Array, "..."]:
        """The second derivative of `value` in z: a number, or a matrix for several outputs."""

    @abc.abstractmethod
    def conjugate(self, u: Float[Array, "*outputs"], y: Any) -> Float[Array, ""]:
        """max_z u z - value(z, y), for a slope u in its domain."""


def fields_of(loss: Any) -> tuple[dataclasses.Field, ...]:
    return dataclasses.fields(loss)


def is_abstract(method: Any) -> bool:
    return getattr(method, "__isabstractmethod__", False)


def each_alone(second: Float[Array, "*outputs"]) -> Float[Array, "..."]:
    """The second derivative of a sum over outputs, from that of each."""
    return jnp.diag(second) if second.ndim else second
