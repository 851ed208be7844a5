"""Standard errors, intervals and p-values of a fitted model, from sums that all sites tell once.

With H the Hessian of the mean loss at the model, S the mean product of the rows' scores with
themselves (a score is the gradient of a row's loss) and n rows in all, the covariance of the
coefficients is

    model-based    dispersion * H^-1 / n       if the loss is a likelihood
    robust         H^-1 S H^-1 / n             whatever made the rows (HC0, the sandwich)

A row of weight w counts as w rows, everywhere. Where weights are for something else, such as how
likely a row was to be drawn, it is one row that counts more: then S has w^2, and gives the errors
named `sampling_se`.

Cox's partial likelihood, whose rows are no terms of their own, has the first alone.

A model with an l1 penalty is pulled towards 0, and is de-sparsified first (van de Geer and others
2014; Javanmard, Montanari 2014): b = x - H^-1 gradient. With more rows than coefficients H has an
inverse, which serves for all of them. See docs/inference.md for what the intervals mean.
"""

from typing import NamedTuple

import numpy as np
from jax.flatten_util import ravel_pytree

from proxfl.errors import InputError
from proxfl.points import Point
from proxfl.train.agreement import Agreement
from proxfl.train.drivers.driver import Driver
from proxfl.train.penalties import chosen
from proxfl.train.spec import Spec, loss_of

LEVEL = 0.95
INTERCEPT = "intercept"
SINGULAR = 1e-10  # the least curvature of a direction, relative to the largest, that says anything


class Inference(NamedTuple):
    """By coefficient, in the units of the data.

    `se` is None where the loss is no likelihood, `robust_se` where it compares rows, `sampling_se`
    where all rows count alike.
    """

    names: tuple[str, ...]
    coef: np.ndarray
    se: np.ndarray | None
    robust_se: np.ndarray | None
    sampling_se: np.ndarray | None
    lower: np.ndarray
    upper: np.ndarray
    z: np.ndarray
    p: np.ndarray
    freedom: float  # of Student's distribution; infinite for the normal one
    desparsified: bool

    def by_name(self) -> dict[str, dict[str, float | None]]:
        """One line for each coefficient, as JSON and CSV hold it."""
        sampling = () if self.sampling_se is None else ("sampling_se",)
        keys = ("coef", "se", "robust_se", *sampling, "lower", "upper", "z", "p")
        columns = {key: getattr(self, key) for key in keys}
        value = lambda column, i: None if column is None else float(column[i])
        return {
            name: {key: value(column, i) for key, column in columns.items()}
            for i, name in enumerate(self.names)
        }


def refuse_inference(spec: Spec, agreement: Agreement) -> None:
    """Refuse what there are no intervals for, before any work is done."""
    others = [penalty.key for penalty in chosen(spec) if not penalty.desparsifies]
    count = len(agreement.features) + spec.intercept
    if len(agreement.targets) > 1:
        raise InputError("inference is for models with one output; leave it out.")
    loss, partial = loss_of(spec), loss_of(spec).likelihood == "partial"
    if loss.couples_rows and not partial:
        raise InputError(
            "inference is for rows that count each by itself; leave it out, or site intercepts."
        )
    if partial and spec.row_weights is not None:
        raise InputError(
            f"inference with loss {loss.name!r} is known for rows that count alike only; leave it "
            "out, or row weights."
        )
    if partial and chosen(spec):
        raise InputError(
            f"inference with loss {loss.name!r} is known without a penalty only; leave "
            f"{', '.join(penalty.key for penalty in chosen(spec))} out, or inference."
        )
    if others:
        raise InputError(f"inference is not known with {', '.join(others)}; leave one of them out.")
    if spec.weights != "samples":
        raise InputError("inference needs rows that count alike; use weights = 'samples'.")
    few = min(sum(agreement.rows), sum(agreement.counts))
    if few <= count:
        by = "" if spec.row_weights is None else ", by number and by weight"
        raise InputError(
            f"inference needs more rows than coefficients{by}, got {few:g} rows and {count} "
            "coefficients; leave it out."
        )


