"""Standard errors as terminal and report show them."""

import numpy as np
import pytest

from proxfl.report.inference import apart_from_1, inferred

LINE = {"coef": 0.5, "robust_se": 0.1, "lower": 0.3, "upper": 0.7, "z": 5.0, "p": 1e-6}


def test_errors_of_sampling_have_a_column_where_rows_have_weights():
    lines = {"age": LINE | {"se": 0.2, "sampling_se": 0.4}}
    heads, ((_, *row),) = inferred({"loss": "squared", "inference": {"coefficients": lines}})
    assert dict(zip(heads[1:], row, strict=True))["sampling"] == 0.4


@pytest.mark.parametrize("known", [True, False])
def test_what_is_not_known_has_no_column_and_logs_of_ratios_are_told_as_ratios(known):
    lines = {"age": LINE | {"se": 0.2 if known else None}}
    heads, ((name, *row),) = inferred({"loss": "poisson", "inference": {"coefficients": lines}})
    told = dict(zip(heads[1:], row, strict=True))
    assert name == "age" and ("standard error" in told) == known
    assert told["coefficient"] == 0.5 and told["robust"] == 0.1 and None not in row
    np.testing.assert_allclose([float(ratio) for ratio in row[-3:]], np.exp([0.5, 0.3, 0.7]), 5e-3)
    assert "rate ratio" in told
    heads, _ = inferred({"loss": "squared", "inference": {"coefficients": lines}})
    assert not any("ratio" in head for head in heads)


@pytest.mark.parametrize("ratio", [0.05, 0.9, 0.998, 1.0, 1.00334, 1.0004, 1.07, 2.5, 1234.0])
def test_a_ratio_is_told_with_as_many_digits_as_tell_it_from_1(ratio):
    shown = float(apart_from_1(ratio).replace(",", ""))
    assert abs(shown - ratio) <= 0.1 * abs(ratio - 1)
