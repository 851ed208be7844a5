"""What a file holds is checked against a type, whichever way the type is written."""

import dataclasses
from typing import NamedTuple, NotRequired, TypedDict

import pytest

from proxfl.storage.typed import misfit


class AsTable(TypedDict):
    name: str
    sizes: list[int]


class AsTuple(NamedTuple):
    name: str
    sizes: tuple[int, ...]


@dataclasses.dataclass
class AsData:
    name: str
    sizes: tuple[int, ...]


class Inside(TypedDict):
    held: NotRequired[AsTuple]


@pytest.mark.parametrize("kind", [AsTable, AsTuple, AsData])
def test_a_table_has_all_named_parts_and_may_have_more(kind):
    sound = {"name": "north", "sizes": [1, 2, 3], "beside": None}
    assert misfit(sound, kind) is None
    assert misfit(sound | {"sizes": []}, kind) is None
    assert misfit({"name": "north"}, kind) == "it lacks 'sizes'"
    assert misfit(sound | {"sizes": [1, True]}, kind) == "sizes[1] is no whole number of 64 bits"
    assert misfit(sound | {"sizes": 3}, kind) == "sizes is no list"
    assert misfit([sound], kind) == "it is no table"


def test_so_does_a_table_in_another():
    assert misfit({}, Inside) is None
    assert misfit({"held": {"name": 1, "sizes": []}}, Inside) == "held.name is no text"
