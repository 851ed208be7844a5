"""Scikit-learn's way.

The weight of an l1 penalty, chosen by cross-validation in which no row leaves its client
(`pip install 'proxfl[sklearn]'`).
"""

import numpy as np
from sklearn.datasets import load_breast_cancer

from proxfl.drawing import plots
from proxfl.estimators import FederatedLogisticRegressionCV


def main():
    data = load_breast_cancer()
    clients = np.argsort(np.argsort(data.data[:, 0])) * 5 // len(data.data)  # by size of tumour
    model = FederatedLogisticRegressionCV(points=20, folds=3, standardise=True)
    model.fit(data.data, data.target, client_ids=clients)
    kept = data.feature_names[model.coef_[0] != 0].tolist()
    print(f"l1 = {model.weight_:.3g}, {len(kept)} of {data.data.shape[1]} features: {kept}")
    figure, (axes,) = plots.panels(1)
    axes.errorbar(model.path_weights_, model.cv_mean_, model.cv_error_, color=plots.COLOURS[1])
    axes.axvline(model.weight_, color=plots.COLOURS[0], linestyle="--", linewidth=1)
    plots.label(axes, "", "l1 weight", "mean loss of rows left out", log="x", legend=False)
    axes.invert_xaxis()
    return figure


if __name__ == "__main__":
    main().savefig("estimators.png", dpi=150)
