"""What generators return: the clients' data, the truth behind them, and how they were made."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from proxfl.pytree import Condition

Site = tuple[np.ndarray, np.ndarray]  # one client's features, a row per example, and its labels


@dataclasses.dataclass(frozen=True)
class FederatedData:
    """One site per client, and a recipe from which anyone can make the same data again.

    The recipe is JSON: `generator`, its arguments under `choices`, and under `facts` what was
    measured on the result. `truth` is None where the clients have no model in common.
    """

    sites: list[Site]
    truth: np.ndarray | None
    recipe: dict[str, Any]


def demand(holds: Any, sentence: str) -> None:
    """Raise ValueError with the sentence unless the condition holds."""
    if not holds:
        raise ValueError(sentence)


AT_LEAST_ONE = Condition("at least 1", lambda v: bool(v >= 1))


def between(low: int, high: int, what: str) -> Condition:
    return Condition(f"between {low} and the {high} {what}", lambda v: bool(low <= v <= high))


def one_of(*names: str) -> Condition:
    return Condition(f"one of {', '.join(names)}", lambda v: v.item() in names)


def must(name: str, value: Any, rule: Condition) -> None:
    """Raise ValueError unless the argument of this name keeps the rule."""
    demand(rule.holds(np.asarray(value)), f"{name} must be {rule.words}, got {value!r}.")


def curvatures(sites: Sequence[Site]) -> dict[str, float]:
    """Largest eigenvalues of mean_i A_i' A_i / m_i, and of the worst single term.

    Times the curvature of a linear loss, they bound the smoothness of the plain mean over clients
    (what a server step must respect) and of the worst client (what a local step must respect).
    """
    scaled = [A / np.sqrt(len(A)) for A, _ in sites]
    everyone = np.concatenate(scaled) / np.sqrt(len(scaled))
    return {
        "lambda_max": largest_eigenvalue(everyone),
        "client_lambda_max": max(map(largest_eigenvalue, scaled)),
    }


def largest_eigenvalue(A: np.ndarray) -> float:
    """Of A'A, through the smaller of the two Gram matrices."""
    gram = A.T @ A if A.shape[1] <= A.shape[0] else A @ A.T
    return float(np.linalg.eigvalsh(gram)[-1])
