"""Estimators that follow scikit-learn's conventions; they need the extra `sklearn`.

`fit(X, y, client_ids=..., sample_weight=...)` says to which client each row belongs (all to one, if
left out), and `fit_sites([(X, y), ...])` takes one pair per site; the rest is as in scikit-learn.
"""

from proxfl.estimators.counts import FederatedPoissonRegression as FederatedPoissonRegression
from proxfl.estimators.cox import FederatedCoxRegression as FederatedCoxRegression
from proxfl.estimators.logistic import FederatedLogisticRegression as FederatedLogisticRegression
from proxfl.estimators.logistic import (
    FederatedLogisticRegressionCV as FederatedLogisticRegressionCV,
)
from proxfl.estimators.regression import FederatedGroupLasso as FederatedGroupLasso
from proxfl.estimators.regression import FederatedGroupLassoCV as FederatedGroupLassoCV
from proxfl.estimators.regression import FederatedHuberRegression as FederatedHuberRegression
from proxfl.estimators.regression import FederatedLinearRegression as FederatedLinearRegression
from proxfl.estimators.regression import FederatedLinearRegressionCV as FederatedLinearRegressionCV
from proxfl.estimators.regression import FederatedLowRankRegression as FederatedLowRankRegression
from proxfl.estimators.regression import (
    FederatedLowRankRegressionCV as FederatedLowRankRegressionCV,
)
from proxfl.estimators.shared import ConvergenceWarning as ConvergenceWarning
