"""Labels of log axes: in letters, and of the numbers at their ticks. Legends that fit."""

import numpy as np
import pytest

from proxfl.drawing import plots

LOWERED = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")


def number(label):
    factor, _, power = label.rpartition("10")
    return float(factor.rstrip("×") or 1) * 10.0 ** int(power.translate(LOWERED))


@pytest.mark.parametrize("span", [(1e-12, 1.0), (0.3, 0.9), (2.0, 70.0), (1e-200, 1e200)], ids=str)
def test_a_log_axis_names_the_numbers_at_its_ticks_in_letters(span):
    figure, (axes,) = plots.panels(1)
    axes.plot(span, span)
    plots.label(axes, "", "x", "y", log="xy", legend=False)
    plots.drawn(figure, "svg", 80)
    for axis in (axes.xaxis, axes.yaxis):
        labelled = 0
        for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
            if text := tick.label1.get_text():
                np.testing.assert_allclose(number(text), tick.get_loc(), rtol=1e-12)
                labelled += 1
        assert labelled > 1


@pytest.mark.parametrize("long", [1, 12, 28])
@pytest.mark.parametrize("lines", [1, 3, 12])
def test_a_legend_is_within_its_figure_and_there_is_one(lines, long):
    figure, (axes,) = plots.panels(1, width=4.7, height=2.9)
    for k in range(lines):
        axes.plot([0, 1], [k, k], label=f"{k}".rjust(long, "m"))
    plots.legend_below(figure, [axes])
    plots.drawn(figure, "svg", 80)
    (legend,) = figure.legends
    box = legend.get_window_extent()
    assert 0 <= box.x0 and box.x1 <= figure.bbox.x1 and len(legend.get_texts()) == lines
