"""Standard errors as terminal and report show them."""

import numpy as np
import pytest

from proxfl.report.inference import inferred

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
    np.testing.assert_allclose(row[-3:], np.exp([0.5, 0.3, 0.7]))
    assert "rate ratio" in told
    heads, _ = inferred({"loss": "squared", "inference": {"coefficients": lines}})
    assert not any("ratio" in head for head in heads)