def refuse_collinear(driver: Driver, spec: Spec) -> int:
    """Refuse, before a model is trained, features that no model tells apart; how many exchanges
    it took.

    Of a loss that is straight in places, as Huber's far from the target, the start shows nothing.
    """
    if loss_of(spec).kinked:
        return 0
    told = driver.federation.ask("hessian", {"x": driver.problem.x0})
    refuse_singular(symmetric(np.asarray(driver.mean(told, "hessian"))))
    return 1


def refuse_singular(hessian: np.ndarray) -> None:
    spread = np.sqrt(np.diag(hessian))
    spread = np.where(spread > 0, spread, 1.0)
    values = np.linalg.eigvalsh(hessian / np.outer(spread, spread))
    if not values[0] > SINGULAR * values[-1]:
        raise InputError(
            "the model has no standard errors: some combination of features is constant, or says "
            "nothing at this model; leave out collinear features, or inference."
        )


class Information(NamedTuple):
    """Means over all rows at a model; see `proxfl.train.tasks.information`."""

    gradient: np.ndarray
    hessian: np.ndarray
    products: np.ndarray
    squares: float
    drawn: np.ndarray | None


def infer(driver: Driver, spec: Spec, agreement: Agreement, x: Point) -> Inference:
    """One exchange, and what follows from it."""
    told = driver.federation.ask("information", {"x": x})
    square = lambda part: symmetric(np.asarray(driver.mean(told, part)))
    gradient = np.asarray(ravel_pytree(driver.mean(told, "gradient"))[0])
    squares = float(driver.mean(told, "squares"))
    drawn = None if spec.row_weights is None else square("drawn")
    means = Information(gradient, square("hessian"), square("products"), squares, drawn)
    return from_means(spec, agreement, np.asarray(ravel_pytree(x)[0]), means)


def from_means(spec: Spec, agreement: Agreement, x: np.ndarray, means: Information) -> Inference:
    n, count, likelihood = sum(agreement.counts), len(x), loss_of(spec).likelihood
    penalised = bool(chosen(spec))
    refuse_singular(means.hessian)
    inverse, back = np.linalg.inv(means.hessian), to_units(agreement, spec.intercept)
    b = back @ (x - inverse @ means.gradient if penalised else x)
    errors = lambda middle: np.sqrt(np.diag(back @ middle @ back.T) / n)
    dispersion = means.squares * n / (n - count) if likelihood == "scaled" else 1.0
    se = None if likelihood is None else errors(dispersion * inverse)
    sandwich = lambda S: None if S is None else errors(inverse @ S @ inverse)
    robust = None if likelihood == "partial" else sandwich(means.products)
    freedom = float(n - count) if likelihood == "scaled" else np.inf
    used = np.asarray(robust if se is None else se)
    # Here, and not from scipy.stats: imports for which nobody waits who asks for no errors.
    from scipy import special

    normal = np.isinf(freedom)
    upper = (1 + LEVEL) / 2
    quantile = special.ndtri(upper) if normal else special.stdtrit(freedom, upper)
    half, z = quantile * used, b / used
    names = (*agreement.features, *((INTERCEPT,) if spec.intercept else ()))
    p = 2 * (special.ndtr(-np.abs(z)) if normal else special.stdtr(freedom, -np.abs(z)))
    ends = b - half, b + half
    return Inference(names, b, se, robust, sandwich(means.drawn), *ends, z, p, freedom, penalised)


def to_units(agreement: Agreement, intercept: bool) -> np.ndarray:
    """The matrix from coefficients as they are solved for to those in the units of the data."""
    scale, centre = np.array(agreement.scale), np.array(agreement.centre)
    if not intercept:
        return np.diag(1 / scale)
    back = np.diag(np.append(1 / scale, 1.0))
    back[-1, :-1] = -centre / scale
    return back


def symmetric(triangle: np.ndarray) -> np.ndarray:
    """A matrix from its upper triangle."""
    size = int((np.sqrt(8 * len(triangle) + 1) - 1) / 2)
    upper = np.zeros((size, size))
    upper[np.triu_indices(size)] = triangle
    return upper + np.triu(upper, 1).T
