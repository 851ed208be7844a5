"""How the weight of a penalty is chosen: the path it runs along, the folds, and the rule."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from proxfl.options.kinds import SEVERAL, SHARE, one_of
from proxfl.spec import SWEPT, Number, option, read_option

WAYS = ("rows", "sites")
RULES = ("1se", "min")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Choice:
    """The options of `proxfl path` beside those of a training run."""

    sweep: str = option(one_of(*SWEPT), "the weight that the path runs along", "l1")
    points: int = option(SEVERAL, "the number of weights on the path", 50)
    ratio: Number = option(SHARE, "the smallest weight, relative to the largest", 1e-2)
    by: str = option(
        one_of(*WAYS),
        "what folds are made of: rows of every site, or whole sites, each left out once",
        "rows",
    )
    folds: int = option(SEVERAL, "the folds to which each site deals its rows", 5)
    rule: str = option(
        one_of(*RULES),
        "which weight is taken: the largest within one standard error of the least loss, or that "
        "of the least",
        "1se",
    )

    def __post_init__(self):
        for field in dataclasses.fields(self):
            object.__setattr__(self, field.name, read_option(field, getattr(self, field.name)))

    @classmethod
    def among(cls, options: Mapping[str, Any]) -> "Choice":
        """From those of the options that are a choice's; a weight is spelt with - or with _."""
        held = {key: options[key] for key in KEYS if key in options}
        if isinstance(held.get("sweep"), str):
            held["sweep"] = held["sweep"].replace("-", "_")
        fields = {field.name: field for field in dataclasses.fields(cls)}
        return cls(**{key: read_option(fields[key], value) for key, value in held.items()})


KEYS = tuple(field.name for field in dataclasses.fields(Choice))
