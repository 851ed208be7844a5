"""The page that says which test holds what was mended names tests that are there."""

import re
from pathlib import Path

TESTS = Path(__file__).parent
NAMED = re.compile(r"`([\w/]*\.py)?::(test_\w+)`")


def test_every_test_named_for_a_finding_is_there():
    found = []
    for line in (TESTS / "README.md").read_text().splitlines():
        file = ""
        for path, name in NAMED.findall(line):
            file = path or file
            found.append((file, name))
    assert len(found) > 11
    for file, name in found:
        assert f"def {name}(" in (TESTS / file).read_text(), (file, name)
