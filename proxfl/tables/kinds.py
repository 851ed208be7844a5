"""What a column of a file may be, and the numbers it becomes.

A kind is a set of options, spelt in a schema as in `proxfl/options`. It says under which names its
column enters a model, and gives the numbers; one class per kind, in the order of `KINDS`.
"""

import abc
import datetime
from typing import Any, ClassVar

import numpy as np

from proxfl.errors import InputError
from proxfl.options import Kind as Values
from proxfl.options import Option, Options
from proxfl.options.kinds import demand, one_of, optional
from proxfl.options.option import by_key
from proxfl.tables.values import Encoded, Series, to_days, to_numbers, to_text

MOST_LEVELS = 1000  # of a category: each is a column of every site's matrix
TRUE, FALSE = ("1", "true", "yes", "y", "t"), ("0", "false", "no", "n", "f")


def level_names(value: Any) -> tuple[str, ...]:
    demand(isinstance(value, list | tuple))
    return tuple(map(level_name, value))


def level_name(value: Any) -> str:
    """Numbers may be levels; 1.0 is 1, as in a file."""
    demand(isinstance(value, str | int | float) and not isinstance(value, bool))
    whole = isinstance(value, float) and value.is_integer()
    text = str(int(value) if whole else value).strip()
    demand(text)
    return text


def day(value: Any) -> str:
    return datetime.date.fromisoformat(str(value)).isoformat()


MISSING = Option(
    "missing",
    optional(one_of("refuse", "drop", "mean", "indicator")),
    "what to do about missing values: as --missing, or fill in the mean and add a feature that is "
    "1 where that was done",
    None,
)
LEVELS = Option(
    "levels",
    Values("a list of texts", level_names),
    "all the values there may be",
)
REFERENCE = Option("reference", optional(Values("a text", level_name)), "the level that is 0", None)
UNKNOWN = Option(
    "unknown", one_of("refuse", "reference"), "what an unlisted level is taken for", "refuse"
)
SINCE = Option("since", Values("a date as 2024-12-31", day), "the day that is 0")


class Column(Options):
    """What one column is. `read` and `labels` also mark the rows whose value it does not take."""

    name: ClassVar[str]
    wrong: ClassVar[str]  # what is said of such a value
    own: ClassVar[tuple[Option, ...]] = ()
    as_text: ClassVar[bool] = False  # whether a CSV file is to give the text as it stands
    ranked: ClassVar[bool] = False  # whether its numbers are places in a list that a schema has

    @classmethod
    def table(cls) -> dict[str, Option]:
        return by_key((*cls.own, MISSING))

    def check(self) -> None:
        """All values go together, unless a kind says otherwise."""

    def names(self, name: str) -> tuple[str, ...]:
        """What the features made of a column of this name are called."""
        return (name,)

    @abc.abstractmethod
    def read(self, column: Series) -> Encoded:
        """The features [rows, features], NaN where the column has no value."""

    def labels(self, column: Series) -> Encoded:
        """The same column as a target; a text is empty where it is missing."""
        values, wrong = self.read(column)
        return values[:, 0], wrong

    @property
    def classes(self) -> tuple[str | int, ...]:
        """The labels of such a target, in order; none if it is a number."""
        return ()

    @property
    def words(self) -> str:
        """What its numbers mean."""
        return "as it is"


class Number(Column):
    name, wrong = "number", "is not a number"

    def read(self, column):
        values, wrong = to_numbers(column)
        return values[:, None], wrong


class Count(Column):
    name, wrong = "count", "is not a whole number of at least 0"

    def read(self, column):
        values, wrong = to_numbers(column)
        odd = (values < 0) | (values != np.floor(values))
        return values[:, None], wrong | odd & ~np.isnan(values)


