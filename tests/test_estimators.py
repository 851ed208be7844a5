"""The estimators keep scikit-learn's promises, and ours."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from proxfl.estimators import (
    FederatedGroupLasso,
    FederatedGroupLassoCV,
    FederatedLinearRegression,
    FederatedLinearRegressionCV,
    FederatedLogisticRegression,
    FederatedLogisticRegressionCV,
    FederatedLowRankRegression,
    FederatedLowRankRegressionCV,
)

SHORT = {"points": 4, "folds": 2, "rule": "min"}

ESTIMATORS = [
    FederatedLinearRegression(),
    FederatedLogisticRegression(),
    FederatedGroupLasso(),
    FederatedLowRankRegression(),
    FederatedLinearRegressionCV(**SHORT),
    FederatedLogisticRegressionCV(**SHORT),
    FederatedGroupLassoCV(**SHORT),
    FederatedLowRankRegressionCV(**SHORT),
]


@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_accepts_it(estimator, check):
    check(estimator)
