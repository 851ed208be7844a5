"""A result can be drawn, tabled and taken elsewhere."""

import numpy as np
import pytest
from matplotlib.figure import Figure
from safetensors.numpy import load_file

import proxfl as px
from proxfl.drawing.curves import compare
from proxfl.losses import Coefficients, Logistic
from proxfl.prox import L1, OnLeaves
from tests import cases


@pytest.fixture(scope="module")
def sparse():
    """A run whose penalty puts most of a model with an intercept to zero."""
    x0 = px.Tree(Coefficients(np.zeros(cases.D), np.zeros(())))
    problem = px.Problem(g=OnLeaves(L1(0.08), ("coef",)), x0=x0, loss=Logistic())
    return px.simulate(px.Decoupled(0.1, 1.0, 2), problem, cases.sites(), rounds=40, every=10)


@pytest.fixture(scope="module")
def plain():
    return px.simulate(px.FedMid(0.1, 1.0, 2), cases.problem(), cases.sites(), rounds=20, every=5)


def test_weights_that_are_zero_are_exactly_zero_wherever_they_go(sparse, tmp_path):
    sparse.export(tmp_path / "model.safetensors")
    found, held = load_file(tmp_path / "model.safetensors"), sparse.arrays()
    assert set(found) == set(held) == {"coef", "intercept"}
    assert 0 < np.count_nonzero(found["coef"]) == sparse.history["nonzeros"][-1] - 1 < cases.D
    for name, array in held.items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].dtype == array.dtype
    assert [path.name for path in tmp_path.iterdir()] == ["model.safetensors"]


def test_an_array_by_itself_is_a_value(plain):
    assert list(plain.arrays()) == ["value"] and plain.arrays()["value"].shape == (cases.D,)


def test_a_table_has_the_history(sparse):
    frame = sparse.frame()
    assert list(frame) == list(sparse.history) and frame["round"].tolist() == [0, 10, 20, 30, 40]


@pytest.mark.parametrize("along", ["round", "seconds", "bytes_up"])
@pytest.mark.parametrize("metric", ["optimality", "objective", "nonzeros"])
def test_a_plot_draws_what_the_history_holds(sparse, metric, along):
    figure = sparse.plot(metric, along)
    (line,) = figure.axes[0].lines
    assert isinstance(figure, Figure)
    np.testing.assert_array_equal(line.get_xdata(), sparse.history[along])
    np.testing.assert_array_equal(line.get_ydata(), sparse.history[metric])
    assert figure.axes[0].get_ylabel() == metric
    logarithmic = bool((sparse.history[metric] > 0).all())  # nothing is lost to a logarithm
    assert (figure.axes[0].get_yscale() == "log") == logarithmic


def test_several_runs_share_a_figure_by_name(sparse, plain):
    axes = compare({"ours": sparse, "theirs": plain}, "objective").axes[0]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["ours", "theirs"]
    assert len({line.get_color() for line in axes.lines}) == 2


def test_a_metric_that_was_not_recorded_is_refused(plain):
    with pytest.raises(ValueError, match="there is no metric 'rank' .* objective, optimality"):
        plain.plot("rank")
