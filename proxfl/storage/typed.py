"""What a file was said to hold, as types: a value from JSON is checked against one, once.

A type is a TypedDict, a NamedTuple or a dataclass, for a table whose keys must be there and others
may be too; `dict[str, T]`, `list[T]`, `tuple[T, ...]`, which is a list, too, and `tuple[A, B]` for
one of that length; a union, `None`, `bool`, `int` of 64 bits, `float`, `str`, or `Any`. True is no
number.
"""

import dataclasses
import types
from typing import Any, NotRequired, Union, get_args, get_origin, get_type_hints, is_typeddict

LARGEST = 2**63


def misfit(value: Any, kind: Any, where: str = "it") -> str | None:
    """Which part of a value is not of a type; None if all are."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        found = [misfit(value, one, where) for one in inner]
        return None if None in found else found[0]
    if is_table(kind):
        return misfit_in_table(value, kind, where)
    if inner[1:] == (...,):
        origin, inner = list, inner[:1]
    if origin is dict:
        if not isinstance(value, dict):
            return f"{where} is no table"
        return first(misfit(held, inner[1], f"{where}[{key!r}]") for key, held in value.items())
    if origin in (list, tuple):
        if not isinstance(value, list) or (origin is tuple and len(value) != len(inner)):
            return f"{where} is no list" + (f" of {len(inner)}" if origin is tuple else "")
        kinds = inner if origin is tuple else inner * len(value)
        pairs = enumerate(zip(value, kinds, strict=True))
        return first(misfit(held, one, f"{where}[{i}]") for i, (held, one) in pairs)
    return None if is_one(value, kind) else f"{where} is no {WORDS[kind]}"


def is_table(kind: Any) -> bool:
    """Whether a type is one of named parts."""
    return is_typeddict(kind) or dataclasses.is_dataclass(kind) or hasattr(kind, "_fields")


def misfit_in_table(value: Any, kind: Any, where: str) -> str | None:
    if not isinstance(value, dict):
        return f"{where} is no table"
    for key, one in get_type_hints(kind, include_extras=True).items():
        optional = get_origin(one) is NotRequired
        if key not in value and not optional:
            return f"{where} lacks {key!r}"
        if key in value:
            place = key if where == "it" else f"{where}.{key}"
            wrong = misfit(value[key], get_args(one)[0] if optional else one, place)
            if wrong:
                return wrong
    return None


def first(found: Any) -> str | None:
    return next(filter(None, found), None)


def is_one(value: Any, kind: Any) -> bool:
    if kind is Any:
        return True
    if kind in (None, types.NoneType):
        return value is None
    if kind is float:
        return isinstance(value, float) or is_one(value, int)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool) and abs(value) < LARGEST
    return isinstance(value, kind)


WORDS = {None: "null", types.NoneType: "null", bool: "truth value", int: "whole number of 64 bits"}
WORDS |= {float: "number", str: "text"}
