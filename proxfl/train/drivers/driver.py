"""Rounds until a certificate is met, or until they are used up: what all drivers of sites share."""

import abc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np

from proxfl.core import Algorithm
from proxfl.points import Point
from proxfl.problem import Problem
from proxfl.train.federation import Federation


@dataclass(frozen=True)
class Settings:
    """What a driver may be told; steps left open are found by it."""

    rounds: int = 10_000
    tol: float = 1e-6
    local_steps: int = 1
    accelerate: bool = True
    eta: float | None = None
    eta_g: float | None = None


class Record(NamedTuple):
    """What one round showed, not a number where nobody looked; in a program, as arrays."""

    round: Any
    objective: Any
    optimality: Any
    eta: Any
    counted: Any


class Solution(NamedTuple):
    """The model, its certificate, and how it was reached."""

    x: Point
    objective: float
    distance: float
    optimality: float
    converged: bool
    site_losses: dict[str, float]
    state: Any
    records: list[Record]


@dataclass
class Driver(abc.ABC):
    """The server's side of one training run over a federation.

    A state is a pytree with the fields `round`, the rounds made, `counted`, the last exchange that
    counted, and `scale`, the gradient's norm at the start, to which optimality is relative.
    """

    federation: Federation
    problem: Problem
    weights: np.ndarray
    settings: Settings

    @abc.abstractmethod
    def begin(self) -> Any:
        """The state before the first round."""

    @abc.abstractmethod
    def algorithm(self, state: Any) -> Algorithm:
        """The method of the next round."""

    @abc.abstractmethod
    def one_round(self, state: Any) -> tuple[Any, Record]: ...

    @abc.abstractmethod
    def model(self, state: Any) -> Point:
        """The model to return if this state is the last."""

    def mean(self, answers: Mapping[str, Mapping[str, Any]], part: str) -> Any:
        """The mean over sites of one part of their answers, summed in the sites' order."""
        weights, parts = self.weights.tolist(), [answers[s][part] for s in self.federation.sites]
        add = lambda *leaves: sum(w * leaf for w, leaf in zip(weights, leaves, strict=True))
        return jax.tree.map(add, *parts)

    def gradient(self, x: Point) -> Point:
        return self.mean(self.federation.ask("evaluate", {"x": x}), "gradient")

    def curvatures(self) -> tuple[float, float]:
        """The sites' smoothness, the mean and the largest; one number leaves each site."""
        answers = self.federation.ask("curvature", {"x": self.problem.x0})
        each = np.array([float(answers[site]["curvature"]) for site in self.federation.sites])
        mean = float(self.weights @ each)
        refuse_curvature(mean)
        return mean, float(each.max())

    def certify(self, x: Point) -> tuple[float, float, dict[str, float]]:
        """Objective, distance to optimality and sites' losses, from full gradients of all sites."""
        answers = self.federation.ask("evaluate", {"x": x})
        losses = {site: float(answers[site]["value"]) for site in self.federation.sites}
        loss = sum(w * v for w, v in zip(self.weights, losses.values(), strict=True))
        g, gradient = self.problem.g, self.mean(answers, "gradient")
        return float(loss + g.value(x)), float(g.distance(x, gradient)), losses


def refuse_curvature(mean: float) -> None:
    if not np.isfinite(mean) or mean <= 0:
        raise ValueError(
            f"The loss has curvature {mean} at the start, which gives no step; "
            "check for constant columns and huge values, or standardise the features."
        )


def solve(
    driver: Driver,
    state: Any = None,
    records: Sequence[Record] = (),
    watch: Callable[[Any, list[Record]], None] = lambda state, records: None,
) -> Solution:
    """Rounds until the certificate is met, or until they are used up.

    `state` and `records` are those of a run to go on with; it ends as if it had never stopped.
    """
    rounds, tol = driver.settings.rounds, driver.settings.tol
    state, records = driver.begin() if state is None else state, list(records)
    while True:
        last = records[-1] if records else Record(0, np.nan, np.nan, np.nan, False)
        if last.round >= rounds or (last.counted and last.optimality <= tol):
            x = driver.model(state)
            objective, distance, losses = driver.certify(x)
            optimality = distance / (float(state.scale) or 1.0)
            found = (optimality, optimality <= tol, losses, state, records)
            if optimality <= tol or last.round >= rounds:
                return Solution(x, objective, distance, *found)
        state, record = driver.one_round(state)
        records.append(record)
        watch(state, records)
