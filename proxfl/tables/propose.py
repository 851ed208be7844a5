"""A schema drafted from the data of all sites, and what a person should look at in it."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import tomli_w

from proxfl.console.words import count, printable
from proxfl.tables.formats import Source, quoted, read_frame
from proxfl.tables.kinds import (
    FALSE,
    TRUE,
    Boolean,
    Category,
    Column,
    Count,
    Date,
    Identifier,
    Number,
    Ordered,
)
from proxfl.tables.naming import (
    ENOUGH,
    NEARLY_ALL,
    called_so,
    counts_rows,
    names_groups,
    names_rows,
)
from proxfl.tables.schema import Schema, told
from proxfl.tables.values import Series, to_days, to_numbers, to_text

FEW = 10  # whole numbers that are so few may be codes
MANY, MOST = 20, 50  # levels of which most are groups, and that a person would look through
SHORT = 24  # characters of a level, among others
FOR_NONE = (9, 99, 999, 9999, 99999)  # or less than 0
# Day or month first, or with words for months: which of the first two it is, no text says.
OTHER_DATES = r"\d{1,4}([./-])\d{1,2}\1\d{1,4}([ T].*)?|\d{1,2}[ .-]*[^\W\d]{3,9}[ .,-]*\d{2,4}"
NOT_AS_DATES = "dates, it seems: written as 2024-12-31 they could be used"
SCALES = (
    ("none", "mild", "moderate", "severe"),
    ("none", "low", "medium", "high"),
    ("low", "moderate", "high"),
    ("never", "rarely", "sometimes", "often", "always"),
    ("poor", "fair", "good", "very good", "excellent"),
    ("strongly disagree", "disagree", "neutral", "agree", "strongly agree"),
)


class Draft(NamedTuple):
    """What a column is taken for, and the doubts about it."""

    column: Column
    doubts: tuple[str, ...]


class Pooled(NamedTuple):
    """One column of all sites: its text, without the missing, and the site of each value."""

    name: str
    text: Series
    sites: np.ndarray
    missing: int

    @property
    def distinct(self) -> list[str]:
        return sorted(self.text.unique())

    @property
    def names_the_site(self) -> bool:
        return len(self.text) >= ENOUGH and len(
            set(zip(self.text, self.sites, strict=True))
        ) == len(set(self.sites))

    def by_site(self, values: Any) -> list[np.ndarray]:
        """The values of its rows, those of each site by themselves."""
        return [np.asarray(values)[self.sites == site] for site in dict.fromkeys(self.sites)]

    @property
    def identifies(self) -> bool:
        return names_rows(self.text.to_numpy(object))


def draft(sources: Sequence[Source]) -> dict[str, Draft]:
    """What each column is taken for, in the order in which files, or data frames, have them."""
    frames = {source.stem: read_frame(source, None, None) for source in sources}
    names = dict.fromkeys(name for frame in frames.values() for name in frame.columns)
    return {name: drafted(name, frames) for name in names}


def drafted(name: str, frames: dict[str, Any]) -> Draft:
    import pandas as pd

    held = {site: frame[name] for site, frame in frames.items() if name in frame.columns}
    texts = {site: to_text(column) for site, column in held.items()}
    every = pd.concat(texts.values(), ignore_index=True)
    sites = np.repeat(list(texts), [len(text) for text in texts.values()])
    there = every.notna().to_numpy()
    pooled = Pooled(name, every[there], sites[there], int((~there).sum()))
    draft = first_that_fits(pooled, held)
    lacking = [site for site in frames if site not in held]
    doubts = [f"there is no such column at {quoted(lacking)}"] if lacking else []
    if pooled.missing and not isinstance(draft.column, Identifier):
        draft, told = filled(draft, pooled)
        doubts.append(told)
    return Draft(draft.column, (*draft.doubts, *doubts))


def first_that_fits(pooled: Pooled, held: dict[str, Series]) -> Draft:
    ordered = order_given(held)
    if not len(pooled.text):
        return Draft(Identifier(), ("it has no value at any site",))
    if len(pooled.distinct) == 1:
        return Draft(Identifier(), ("it has one value at all sites together",))
    if pooled.names_the_site:
        return Draft(
            Identifier(), ("one value in all rows of a site: it tells of sites, not rows",)
        )
    if ordered is not None:
        return Draft(Ordered(levels=ordered), ())
    if set(pooled.text.str.lower()) <= {*TRUE, *FALSE}:
        return Draft(Boolean(), ())
    for rule in (as_numbers, as_dates):
        if (found := rule(pooled)) is not None:
            return found
    return as_levels(pooled)


def order_given(held: dict[str, Series]) -> list[str] | None:
    """The order of levels, where Parquet files have one, the same at all sites."""
    orders = {
        tuple(map(str, column.cat.categories)) if getattr(column.dtype, "ordered", False) else None
        for column in held.values()
    }
    (order,) = orders if len(orders) == 1 else (None,)
    return None if order is None else list(order)


def as_numbers(pooled: Pooled) -> Draft | None:
    values, wrong = to_numbers(pooled.text)
    if wrong.mean() > 1 - NEARLY_ALL:
        return None
    draft = of_numbers(pooled, values, wrong)
    codes = [f"is {code:g} a number, or does it stand for none?" for code in far_codes(values)]
    return draft if draft.column.classes else draft._replace(doubts=(*draft.doubts, *codes))


def far_codes(values: np.ndarray) -> list[float]:
    """What is often written for a missing number, if it is further from all others than these are
    from one another."""
    held = np.unique(values[~np.isnan(values)])
    if len(held) < 4:
        return []
    ends = {held[0]: held[1:], held[-1]: held[:-1]}
    far = lambda end, rest: np.abs(rest - end).min() > rest[-1] - rest[0]
    return [end for end, rest in ends.items() if abs(end) in FOR_NONE and far(end, rest)]


def of_numbers(pooled: Pooled, values: np.ndarray, wrong: np.ndarray) -> Draft:
    if wrong.any():
        where = quoted(sorted(set(pooled.sites[wrong])))
        return Draft(Number(), (f"no number in {count(int(wrong.sum()), 'row')} at {where}",))
    if (values != np.floor(values)).any():
        return Draft(Number(), ())
    few = len(pooled.distinct)
    if pooled.identifies and few == len(values):  # amounts repeat now and then, names never
        return Draft(Identifier(), ("every row has a number of its own",))
    if few == 2:
        return Draft(Category(levels=pooled.distinct), ("two whole numbers, taken for codes",))
    return Draft(Count() if values.min() == 0 else Number(), doubts_of_whole(pooled, values, few))


def doubts_of_whole(pooled: Pooled, values: np.ndarray, few: int) -> tuple[str, ...]:
    """What whole numbers may be that are no amounts."""
    if few <= FEW:
        return (f"{few} different whole numbers: codes of a category, perhaps?",)
    parts = pooled.by_site(values)
    if pooled.identifies or counts_rows(parts):
        return ("nearly every row of a site has a number of its own: does it name them?",)
    if names_groups(parts):
        together = f"each of its {few} numbers has its rows next to one another"
        return (f"{together}: does it name persons, or groups?",)
    return ("by what it is called, does it name persons, or groups?",) * called_so(pooled.name)


def as_dates(pooled: Pooled) -> Draft | None:
    days = to_days(pooled.text)
    wrong = np.isnan(days)
    if wrong.mean() > 1 - NEARLY_ALL:
        like_dates = pooled.text.str.fullmatch(OTHER_DATES).mean() >= NEARLY_ALL
        return Draft(Identifier(), (NOT_AS_DATES,)) if like_dates else None
    first = np.array(np.nanmin(days), "int64").astype("datetime64[D]").astype("datetime64[Y]")
    since = f"{first}-01-01"
    doubts = [f"its days are counted from {since}: another day may mean more"]
    if wrong.any():
        where = quoted(sorted(set(pooled.sites[wrong])))
        doubts.append(f"no date in {count(int(wrong.sum()), 'row')} at {where}")
    return Draft(Date(since=since), tuple(doubts))


def as_levels(pooled: Pooled) -> Draft:
    draft = as_texts(pooled)
    _, wrong = to_numbers(pooled.text)
    words = {site: wrong[pooled.sites == site].mean() for site in dict.fromkeys(pooled.sites)}
    numbers = [site for site, share in words.items() if share <= 1 - NEARLY_ALL]
    if not numbers or len(numbers) == len(words):
        return draft
    others = [site for site in words if site not in numbers]
    doubt = f"numbers at {quoted(numbers)}, words at {quoted(others)}"
    return draft._replace(doubts=(*draft.doubts, doubt))


def as_texts(pooled: Pooled) -> Draft:
    levels = pooled.distinct
    if pooled.identifies:
        return Draft(Identifier(), ("nearly every row has a text of its own",))
    if len(levels) > MOST:
        return Draft(Identifier(), (f"its {len(levels)} different texts are many for a category",))
    for scale in SCALES:
        if {level.lower() for level in levels} <= set(scale) and len(levels) > 2:
            by_place: Callable[[str], int] = lambda level, scale=scale: scale.index(level.lower())
            return Draft(Ordered(levels=sorted(levels, key=by_place)), ("an order, by its words",))
    usual = str(pooled.text.mode().iloc[0])
    alike = len({level.lower().replace(" ", "") for level in levels}) < len(levels)
    doubts = ["some levels differ by spelling only"] if alike else []
    if len(levels) > MANY:
        doubts.append(f"its {len(levels)} levels are many: does it name persons, or groups?")
    at = {level: set(pooled.sites[(pooled.text == level).to_numpy()]) for level in levels}
    alone = [level for level in levels if len(at[level]) == 1]
    if alone and len(set(pooled.sites)) > 1:
        doubts.append(
            f"at one site only: {quoted([printable(level, SHORT) for level in alone], 3)}"
        )
    return Draft(Category(levels=levels, reference=usual), tuple(doubts))


def filled(draft: Draft, pooled: Pooled) -> tuple[Draft, str]:
    """Levels get a feature for rows without one, numbers their mean; a person may say otherwise."""
    rule = "indicator" if draft.column.classes else "mean"
    are = "is" if pooled.missing == 1 else "are"
    share = f"{pooled.missing} of {pooled.missing + len(pooled.text)} values {are} missing"
    return draft._replace(column=draft.column.replace(missing=rule)), share


def schema_of(drafts: dict[str, Draft]) -> Schema:
    return Schema({name: draft.column for name, draft in drafts.items()})


def to_look_at(drafts: dict[str, Draft]) -> list[list[str]]:
    """A table of columns, kinds and doubts, each doubt in a row of its own."""
    rows = []
    for name, (column, doubts) in drafts.items():
        first, *others = doubts or ("",)
        rows += [[name, column.name, first], *(["", "", doubt] for doubt in others)]
    return rows


def as_toml(drafts: dict[str, Draft], source: str) -> str:
    """The schema as a file to edit, with the doubts as comments."""
    parts = [
        f"# Drafted by 'proxfl schema' from {source}. Look at the lines marked with '?'; kinds are "
        "number,\n# count, boolean, category, ordered, date and identifier, which is left out.\n"
    ]
    for name, (column, doubts) in drafts.items():
        table = tomli_w.dumps({name: told(column)})
        parts.append("".join(f"# ? {doubt}\n" for doubt in doubts) + table)
    return "\n".join(parts)
