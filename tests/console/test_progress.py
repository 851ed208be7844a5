"""Progress promises a time only where there is an end to count to."""

import io
import re
from contextlib import redirect_stderr

import pytest

from proxfl.console import progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture(params=["lines", "bar"])
def screen(request, monkeypatch):
    """Where progress is told; as if the work took long."""
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.0)
    monkeypatch.setattr(progress, "QUIET_SECONDS", 0.0)
    return io.StringIO() if request.param == "lines" else Terminal()


def told(screen, total, shown=True):
    with redirect_stderr(screen), progress.progress("Work", total, shown) as report:
        for done in (1, 2):
            report(done, note="optimality 1e-3, goal 1e-6")
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", screen.getvalue())  # without its colours


def test_work_of_known_length_tells_what_is_left(screen):
    text = told(screen, 4)
    assert "Work" in text and re.search(r"\b2/4\b", text) and "/s" in text
    assert re.search(r"\d s left|\d:\d\d:\d\d|-:--:--", text)


def test_work_without_a_known_end_tells_how_far_it_is_from_its_goal(screen):
    text = told(screen, None)
    assert "Work" in text and "/s" in text
    assert "optimality 1e-3, goal 1e-6" in " ".join(text.split())
    assert not re.search(r" left|\d:\d\d|-:--|\b2/", text)


def test_nothing_is_told_if_nobody_wants_to_know(screen):
    assert told(screen, 3, shown=False) == ""
