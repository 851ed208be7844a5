"""Every option of a training run, under one name on the command line, in TOML and in Python.

A TOML file is flat: a key is an option, spelt as here. Paths in it start from its own folder.

    sites = ["hospitals/"]
    target = "diagnosis"
    loss = "logistic"
    l1 = 0.01
    box = [-1.0, 1.0]
    group = "groups.csv"            # or a table [group] of feature = "group" at the end of the file
"""

import dataclasses
import math
import os
import tomllib
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from proxfl.options.kinds import (
    FLAG,
    GROUPS,
    INTERVAL,
    NON_NEGATIVE,
    PATHS,
    POSITIVE,
    RADIUS,
    SEED,
    TEXT,
    WEIGHTS,
    WHOLE,
    Rule,
    one_of,
    optional,
)
from proxfl.tables import InputError

Number = float | int
File = str | os.PathLike

SWEPT = ("l1", "group_weight", "nuclear")  # large enough, each leaves an empty model
LOSSES = ("logistic", "squared", "huber", "softmax", "poisson")


def option(rule: Rule, meaning: str, default: Any = dataclasses.MISSING) -> Any:
    """A field with the values it takes and, for help and for sentences, what it is."""
    return dataclasses.field(default=default, metadata={"rule": rule, "meaning": meaning})


@dataclasses.dataclass(frozen=True, kw_only=True)
class Spec:
    """What to train on what, and how; `dataclasses.fields(Spec)` carries the meaning of each.

    A value is held in one form, whatever the form it came in: 1 as 1.0, a list as a tuple.
    """

    sites: Sequence[File] = option(PATHS, "the data files, or folders of them, one per site", ())
    target: str = option(TEXT, "the column to predict")
    missing: str = option(
        one_of("refuse", "drop", "mean"),
        "what to do about missing values: refuse them, drop their rows, or fill in the mean over "
        "all sites",
        "refuse",
    )
    standardise: bool = option(
        FLAG, "whether to scale features to mean 0 and variance 1 over all sites", False
    )
    precondition: bool = option(
        FLAG,
        "whether sites may tell the means and spreads of their features, with which the same model "
        "takes fewer rounds",
        True,
    )
    intercept: bool = option(FLAG, "whether the model has an intercept, never penalised", True)

    loss: str = option(one_of(*LOSSES), "the loss of one row")
    huber_delta: Number = option(POSITIVE, "the residual from which the huber loss is linear", 1.0)
    weights: str = option(
        one_of("samples", "uniform"),
        "how much each site counts: by its rows, which is the pooled objective, or all the same",
        "samples",
    )

    l1: Number = option(NON_NEGATIVE, "the weight of the sum of absolute coefficients", 0.0)
    l2: Number = option(NON_NEGATIVE, "the weight of half the squared norm of coefficients", 0.0)
    feature_weights: File | Mapping[str, Number] | None = option(
        optional(WEIGHTS),
        "factors of l1 by feature, 1 for those left out: a CSV file with columns feature and "
        "weight, or a table",
        None,
    )
    group: File | Mapping[str, str] | None = option(
        optional(GROUPS),
        "the group of each feature, empty for none: a CSV file with columns feature and group, or "
        "a table",
        None,
    )
    group_weight: Number = option(
        NON_NEGATIVE, "the weight of the sum over groups of root of size times norm", 0.0
    )
    nuclear: Number = option(
        NON_NEGATIVE, "the weight of the sum of singular values of a matrix of coefficients", 0.0
    )
    nonneg: bool = option(FLAG, "whether coefficients must be non-negative", False)
    box: Sequence[Number] | None = option(
        optional(INTERVAL), "the interval that every coefficient must lie in", None
    )
    simplex: Number | bool | None = option(
        optional(RADIUS),
        "whether coefficients must be non-negative and sum to 1, or the number they sum to",
        None,
    )

    algorithm: str = option(TEXT, "the method", "decoupled")
    accelerate: bool = option(FLAG, "whether the server step may be accelerated", True)
    local_steps: int = option(WHOLE, "the local steps of a site in a round", 1)
    batch: int | None = option(
        optional(WHOLE), "the rows a site draws for a local step; all, if left out", None
    )
    cohort: int | None = option(
        optional(WHOLE), "the sites drawn for a round; all, if left out", None
    )
    eta: Number | None = option(optional(POSITIVE), "the local step; found, if left out", None)
    eta_g: Number | None = option(optional(POSITIVE), "the server step; found, if left out", None)
    rounds: int = option(WHOLE, "the most rounds to run", 10_000)
    tol: Number = option(POSITIVE, "the optimality at which to stop", 1e-6)
    seed: int = option(SEED, "the seed of every random draw", 0)
    out: File | None = option(optional(TEXT), "the folder for the results", None)

    def __post_init__(self):
        for field in dataclasses.fields(self):
            value = canonical(field.name, getattr(self, field.name))
            object.__setattr__(self, field.name, value)
        refuse_contradictions(self)

    @classmethod
    def from_dict(cls, options: Mapping[str, Any]) -> "Spec":
        """The inverse of `to_dict`; options left out take their defaults."""
        read = {key: canonical(key, value) for key, value in options.items()}
        for field in dataclasses.fields(cls):
            if field.default is dataclasses.MISSING and field.name not in read:
                raise InputError(
                    f"key {field.name!r} is missing; it is {field.metadata['meaning']}."
                )
        return cls(**read)

    @classmethod
    def from_toml(
        cls,
        path: str | os.PathLike,
        given: Mapping[str, Any] | None = None,
        others: Sequence[str] = (),
    ) -> "Spec":
        """The options in a file; those `given` besides, as on a command line, win over it.

        Keys among the `others` are not for the spec.
        """
        path, given = Path(path), {key: canonical(key, v) for key, v in (given or {}).items()}
        try:
            found = read_toml(path)
            held = {key: canonical(key, v) for key, v in found.items() if key not in others}
            held = {key: located(value, key, path.parent) for key, value in held.items()}
            return cls.from_dict({**held, **given})
        except InputError as error:
            raise InputError(f"{path}: {error}") from None

    def to_dict(self) -> dict[str, Any]:
        """Every option, as JSON can hold it: infinite ends of a box are the texts inf and -inf."""
        return {f.name: jsonable(getattr(self, f.name)) for f in dataclasses.fields(self)}


