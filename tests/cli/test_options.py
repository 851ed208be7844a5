"""No option without a test: each is typed in one of the files here, which all run the commands."""

import argparse
import re
from pathlib import Path

import pytest

from proxfl.cli.main import module

HERE = Path(__file__).parent
SOURCES = [path for path in HERE.glob("*.py") if path.name != "test_options.py"]
ELSEWHERE = (
    "console/test_sinks.py",
    "train/test_survival.py",
    "train/test_rows.py",
    "train/test_privacy.py",
)
SOURCES += [HERE.parent / name for name in ELSEWHERE]


def options_of(command):
    parser = argparse.ArgumentParser(add_help=False)
    module(command).arguments(parser)
    return [action.option_strings for action in parser._actions if action.option_strings]


@pytest.mark.parametrize("command", ["train", "path", "predict", "inspect", "report"])
def test_every_option_is_typed_in_a_test(command):
    typed = {word for path in SOURCES for word in re.findall(r"--[a-z0-9-]+", path.read_text())}
    untested = [names for names in options_of(command) if not typed & set(names)]
    assert untested == []
