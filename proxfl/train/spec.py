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
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from proxfl import losses, plugins
from proxfl.algorithms import REGISTRY as ALGORITHMS
from proxfl.errors import InputError
from proxfl.losses import Linear
from proxfl.losses.targets import Label
from proxfl.options import Option, Options
from proxfl.options.kinds import (
    FLAG,
    PATH,
    PATHS,
    POSITIVE_NUMBER,
    TEXT,
    TEXTS,
    Kind,
    number,
    one_of,
    optional,
    whole,
)
from proxfl.options.option import by_key, known
from proxfl.storage.toml import read_toml
from proxfl.tables import Schema, Wanted
from proxfl.train import penalties, privacy


def a_schema(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else PATH.read(value)


# Its content is checked with the spec, which has a sentence of its own for it.
SCHEMA = optional(
    Kind(
        "a path, or a table of columns",
        a_schema,
        {"metavar": "FILE.toml"},
        is_path=True,
        load=lambda path: Schema.read(path).to_dict(),
    )
)
SITES = Option("sites", PATHS, "the data files, or folders of them, one per site", ())
COLUMN = optional(TEXT._replace(typed={"metavar": "COLUMN"}))
UNDERFLOWS = 1e-100  # a shorter step, whose products with gradients may lose their digits
STEP = optional(number(f"a positive number, {UNDERFLOWS:g} or more", lambda v: v >= UNDERFLOWS))
DATA = (
    Option("offset", COLUMN, "a column that is added to the scores", None),
    Option(
        "exposure",
        COLUMN,
        "a column of what counts are in proportion to, positive: its log is added to the scores",
        None,
    ),
    Option(
        "row_weights",
        COLUMN,
        "a column of how much each row counts, not negative: one of 2 counts as two rows",
        None,
    ),
    Option(
        "missing",
        one_of("refuse", "drop", "mean"),
        "what to do about missing values: refuse them, drop their rows, or fill in the mean over "
        "all sites",
        "refuse",
    ),
    Option("features", TEXTS, "the columns to use; all but the target, if left out", ()),
    Option("exclude", TEXTS, "columns not to use", ()),
    Option(
        "schema",
        SCHEMA,
        "what the columns are: a TOML file, which 'proxfl schema' drafts, or a table",
        None,
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
    Option(
        "intercept",
        FLAG,
        "whether the model has an intercept, never penalised; not for losses without one",
        True,
    ),
    Option(
        "site_intercepts",
        FLAG,
        "whether each site has an intercept of its own, which never leaves it",
        False,
    ),
)
METHOD = (
    Option(
        "algorithm",
        one_of("auto", "newton", *ALGORITHMS),
        "the method; auto takes newton or decoupled, whichever should need less time",
        "auto",
    ),
    Option("inference", FLAG, "whether to tell standard errors, intervals and p-values", False),
    Option("accelerate", FLAG, "whether the server step may be accelerated", True),
    Option("local_steps", whole(1, 10**6), "the local steps of a site in a round", 1),
    Option(
        "batch",
        optional(whole(1)),
        "the rows a site draws for a local step; all, if left out",
        None,
    ),
    Option("cohort", optional(whole(1)), "the sites drawn for a round; all, if left out", None),
    Option("eta", STEP, "the local step; found, if left out", None),
    Option("eta_g", STEP, "the server step; found, if left out", None),
    Option("rounds", whole(1), "the most rounds to run", 10_000),
    Option("tol", POSITIVE_NUMBER, "the optimality at which to stop", 1e-6),
    Option("seed", whole(0, 2**63 - 1), "the seed of every random draw", 0),
    Option("out", optional(PATH), "the folder for the results", None),
)


def convex_losses() -> dict[str, type[Linear]]:
    """Those that can be trained: a certificate is that of a least objective."""
    plugins.load()
    return {name: kind for name, kind in losses.REGISTRY.items() if kind.convex}


def target_options() -> dict[str, Option]:
    """What names the columns of any target."""
    return {o.key: o for kind in convex_losses().values() for o in kind.target.options}


def sections() -> dict[str, list[Option]]:
    """The options there are, under the headings of a help text."""
    kinds = convex_losses()
    return {
        "data": [SITES, *target_options().values(), *DATA],
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
        "privacy noise": [*privacy.OPTIONS],
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
        found = {key: v for key, v in read_toml(path).items() if key not in others}
        try:
            held = {key: located(known(table, key), v, path.parent) for key, v in found.items()}
            return cls(**held | given)
        except InputError as error:
            raise InputError(f"{path}: {error}") from None

    def usual(self, option: Option, given: Mapping[str, Any]) -> Any:
        if option.key == "intercept" and "loss" in given:
            own = given.get("site_intercepts", False)
            return losses.named(given["loss"]).takes_intercept and not own
        return privacy.usual(option, given)

    def check(self) -> None:
        check_target(self)
        check_rows(self)
        privacy.check(self, loss_of(self), declared(self), fills(self))
        schema_of(self)
        twice = [name for name, times in Counter(self.features).items() if times > 1]
        predicted = [name for name in columns_of(self) if name in self.features]
        if twice or predicted:
            what = f"{twice[0]!r} twice" if twice else f"the target {predicted[0]!r}"
            raise InputError(f"key 'features' names {what}; remove it there.")
        for penalty in penalties.REGISTRY.values():
            penalty.check(self)
        for name, kind in convex_losses().items():
            for option in kind.options().values():
                if name != self.loss and getattr(self, option.key) != option.default:
                    raise InputError(
                        f"key {option.key!r} means nothing to loss {self.loss!r}; remove it or use "
                        f"{name!r}."
                    )


def check_target(spec: Spec) -> None:
    """Refuse a target without its columns, or with those of another."""
    target, known = losses.named(spec.loss).target, target_options()
    for key in target.needed:
        if getattr(spec, key) is None:
            raise InputError(f"key {key!r} is missing; it is {known[key].meaning}.")
    if isinstance(spec.target, tuple) and not target.several:
        raise InputError(
            f"loss {spec.loss!r} predicts one column, and key 'target' names {len(spec.target)}; "
            "keep one, or use a loss of numbers."
        )
    own = {option.key for option in target.options}
    for key in known.keys() - own:
        if getattr(spec, key) is not None:
            raise InputError(f"key {key!r} means nothing to loss {spec.loss!r}; remove it.")


def check_rows(spec: Spec) -> None:
    """Refuse what a loss cannot do with the scores or the weights of rows."""
    loss = losses.named(spec.loss)
    if spec.intercept and not loss.takes_intercept:
        raise InputError(f"a {spec.loss} model has no intercept; leave the key 'intercept' out.")
    if spec.site_intercepts:
        check_site_intercepts(spec)
    if spec.exposure is not None and not loss.log_link:
        raise InputError(
            f"key 'exposure' is for losses of means in proportion to it, not for {spec.loss!r}; "
            "use 'offset', which is added to the scores."
        )
    for key in ("offset", "exposure", "site_intercepts"):
        if getattr(spec, key) and (loss.target.most > 2 or isinstance(spec.target, tuple)):
            what = "the target has" if isinstance(spec.target, tuple) else f"{spec.loss!r} has"
            raise InputError(f"key {key!r} needs one score per row, and {what} several.")
    coupled = loss.couples_rows or spec.site_intercepts
    if spec.batch is not None and (coupled or spec.row_weights is not None):
        why = "has losses of whole sites" if coupled else "has row weights"
        raise InputError(f"the problem {why}, for which no batch of rows stands; remove 'batch'.")
    loss_of(spec).refuse_counts(spec.row_weights is not None)


def check_site_intercepts(spec: Spec) -> None:
    loss = losses.named(spec.loss)
    if not loss.takes_intercept:
        raise InputError(f"a {spec.loss} model has no intercept; remove 'site_intercepts'.")
    if spec.intercept:
        raise InputError("with an intercept for each site there is no common one; keep one key.")


def located(option: Option, value: Any, folder: Path) -> Any:
    """The value of an option; if that is a path, one that starts from the folder."""
    value = option.read(value)
    if not option.kind.is_path or isinstance(value, Mapping) or value is None:
        return value
    return str(folder / value) if isinstance(value, str) else tuple(str(folder / v) for v in value)


def schema_of(spec: Spec) -> Schema | None:
    """What the columns are; nothing, as long as that is in a file."""
    return Schema.from_dict(spec.schema) if isinstance(spec.schema, Mapping) else None


def wanted_of(spec: Spec) -> Wanted:
    """Which columns of the sites' files are meant, once the spec has read its own."""
    return Wanted(spec.features, spec.exclude, schema_of(spec), beside_of(spec))


def beside_of(spec: Spec) -> tuple[str, ...]:
    """The columns that are neither features nor the target."""
    found = (spec.offset, spec.exposure, spec.row_weights)
    return tuple(name for name in found if name is not None)


def columns_of(spec: Spec) -> tuple[str, ...]:
    """The columns of the target."""
    found = (getattr(spec, option.key) for option in losses.named(spec.loss).target.options)
    each = ((held,) if isinstance(held, str) else held or () for held in found)
    return tuple(name for names in each for name in names)


def outcome_of(spec: Spec) -> str:
    """The target in words."""
    *others, last = columns_of(spec)
    return f"{', '.join(others)} and {last}" if others else last


def fills(spec: Spec) -> bool:
    """Whether the mean is filled in where a value is missing, of any column."""
    schema = schema_of(spec)
    return spec.missing == "mean" if schema is None else schema.fills(spec.missing)


def declared(spec: Spec) -> tuple[Label, ...]:
    """The classes of the target, if the schema says them."""
    schema = schema_of(spec)
    return () if schema is None else schema.classes(columns_of(spec)[0])


def loss_of(spec: Spec) -> Linear:
    kind = losses.named(spec.loss)
    loss = kind(**{field: getattr(spec, o.key) for field, o in kind.options().items()})
    return losses.SiteIntercept(loss) if spec.site_intercepts else loss


def describe(spec: Spec) -> str:
    """The objective, as a formula and in words."""
    chosen = penalties.chosen(spec)
    terms = [penalty.formula(spec) for penalty in chosen if not penalty.is_constraint]
    constraints = [penalty.formula(spec) for penalty in chosen if penalty.is_constraint]
    shift = " + intercept" if spec.intercept else ""
    shift += " + intercept of the site" if spec.site_intercepts else ""
    shift += f" + {spec.offset}" if spec.offset is not None else ""
    shift += f" + log({spec.exposure})" if spec.exposure is not None else ""
    lines = [
        f"minimise    {' + '.join(['sum_i w_i mean_rows loss(z, y)', *terms])}",
        *([f"subject to  {', '.join(constraints)}"] if constraints else []),
        f"scores      z = A coef{shift}, for the features A of a row",
        f"loss        {loss_of(spec).described}",
        f"sites       {WEIGHED[spec.weights]}",
        f"features    {STANDARDISED if spec.standardise else 'as they are, not standardised'}",
    ]
    if spec.intercept:
        lines.append("intercept   neither penalised nor constrained")
    if spec.site_intercepts:
        lines.append("intercepts  one for each site, the best for its rows; they stay there")
    if spec.dp_clip is not None:
        lines.append(
            f"rows        no gradient of one is longer than {spec.dp_clip:g}; noise on the sum"
        )
    if spec.row_weights is not None:
        lines.append(f"rows        count by {spec.row_weights}, in all means and sums over rows")
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
    return f"{text}. The target is {outcome_of(spec)}."


WEIGHED = {
    "samples": "w_i = rows of site i / rows of all sites: the objective of the pooled data",
    "uniform": "w_i = 1 / number of sites, however many rows each has",
}
STANDARDISED = "mean 0 and variance 1 over all sites; the penalty acts on these coefficients"