FIELDS = {field.name: field for field in dataclasses.fields(Spec)}
PATH_KEYS = ("sites", "group", "feature_weights", "out")


def known(key: str) -> dataclasses.Field:
    if key in FIELDS:
        return FIELDS[key]
    near = get_close_matches(key.replace("-", "_"), FIELDS, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else f"the keys are {', '.join(FIELDS)}."
    raise InputError(f"there is no key {key!r}; {hint}")


def canonical(key: str, value: Any) -> Any:
    """The value as the option holds it, if there is one and it takes it."""
    return read_option(known(key), value)


def read_option(field: dataclasses.Field, value: Any) -> Any:
    rule: Rule = field.metadata["rule"]
    try:
        return rule.read(value)
    except (TypeError, ValueError):
        raise InputError(
            f"key {field.name!r} must be {rule.words}, got {value!r}; it is "
            f"{field.metadata['meaning']}."
        ) from None


def refuse_contradictions(spec: Spec) -> None:
    """Refuse options that would be ignored, and methods that do not exist."""
    if spec.group is not None and not spec.group_weight:
        raise InputError("key 'group' needs 'group_weight'; set the weight of the group norms.")
    if spec.feature_weights is not None and not spec.l1:
        raise InputError("key 'feature_weights' needs 'l1', which it multiplies; set it.")
    if spec.huber_delta != 1.0 and spec.loss != "huber":
        raise InputError(
            f"key 'huber_delta' means nothing to loss {spec.loss!r}; remove it or use 'huber'."
        )
    if spec.algorithm != "decoupled":
        from proxfl.algorithms import REGISTRY  # JAX loads with it, which help does not wait for

        if spec.algorithm not in REGISTRY:
            near = get_close_matches(spec.algorithm.replace("_", "-"), REGISTRY, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"it is one of {', '.join(REGISTRY)}."
            raise InputError(f"key 'algorithm' names no method, got {spec.algorithm!r}; {hint}")


def read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError:
        raise InputError("the file cannot be read; check the name.") from None
    except UnicodeDecodeError:
        raise InputError("the text is not UTF-8; save it so.") from None
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"this is not TOML: {error}; correct that line.") from None


def located(value: Any, key: str, folder: Path) -> Any:
    """A path that starts from the folder, if the option is a path."""
    if key not in PATH_KEYS or isinstance(value, Mapping) or value is None:
        return value
    return str(folder / value) if isinstance(value, str) else tuple(str(folder / v) for v in value)


def jsonable(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [jsonable(v) for v in value]
    return str(value) if isinstance(value, float) and math.isinf(value) else value


FORMULAS = {
    "logistic": "log(1 + exp(-y z)), where y is -1 or +1, +1 for the larger label",
    "squared": "(z - y)^2 / 2",
    "huber": "(z - y)^2 / 2 up to a residual of {delta:g}, linear beyond it",
    "softmax": "log(sum_k exp(z_k)) - z_y, where z has one score per class",
    "poisson": "exp(z) - y z, where y counts events of mean exp(z)",
}


def describe(spec: Spec) -> str:
    """The objective, as a formula and in words."""
    terms = [
        (spec.l1, "|coef_j|" if spec.feature_weights is None else "weight_j |coef_j|", "sum_j"),
        (spec.group_weight, "sqrt(size_k) |coef_k|", "sum_groups_k"),
        (spec.nuclear, "singular_value_k(coef)", "sum_k"),
    ]
    penalty = [f"{weight:g} {total} {term}" for weight, term, total in terms if weight]
    penalty += [f"{spec.l2:g}/2 |coef|^2"] if spec.l2 else []
    constraints = ["coef >= 0"] if spec.nonneg else []
    constraints += [f"{spec.box[0]:g} <= coef <= {spec.box[1]:g}"] if spec.box else []
    constraints += [f"coef >= 0, sum_j coef_j = {spec.simplex:g}"] if spec.simplex else []
    shift = " + intercept" if spec.intercept else ""
    lines = [
        f"minimise    {' + '.join(['sum_i w_i mean_rows loss(z, y)', *penalty])}",
        *([f"subject to  {', '.join(constraints)}"] if constraints else []),
        f"scores      z = A coef{shift}, for the features A of a row",
        f"loss        {FORMULAS[spec.loss].format(delta=spec.huber_delta)}",
        f"sites       {SITES[spec.weights]}",
        f"features    {STANDARDISED if spec.standardise else 'as they are, not standardised'}",
    ]
    if spec.intercept:
        lines.append("intercept   neither penalised nor constrained")
    return "\n".join(lines)


SITES = {
    "samples": "w_i = rows of site i / rows of all sites: the objective of the pooled data",
    "uniform": "w_i = 1 / number of sites, however many rows each has",
}
STANDARDISED = "mean 0 and variance 1 over all sites; the penalty acts on these coefficients"
