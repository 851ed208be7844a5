"""A schema: what each column of the files is, so that all sites make the same features of it.

    [age]
    kind = "number"
    missing = "mean"

    [stage]
    kind = "category"
    levels = ["I", "II", "III"]
    reference = "I"                 # the level that is 0; the first, if left out
    unknown = "reference"           # what an unlisted level is taken for; "refuse", if left out

    [admitted]
    kind = "date"
    since = 2020-01-01              # the feature is the days since then

Columns that it does not name are left out. Levels come from the schema and never from the data, so
that a site has the features of all levels, whichever its rows happen to have.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np

from proxfl.errors import InputError
from proxfl.storage.toml import read_toml
from proxfl.tables.formats import Frame, Source, quoted
from proxfl.tables.kinds import KINDS, Column, Identifier

MOST_NAMED = 5  # columns in one sentence


@dataclass(frozen=True)
class Schema:
    columns: Mapping[str, Column]

    def __post_init__(self):
        names = Counter(feature for name in self.columns for feature in self.made_of(name))
        twice = [name for name, times in names.items() if times > 1]
        if twice:
            raise InputError(f"the schema makes two features called {quoted(twice)}; rename one.")

    @classmethod
    def from_dict(cls, held: Mapping[str, Any]) -> "Schema":
        return cls({name: column_of(name, told) for name, told in held.items()})

    @classmethod
    def read(cls, path: Path) -> "Schema":
        held = read_toml(path, "schema")
        try:
            return cls.from_dict(held)
        except InputError as error:
            raise InputError(f"{path}: {error}") from None

    def to_dict(self) -> dict[str, Any]:
        return {name: told(column) for name, column in self.columns.items()}

    @property
    def identifiers(self) -> tuple[str, ...]:
        return tuple(n for n, column in self.columns.items() if isinstance(column, Identifier))

    @property
    def texts(self) -> frozenset[str]:
        """The columns of which a CSV file is to give the text as it stands."""
        return frozenset(name for name, column in self.columns.items() if column.as_text)

    def made_of(self, name: str) -> tuple[str, ...]:
        """The features that a column becomes."""
        column = self.columns[name]
        indicator = (f"{name}=missing",) if column.missing == "indicator" else ()
        return (*column.names(name), *indicator)

    def sources(self, features: Collection[str] | None = None) -> dict[str, str]:
        """The column that each feature is made of: of all features, or of those named."""
        made = {feature: name for name in self.columns for feature in self.made_of(name)}
        return {f: n for f, n in made.items() if features is None or f in features}

    def classes(self, target: str) -> tuple[Any, ...]:
        """The labels of a target in order, if the schema has it and it has any."""
        return self.columns[target].classes if target in self.columns else ()

    def rules(self, names: Sequence[str], usual: str) -> list[str]:
        """What to do about missing values, for each feature that the columns become."""
        found = []
        for name in names:
            column = self.columns[name]
            rule = column.missing or usual
            fill = {"indicator": "mean"}.get(rule, rule)
            found += [fill] * len(column.names(name))
            found += ["refuse"] * (rule == "indicator")  # whether a value is missing never is
        return found

    def fills(self, usual: str) -> bool:
        """Whether the mean may have to be filled in somewhere."""
        return any((c.missing or usual) in ("mean", "indicator") for c in self.columns.values())

    def encode(self, path: Source, frame: Frame, names: Sequence[str]) -> np.ndarray:
        """The features that these columns become, [rows, features]; all that is wrong at once."""
        blocks, wrong = [np.empty((len(frame), 0))], {}
        for name in names:
            column = self.columns[name]
            values, odd = column.read(frame[name])
            if odd.any():
                wrong[name] = f"{column.wrong}, first in data row {odd.argmax() + 1}"
            blocks.append(values)
            if column.missing == "indicator":
                blocks.append(np.isnan(values).any(axis=1, keepdims=True).astype(float))
        refuse_wrong(path, wrong)
        return np.hstack(blocks)

    def labels(self, path: Source, target: str, column: Any) -> tuple[np.ndarray, np.ndarray]:
        """The target as its kind gives it, and where it is missing."""
        kind = self.columns[target]
        y, wrong = kind.labels(column)
        if wrong.any():
            where = f"first in data row {wrong.argmax() + 1}"
            refuse_wrong(path, {target: f"{kind.wrong}, {where}"})
        return y, np.isnan(y) if y.dtype.kind == "f" else y == ""


def column_of(name: str, held: Any) -> Column:
    if not isinstance(held, Mapping) or held.get("kind") not in KINDS:
        given = held.get("kind") if isinstance(held, Mapping) else held
        near = get_close_matches(str(given), KINDS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"it must be one of {', '.join(KINDS)}."
        raise InputError(f"column {name!r} of the schema has no known kind; {hint}")
    try:
        return KINDS[held["kind"]](**{key: value for key, value in held.items() if key != "kind"})
    except InputError as error:
        raise InputError(f"column {name!r} of the schema: {error}") from None


def told(column: Column) -> dict[str, Any]:
    return {"kind": column.name, **column.changed()}


def refuse_wrong(path: Source, wrong: Mapping[str, str]) -> None:
    """Raise on columns that are not what the schema says, all in one sentence."""
    if wrong:
        few = [f"column {name!r} {what}" for name, what in list(wrong.items())[:MOST_NAMED]]
        more = f"; and {len(wrong) - MOST_NAMED} more columns" if len(wrong) > MOST_NAMED else ""
        raise InputError(
            f"{path}: {'; '.join(few)}{more}; correct the file, or the schema if it is at fault."
        )
