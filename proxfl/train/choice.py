"""How the weight of a penalty is chosen: the path it runs along, the folds, and the rule."""

from collections.abc import Mapping
from typing import Any

from proxfl import plugins
from proxfl.options import Kind, Option, Options
from proxfl.options.kinds import number, one_of, whole
from proxfl.options.option import by_key
from proxfl.train.penalties import swept


class Choice(Options):
    """The options of `proxfl path` beside those of a training run."""

    @classmethod
    def table(cls) -> dict[str, Option]:
        plugins.load()
        keys = tuple(swept())
        return by_key((Option("sweep", key_among(keys), SWEEP, keys[0]), *OTHERS))

    def check(self) -> None:
        """All values go together."""

    @classmethod
    def among(cls, options: Mapping[str, Any]) -> "Choice":
        """From those of the options that are a choice's."""
        return cls(**{key: options[key] for key in cls.table() if key in options})


def key_among(keys: tuple[str, ...]) -> Kind:
    """One of the keys, which may be spelt with - as on a command line."""
    kind = one_of(*keys)
    underscored = lambda value: value.replace("-", "_") if isinstance(value, str) else value
    return kind._replace(read=lambda value: kind.read(underscored(value)))


RATIO = number("a number between 1e-12 and 1", lambda v: 1e-12 <= v < 1)
SWEEP = "the weight that the path runs along"
OTHERS = (
    Option("points", whole(2, 10_000), "the number of weights on the path", 50),
    Option("ratio", RATIO, "the smallest weight, relative to the largest", 1e-2),
    Option(
        "by",
        one_of("rows", "sites"),
        "what folds are made of: rows of every site, or whole sites, each left out once",
        "rows",
    ),
    Option("folds", whole(2), "the folds to which each site deals its rows", 5),
    Option(
        "rule",
        one_of("1se", "min"),
        "which weight is taken: the largest within one standard error of the least loss, or that "
        "of the least",
        "1se",
    ),
)
