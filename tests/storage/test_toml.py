"""Texts of TOML that would fill the memory, or could not be printed, are refused in a sentence."""

import tomllib

import pytest

from proxfl.deploy.protocol.study import read_study
from proxfl.errors import InputError
from proxfl.storage.toml import DEEPEST, parsed, read_toml

PARTS = ("a", "'a b'", '"a.b"')
HUGE = {
    "a key of many parts": lambda part: ".".join([part] * 3000) + " = 1",
    "with spaces": lambda part: " . ".join([part] * 3000) + " = 1",
    "a table": lambda part: "[" + ".".join([part] * 3000) + "]",
    "an inline table": lambda part: "x = {" + ".".join([part] * 3000) + " = 1}",
    "nested tables": lambda part: "x = " + f"{{{part} = " * 3000,
    "a long number": lambda part: f"{part} = {'9' * 5000}",
    "a long number in a list": lambda part: f"{part} = [[0x{'f' * 5000}]]",
}


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("huge", HUGE)
def test_what_would_fill_the_memory_or_cannot_be_printed_is_refused(huge, part, tmp_path):
    """A study whose key had 100,000 parts took all memory of the machine of a site."""
    text, path = HUGE[huge](part), tmp_path / "options.toml"
    path.write_text(text)
    with pytest.raises(InputError, match="The study is not TOML: "):
        read_study(text)
    with pytest.raises(InputError, match=r"options.toml: this is not TOML: .*; correct that line"):
        read_toml(path)


@pytest.mark.parametrize("part", PARTS)
def test_what_people_write_is_read_as_by_python(part):
    deep = ".".join([part] * DEEPEST)
    for text in (
        f"{deep} = 1",
        f"[{deep}]",
        "x = 9223372036854775807",
        'x = "' + "a.b " * 99 + '"',
    ):
        assert parsed(text) == tomllib.loads(text)
