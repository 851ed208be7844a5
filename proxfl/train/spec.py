"""Every option of a training run, under one name on the command line, in TOML and in Python.

A TOML file is flat: a key is an option, spelt as here. Paths in it start from its own folder.

    sites = ["hospitals/"]
    target = "diagnosis"
    loss = "logistic"
    l1 = 0.01
    box = [-1.0, 1.0]
    group = "groups.csv"            # or a table [group] of feature = "group" at the end of the file
"""

import os
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from proxfl import losses, plugins
from proxfl.algorithms import REGISTRY as ALGORITHMS
from proxfl.errors import InputError
from proxfl.losses import Linear
from proxfl.options import Option, Options
from proxfl.options.kinds import (
    FLAG,
    PATH,
    PATHS,
    POSITIVE_NUMBER,
    TEXT,
    one_of,
    optional,
    whole,
)
from proxfl.options.option import by_key, known
from proxfl.train import penalties

DATA = (
    Option("sites", PATHS, "the data files, or folders of them, one per site", ()),
    Option("target", TEXT, "the column to predict"),
    Option(
        "missing",
        one_of("refuse", "drop", "mean"),
        "what to do about missing values: refuse them, drop their rows, or fill in the mean over "
        "all sites",
        "refuse",
    ),
    Option(
        "standardise",
        FLAG,
        "whether to scale features to mean 0 and variance 1 over all sites",
        False,
    ),
    Option(
        "precondition",
        FLAG,
        "whether sites may tell the means and spreads of their features, with which the same model "
        "takes fewer rounds",
        True,
    ),
    Option("intercept", FLAG, "whether the model has an intercept, never penalised", True),
)
METHOD = (
    Option("algorithm", one_of(*ALGORITHMS), "the method", "decoupled"),
    Option("accelerate", FLAG, "whether the server step may be accelerated", True),
    Option("local_steps", whole(1), "the local steps of a site in a round", 1),
    Option(
        "batch",
        optional(whole(1)),
        "the rows a site draws for a local step; all, if left out",
        None,
    ),
    Option("cohort", optional(whole(1)), "the sites drawn for a round; all, if left out", None),
    Option("eta", optional(POSITIVE_NUMBER), "the local step; found, if left out", None),
    Option("eta_g", optional(POSITIVE_NUMBER), "the server step; found, if left out", None),
    Option("rounds", whole(1), "the most rounds to run", 10_000),
    Option("tol", POSITIVE_NUMBER, "the optimality at which to stop", 1e-6),
    Option("seed", whole(0), "the seed of every random draw", 0),
    Option("out", optional(PATH), "the folder for the results", None),
)


def convex_losses() -> dict[str, type[Linear]]:
    """Those that can be trained: a certificate is that of a least objective."""
    plugins.load()
    return {name: kind for name, kind in losses.REGISTRY.items() if kind.convex}


def sections() -> dict[str, list[Option]]:
    """The options there are, under the headings of a help text."""
    kinds = convex_losses()
    return {
        "data": [*DATA],
        "loss": [
            Option("loss", one_of(*kinds), "the loss of one row"),
            *(option for kind in kinds.values() for option in kind.options().values()),
            Option(
                "weights",
                one_of("samples", "uniform"),
                "how much each site counts: by its rows, which is the pooled objective, or all the "
                "same",
                "samples",
            ),
        ],
        "penalties": [o for penalty in penalties.REGISTRY.values() for o in penalty.options],
        "method": [*METHOD],
    }


class Spec(Options):
    """What to train on what, and how; `Spec.table()` has the meaning of each option."""

    @classmethod
    def table(cls) -> dict[str, Option]:
        return by_key(option for section in sections().values() for option in section)

    @classmethod
    def from_dict(cls, options: Mapping[str, Any]) -> "Spec":
        """The inverse of `to_dict`; options left out take their defaults."""
        return cls(**options)

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
        path, table = Path(path), cls.table()
        given = {key: known(table, key).read(value) for key, value in (given or {}).items()}
        try:
            found = {key: v for key, v in read_toml(path).items() if key not in others}
            held = {key: located(known(table, key), v, path.parent) for key, v in found.items()}
            return cls(**held | given)
        except InputError as error:
            raise InputError(f"{path}: {error}") from None

    def check(self) -> None:
        for penalty in penalties.REGISTRY.values():
            penalty.check(self)
        for name, kind in convex_losses().items():
            for option in kind.options().values():
                if name != self.loss and getattr(self, option.key) != option.default:
                    raise InputError(
                        f"key {option.key!r} means nothing to loss {self.loss!r}; remove it or use "
                        f"{name!r}."
                    )


def read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError:
        raise InputError("the file cannot be read; check the name.") from None
    except UnicodeDecodeError:
        raise InputError("the text is not UTF-8; save it so.") from None
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"this is not TOML: {error}; correct that line.") from None


def located(option: Option, value: Any, folder: Path) -> Any:
    """The value of an option; if that is a path, one that starts from the folder."""
    value = option.read(value)
    if not option.kind.is_path or isinstance(value, Mapping) or value is None:
        return value
    return str(folder / value) if isinstance(value, str) else tuple(str(folder / v) for v in value)


def loss_of(spec: Spec) -> Linear:
    kind = losses.named(spec.loss)
    return kind(**{field: getattr(spec, o.key) for field, o in kind.options().items()})


def describe(spec: Spec) -> str:
    """The objective, as a formula and in words."""
    chosen = penalties.chosen(spec)
    terms = [penalty.formula(spec) for penalty in chosen if not penalty.is_constraint]
    constraints = [penalty.formula(spec) for penalty in chosen if penalty.is_constraint]
    shift = " + intercept" if spec.intercept else ""
    lines = [
        f"minimise    {' + '.join(['sum_i w_i mean_rows loss(z, y)', *terms])}",
        *([f"subject to  {', '.join(constraints)}"] if constraints else []),
        f"scores      z = A coef{shift}, for the features A of a row",
        f"loss        {loss_of(spec).described}",
        f"sites       {SITES[spec.weights]}",
        f"features    {STANDARDISED if spec.standardise else 'as they are, not standardised'}",
    ]
    if spec.intercept:
        lines.append("intercept   neither penalised nor constrained")
    return "\n".join(lines)


def in_words(spec: Spec) -> str:
    """The objective as one sentence."""
    chosen = penalties.chosen(spec)
    terms = [penalty.words(spec) for penalty in chosen if not penalty.is_constraint]
    limits = [penalty.words(spec) for penalty in chosen if penalty.is_constraint]
    over = "weighted by their rows" if spec.weights == "samples" else "all sites weighing the same"
    text = f"Minimise the mean {spec.loss} loss per row over all sites, {over}"
    text += f", plus {', plus '.join(terms)}" if terms else ", without a penalty"
    text += f"; coefficients must be {' and '.join(limits)}" if limits else ""
    return f"{text}. The target is {spec.target}."


SITES = {
    "samples": "w_i = rows of site i / rows of all sites: the objective of the pooled data",
    "uniform": "w_i = 1 / number of sites, however many rows each has",
}
STANDARDISED = "mean 0 and variance 1 over all sites; the penalty acts on these coefficients"
