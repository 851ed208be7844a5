"""Progress promises a time only where there is an end to count to."""

import io
import re
import sys
from contextlib import redirect_stderr
from types import ModuleType, SimpleNamespace

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


class Notebook(ModuleType):
    """What IPython is to a process whose output a notebook shows."""

    def __init__(self, kernel):
        super().__init__("IPython")
        self.get_ipython = lambda: SimpleNamespace(kernel=kernel)
        self.shown = []
        self.display = ModuleType("IPython.display")
        self.display.display = self.first

    def first(self, text, raw, display_id):
        self.update(text, raw)
        return self

    def update(self, text, raw):
        assert raw
        self.shown.append(text["text/plain"])


def entered(monkeypatch, kernel):
    found = Notebook(kernel)
    monkeypatch.setitem(sys.modules, "IPython", found)
    monkeypatch.setitem(sys.modules, "IPython.display", found.display)
    return found


def test_a_notebook_shows_one_line_that_changes_and_goes(screen, monkeypatch):
    monkeypatch.setattr(progress, "FRESH_SECONDS", 0.0)
    notebook = entered(monkeypatch, kernel=object())
    assert progress.is_watched() and told(screen, None) == ""
    *lines, last = notebook.shown
    assert len(lines) == 2 and last == ""
    assert re.fullmatch(r"Work: 2, .*/s, optimality 1e-3, goal 1e-6", lines[-1])


def test_python_on_a_terminal_is_no_notebook(screen, monkeypatch):
    notebook = entered(monkeypatch, kernel=None)
    assert "Work" in told(screen, None) and not notebook.shown
    with redirect_stderr(screen):
        assert progress.is_watched() == screen.isatty()
