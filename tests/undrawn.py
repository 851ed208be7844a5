"""Reports without their pictures, which take longer to draw than most runs take."""

from contextlib import contextmanager
from unittest import mock

from proxfl.drawing import plots
from proxfl.report import page


@contextmanager
def undrawn():
    nothing = lambda figure, kind, dpi: b""
    with mock.patch.object(page, "drawn", nothing), mock.patch.object(plots, "drawn", nothing):
        yield
