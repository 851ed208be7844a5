"""Options, and frozen sets of their values under one name in Python, TOML and JSON."""

import abc
import math
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from proxfl.errors import InputError
from proxfl.options.kinds import Kind

Held = TypeVar("Held", bound="Options")
REQUIRED: Any = object()  # the default of an option that has none


class Option(NamedTuple):
    """One thing to set: its key, the values it takes and, for help and sentences, what it is."""

    key: str
    kind: Kind
    meaning: str
    default: Any = REQUIRED

    def read(self, value: Any) -> Any:
        """The value in its one form; InputError if the option does not take it."""
        try:
            return self.kind.read(value)
        except (TypeError, ValueError, OverflowError):
            raise InputError(
                f"key {self.key!r} must be {self.kind.words}, got {value!r}; it is {self.meaning}."
            ) from None


def by_key(options: Iterable[Option]) -> dict[str, Option]:
    found: dict[str, Option] = {}
    for option in options:
        if option.key in found:
            raise TypeError(f"two options are called {option.key!r}; rename one of them.")
        found[option.key] = option
    return found


class Options(abc.ABC):
    """A value for each of some options, held in one form whatever the form it came in."""

    def __init__(self, **given: Any):
        table = self.table()
        read = values(table, given)
        for key, option in table.items():
            if key not in read and option.default is REQUIRED:
                raise InputError(f"key {key!r} is missing; it is {option.meaning}.")
        self._hold({key: read.get(key, self.usual(o, read)) for key, o in table.items()})

    def _hold(self, held: dict[str, Any]) -> None:
        vars(self).update(held)
        self.check()

    @classmethod
    @abc.abstractmethod
    def table(cls) -> dict[str, Option]:
        """The options there are, by key."""

    def usual(self, option: Option, given: Mapping[str, Any]) -> Any:
        """The value of an option that is left out, which may depend on those given."""
        return option.default

    @abc.abstractmethod
    def check(self) -> None:
        """Refuse values that contradict one another."""

    def __getattr__(self, key: str) -> Any:
        raise AttributeError(f"there is no option {key!r}.")

    def __setattr__(self, key: str, value: Any) -> None:
        raise AttributeError(f"options do not change; use replace({key}=...).")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]  # tables by feature have none

    def __repr__(self) -> str:
        table = self.table()
        told = [f"{k}={v!r}" for k, v in vars(self).items() if v != table[k].default]
        return f"{type(self).__name__}({', '.join(told)})"

    def replace(self: Held, **changes: Any) -> Held:
        changed = object.__new__(type(self))
        changed._hold(vars(self) | values(self.table(), changes))
        return changed

    def read_files(self: Held) -> Held:
        """The same with the content of their files in place of paths, as a manifest wants it."""
        loads = {key: option.kind.load for key, option in self.table().items()}
        found = {
            key: load(Path(value))
            for key, load in loads.items()
            if load is not None and isinstance(value := getattr(self, key), str)
        }
        return self.replace(**found) if found else self

    def to_dict(self) -> dict[str, Any]:
        """Every option, as JSON can hold it: infinite numbers are the texts inf and -inf."""
        return {key: jsonable(value) for key, value in vars(self).items()}

    def changed(self) -> dict[str, Any]:
        """The same without those that have their default."""
        table, held = self.table(), vars(self)
        return {key: v for key, v in self.to_dict().items() if held[key] != table[key].default}


def values(table: Mapping[str, Option], given: Mapping[str, Any]) -> dict[str, Any]:
    """What is given, in the form in which it is held."""
    return {key: known(table, key).read(value) for key, value in given.items()}


def known(table: Mapping[str, Option], key: str) -> Option:
    if key in table:
        return table[key]
    near = get_close_matches(key.replace("-", "_"), table, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else f"the keys are {', '.join(table)}."
    raise InputError(f"there is no key {key!r}; {hint}")


def jsonable(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [jsonable(v) for v in value]
    return str(value) if isinstance(value, float) and math.isinf(value) else value
