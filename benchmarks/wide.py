"""Many features: exchanges and bytes of Newton's method on working sets, against Algorithm 1.

l1 logistic regression as `proxfl train` runs it: 10 sites of 200 rows, 20,000 features, 100 values
in a row that are not zero, to optimality 1e-8; three weights, as shares of the least that leaves no
coefficient. All exchanges count: the agreement, tries that failed, the certificate and the gap.
"""

import time
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from benchmarks.exchanges import METHODS, cost
from proxfl.tables import Table
from proxfl.train.federation import FAR
from proxfl.train.method import method_for
from proxfl.train.spec import Spec
from proxfl.train.train import begin

SITES, ROWS, FEATURES, VALUES, TRUE = 10, 200, 20_000, 100, 200
SHARES = (0.3, 0.1, 0.03)


def drawn(seed: int = 0) -> tuple[csr_matrix, np.ndarray]:
    rng, rows = np.random.default_rng(seed), SITES * ROWS
    columns = np.stack([rng.choice(FEATURES, VALUES, replace=False) for _ in range(rows)])
    ends = np.arange(0, rows * VALUES + 1, VALUES)
    values = rng.normal(size=rows * VALUES)
    A = csr_matrix((values, columns.ravel(), ends), shape=(rows, FEATURES))
    truth = np.zeros(FEATURES)
    truth[rng.choice(FEATURES, TRUE, replace=False)] = 3 * rng.normal(size=TRUE)
    return A, (A @ truth + rng.logistic(size=rows) > 0) * 1.0


def run() -> dict[str, Any]:
    A, y = drawn()
    most = np.abs(A.T @ (y - y.mean())).max() / len(y)
    names = tuple(f"x{j}" for j in range(FEATURES))
    parts = np.array_split(np.arange(len(y)), SITES)
    sites = [Table(f"s{i}", "", "y", names, A[p], y[p], "") for i, p in enumerate(parts)]
    base, rows = Spec(target="y", loss="logistic", tol=1e-8), []
    for share in SHARES:
        spec = base.replace(l1=float(share * most))
        for method in METHODS:
            begun = time.process_time()
            told = cost(spec.replace(algorithm=method), sites)
            seconds = {"seconds of a processor": time.process_time() - begun}
            rows.append({"weight": share, "method": method} | told | seconds)
    chosen = method_for(spec, begin(spec, sites).agreement, FAR)
    return {
        "what": f"l1 logistic with {FEATURES:,} features: exchanges to a certificate, all counted",
        "auto": f"{chosen.name}: {chosen.reason}",
        "runs": rows,
    }
