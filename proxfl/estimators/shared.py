"""What estimators share: from arrays to sites, from parameters to a spec, and the two ways to fit.

An estimator is one kind of target and loss, with its weights as parameters or one `Chosen`.
"""

import abc
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import csr_matrix, issparse, vstack
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning as SklearnConvergenceWarning
from sklearn.utils import _safe_indexing, check_random_state, indexable
from sklearn.utils.validation import (
    _check_sample_weight,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from proxfl.precision import precision
from proxfl.tables import Table
from proxfl.train.choice import Choice
from proxfl.train.drivers.driver import Record
from proxfl.train.drivers.fixed import applies
from proxfl.train.folds import deal, path_with_folds
from proxfl.train.inference import INTERCEPT, Inference, refuse_collinear, refuse_inference
from proxfl.train.model import Model
from proxfl.train.path import ready
from proxfl.train.spec import Spec
from proxfl.train.train import ConvergenceWarning as FitConvergenceWarning
from proxfl.train.walk import asking, inference_at, solve


class ConvergenceWarning(FitConvergenceWarning, SklearnConvergenceWarning):
    """The rounds were used up before the certificate was met."""


# Parameters that scikit-learn calls otherwise than Spec does.
RENAMED = {"fit_intercept": "intercept", "site_weights": "weights", "max_iter": "rounds"}
RENAMED |= {"delta": "huber_delta", "ties": "cox_ties"}
WEIGHT = "sample_weight"  # the name of its column


@dataclass(kw_only=True, eq=False, repr=False)
class Federated(BaseEstimator, abc.ABC):
    """A linear model of clients' data; its fields are parameters, which only `fit` may judge."""

    standardise: Any = False
    site_weights: Any = "samples"
    algorithm: Any = "auto"
    local_steps: Any = 1
    max_iter: Any = 10_000
    tol: Any = 1e-6

    n_features_in_: int = field(init=False)
    coef_: Any = field(init=False)
    intercept_: Any = field(init=False)
    _fewest_rows: ClassVar[int] = 1

    @abc.abstractmethod
    def _read(self, X: Any, y: Any) -> tuple[Any, np.ndarray]:
        """Checked features and the target as numbers; learns what the target is like."""

    @abc.abstractmethod
    def _loss(self) -> str:
        """The loss, by its name in Spec."""

    @abc.abstractmethod
    def _keep(self, coef: np.ndarray, intercept: np.ndarray) -> None:
        """Set `coef_` and `intercept_`, shaped as the kind of target asks."""

    def _target(self) -> dict[str, str]:
        """The columns of the target, by their names in Spec."""
        return {"target": "y"}

    def _group(self) -> dict[str, str] | None:
        """The group of each feature, if there are any."""
        groups = getattr(self, "groups", None)
        return None if groups is None else group_of_each(groups, self.n_features_in_, self._width())

    def _width(self) -> int:
        """Features, with those of zeros added by which small models of many sizes share programs.

        No model that has one has standard errors.
        """
        count = self.n_features_in_
        if getattr(self, "inference", False) or count > 256:
            return count
        return max(32, 1 << (count - 1).bit_length())

    def _settled(self, options: dict[str, Any], tables: Sequence[Table]) -> tuple[Spec, int]:
        """The spec to fit, with every weight known, and the exchanges it took to know them."""
        return Spec(**options), 0

    def fit(self, X: Any, y: Any, client_ids: Any = None, sample_weight: Any = None) -> "Federated":
        """Fit to rows of which each belongs to a client; without `client_ids`, all to one.

        A row of weight 2 counts as two rows, also in how much its client weighs; one of weight 0 is
        no row, whatever it holds.
        """
        # Before anything is learnt from rows, such as which classes and clients there are.
        weights, X, y, client_ids = rows_that_count(sample_weight, X, y, client_ids)
        X, y = self._read(X, y)
        given = {RENAMED.get(name, name): value for name, value in self.get_params().items()}
        options = {key: given[key] for key in Spec.table() if key in given}
        if (group := self._group()) is not None:
            options["group"] = group
        if weights is not None:
            options["row_weights"] = WEIGHT
        tables = sites(X, y, client_ids, weights, tuple(self._target().values()), self._width())
        spec, before = self._settled(options | self._target() | {"loss": self._loss()}, tables)
        if applies(spec):
            raise ValueError(
                f"algorithm must be 'auto', 'newton' or 'decoupled', got {spec.algorithm!r}."
            )
        return self._learnt(spec, tables, before)

    def _learnt(self, spec: Spec, tables: Sequence[Table], exchanges: int) -> "Federated":
        """Set all that is learnt, after so many exchanges."""
        with precision(np.float64):
            sites, found = ready(spec, tables), None
            if spec.inference:
                refuse_inference(spec, sites.agreement)
                exchanges += refuse_collinear(asking(sites, spec), spec)
            solved, more = solve(sites, spec)
            if spec.inference and solved.converged:
                found = inference_at(sites, spec, solved.x)
        if spec.inference:
            self.inference_ = found and self._lines(found)
        model = Model.of(spec.loss, sites.agreement, solved.x)
        self._keep(model.coef[: self.n_features_in_], model.intercept)
        columns = {name: [getattr(r, name) for r in solved.records] for name in Record._fields}
        self.history_ = {name: np.array(column) for name, column in columns.items()}
        self.n_iter_, self.converged_ = len(solved.records), solved.converged
        self.n_exchanges_ = exchanges + more + (found is not None)
        self.objective_, self.optimality_ = solved.objective, solved.optimality
        if not solved.converged:
            sentence = solved.obstacle or (
                f"Not converged after {self.n_iter_} rounds: optimality {self.optimality_:.2e} is "
                f"above tol={spec.tol:.2e}; raise max_iter or tol."
            )
            warnings.warn(sentence, ConvergenceWarning, stacklevel=3)
        return self

    def fit_sites(self, sites: Sequence[tuple[Any, ...]]) -> "Federated":
        """Fit to one pair (X, y) per site, or one triple with the weights of its rows."""
        if len({len(site) for site in sites}) != 1:
            raise ValueError("Give at least one site, all as (X, y) or all as (X, y, weights).")
        for site in sites:
            check_consistent_length(*site)
        ids = np.repeat(np.arange(len(sites)), [len(site[1]) for site in sites])
        X, *rest = zip(*sites, strict=True)
        whole = vstack(X, format="csr") if any(map(issparse, X)) else np.concatenate(X)
        y, *weights = map(np.concatenate, rest)
        return self.fit(whole, y, ids, *weights)

    def __sklearn_tags__(self) -> Any:
        tags: Any = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _lines(self, found: Inference) -> dict[str, dict[str, float | None]]:
        """One line for each feature, by its name in the data, if it has one."""
        names = getattr(self, "feature_names_in_", found.names[: self.n_features_in_])
        return dict(zip((*names, INTERCEPT), found.by_name().values(), strict=False))

    def _checked(self, X: Any, y: Any, **demands: Any) -> tuple[Any, np.ndarray]:
        demands |= {"dtype": np.float64, "ensure_min_samples": self._fewest_rows}
        checked: Any = validate_data(self, X, y, accept_sparse="csr", **demands)
        return checked

    def _scores(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, accept_sparse="csr", reset=False)
        return X @ self.coef_.T + self.intercept_


@dataclass(kw_only=True, eq=False, repr=False)
class WithIntercept(Federated):
    """The intercept is not penalised."""

    fit_intercept: Any = True


@dataclass(kw_only=True, eq=False, repr=False)
class Chosen(WithIntercept):
    """One weight is chosen along a path, by federated cross-validation, and the model refitted."""

    points: Any = 50
    ratio: Any = 1e-2
    folds: Any = 5
    by: Any = "rows"
    rule: Any = "1se"
    random_state: Any = 0

    _fewest_rows: ClassVar[int] = 2
    _key: ClassVar[str]  # the weight that is chosen, by its name in Spec

    def _settled(self, options: dict[str, Any], tables: Sequence[Table]) -> tuple[Spec, int]:
        told: Any = self
        spec = Spec(**options | {self._key: 1.0})  # any weight: the path sets it
        seed = int(check_random_state(told.random_state).randint(2**31 - 1))
        choice = Choice.among(self.get_params() | {"sweep": self._key})
        deal(spec, choice, tables)  # if that cannot be, say so before the work
        walked, found = path_with_folds(spec.replace(seed=seed), tables, choice)
        chosen = found.chosen(choice.rule)
        self.path_weights_, self.weight_ = walked.weights, float(walked.weights[chosen])
        self.path_coef_ = np.moveaxis(walked.coef[:, : self.n_features_in_], 1, -1)
        self.cv_losses_, self.cv_mean_, self.cv_error_ = found.losses, found.mean, found.error
        self.cv_accuracy_ = found.mean_scores.get("accuracy")
        self.stability_ = found.stability[:, : self.n_features_in_]
        return walked.spec_at(chosen), walked.traffic.exchanges + found.traffic.exchanges


def rows_that_count(sample_weight: Any, X: Any, *beside: Any) -> tuple[Any, ...]:
    """The weights, if there are any, the features and what is beside them, without rows of 0."""
    if sample_weight is None:
        return None, X, *beside
    weights = _check_sample_weight(sample_weight, X, ensure_non_negative=True)
    held = np.flatnonzero(weights)
    some = lambda a: None if a is None else _safe_indexing(a, held)
    return weights[held], *map(some, indexable(X, *beside))


def group_of_each(groups: Any, features: int, width: int) -> dict[str, str]:
    """One label per feature as a table of groups; what stands for no feature is in no group."""
    labels = column_or_1d(np.asarray(groups))
    if len(labels) != features:
        raise ValueError(f"groups must hold {features} labels, one per feature, got {len(labels)}.")
    none = {name: "" for name in names_of(width)}
    return none | dict(zip(names_of(features), map(str, labels), strict=True))


def names_of(features: int) -> list[str]:
    return [f"x{j}" for j in range(features)]


def sites(
    X: Any,
    y: np.ndarray,
    client_ids: Any,
    weights: np.ndarray | None,
    target: tuple[str, ...],
    width: int,
) -> list[Table]:
    """One table per client, in the order of their identifiers, of so many features.

    Those added are of zeros: a feature that is zero everywhere keeps a coefficient of exactly zero
    under every penalty.
    """
    ids = np.zeros(len(y), int) if client_ids is None else column_or_1d(client_ids)
    check_consistent_length(X, ids)
    features = tuple(names_of(width))
    if issparse(X):
        A = csr_matrix((X.data, X.indices, X.indptr), (X.shape[0], width))
    else:
        A = np.pad(X, [(0, 0), (0, width - X.shape[1])])
    beside = {} if weights is None else {WEIGHT: weights}
    whole = Table("", "", target, features, A, y, "", beside=beside)
    named = lambda site: replace(whole.only(ids == site), name=str(site), source=str(site))
    return [named(site) for site in np.unique(ids)]