class Boolean(Column):
    name, wrong = "boolean", "is none of 0/1, yes/no, true/false"
    as_text = True

    @property
    def words(self):
        return "1 for 1, yes, true, y, t; 0 for 0, no, false, n, f"

    @property
    def classes(self):
        return (0, 1)

    def read(self, column):
        text = to_text(column).str.lower()
        values = np.where(text.isin(TRUE), 1.0, np.where(text.isin(FALSE), 0.0, np.nan))
        return values[:, None], np.isnan(values) & text.notna().to_numpy()


class Levels(Column, abc.ABC):
    """A column of a few words."""

    wrong = "holds a level that the schema does not have"
    as_text = True

    def check(self):
        levels = self.levels
        if not 2 <= len(levels) <= MOST_LEVELS:
            raise InputError(
                f"key 'levels' must name 2 to {MOST_LEVELS} levels, got {len(levels)}; join some, "
                "or leave the column out as an identifier."
            )
        twice = next((level for level in levels if levels.count(level) > 1), None)
        if twice is not None:
            raise InputError(f"key 'levels' has {twice!r} more than once; keep one.")
        if self.classes[0] not in levels:
            raise InputError(f"the reference {self.classes[0]!r} is none of the levels; add it.")

    def codes(self, column: Series) -> Encoded:
        """The number of each level, -1 if there is none, and where there is an unknown one."""
        import pandas as pd

        text = to_text(column)
        codes = pd.Index(self.levels, dtype=object).get_indexer(text.to_numpy(object))
        return codes, (codes < 0) & text.notna().to_numpy()

    def labels(self, column):
        codes, wrong = self.codes(column)
        return np.array([*self.levels, ""])[codes], wrong


class Category(Levels):
    """One feature of 0 and 1 for each level but the reference."""

    name = "category"
    own = (LEVELS, REFERENCE, UNKNOWN)

    @property
    def first(self) -> str:
        return self.reference or self.levels[0]

    @property
    def classes(self):
        return (self.first, *(level for level in self.levels if level != self.first))

    def names(self, name):
        return tuple(f"{name}={level}" for level in self.classes[1:])

    def read(self, column):
        codes, wrong = self.codes(column)
        if self.unknown == "reference":
            codes, wrong = np.where(wrong, self.levels.index(self.first), codes), wrong & False
        others = [self.levels.index(level) for level in self.classes[1:]]
        values = (codes[:, None] == np.array(others, int)).astype(float)
        return np.where(codes[:, None] < 0, np.nan, values), wrong

    @property
    def words(self):
        unknown = ", as are unknown levels" if self.unknown == "reference" else ""
        return f"1 for the level named; {self.first} is 0 in all{unknown}"


class Ordered(Levels):
    """The place of a level in their order, from 0."""

    name, ranked = "ordered", True
    own = (LEVELS._replace(meaning="all the values there may be, the lowest first"),)

    @property
    def classes(self):
        return self.levels

    def read(self, column):
        codes, wrong = self.codes(column)
        return np.where(codes < 0, np.nan, codes)[:, None], wrong

    @property
    def words(self):
        return ", ".join(f"{k} for {level}" for k, level in enumerate(self.levels))


class Date(Column):
    name, wrong = "date", "is not a date as 2024-12-31"
    own = (SINCE,)
    as_text = True

    def names(self, name):
        return (f"{name} ({self.words})",)

    def read(self, column):
        days = to_days(column) - np.datetime64(self.since, "D").astype(float)
        return days[:, None], np.isnan(days) & column.notna().to_numpy()

    @property
    def words(self):
        return f"days since {self.since}"


class Identifier(Column):
    """Of no use to a model; `predict` carries it through."""

    name, wrong = "identifier", "cannot be predicted"
    as_text = True

    @property
    def words(self):
        return "left out"

    def names(self, name):
        return ()

    def read(self, column):
        return np.empty((len(column), 0)), np.zeros(len(column), bool)

    def labels(self, column):
        return np.zeros(len(column)), np.ones(len(column), bool)


KINDS = {kind.name: kind for kind in (Number, Count, Boolean, Category, Ordered, Date, Identifier)}
