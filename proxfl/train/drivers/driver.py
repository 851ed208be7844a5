"""Rounds until a certificate is met, or until they are used up: what all drivers of sites share."""

import abc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np

from proxfl.core import Algorithm
from proxfl.errors import InputError
from proxfl.points import Point, norm
from proxfl.problem import Problem
from proxfl.train.drivers.endless import AT_INFINITY, is_deep
from proxfl.train.federation import Federation

# A run converged if, besides optimality, its relative duality gap is at most so many tolerances.
GAP = 10.0


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


class Evaluated(NamedTuple):
    """What all sites say of a model: the mean loss, its gradient, and each site's loss."""

    loss: float
    gradient: Point
    site_losses: dict[str, float]


class Look(NamedTuple):
    """What full gradients say of a model: its distance to optimality, also relative to `scale`."""

    objective: float
    distance: float
    optimality: float
    site_losses: dict[str, float]
    gradient: Point


class Certificate(NamedTuple):
    """A look, and the duality gap where one is known.

    `relative_gap` is relative to the objective at the start, or at the model where it is larger.
    """

    objective: float
    distance: float
    optimality: float
    site_losses: dict[str, float]
    duality_gap: float | None
    relative_gap: float | None
    converged: bool


class Solution(NamedTuple):
    """The model, its certificate, and how it was reached."""

    x: Point
    objective: float
    distance: float
    optimality: float
    site_losses: dict[str, float]
    duality_gap: float | None
    relative_gap: float | None
    converged: bool
    state: Any
    records: list[Record]
    obstacle: str | None = None  # why no rounds lead to a certificate, if that was found out


@dataclass
class Driver(abc.ABC):
    """The server's side of one training run over a federation.

    A state is a pytree with the fields `round`, the rounds made; `counted`, the last exchange that
    counted; `scale` and `start`, the gradient's norm and the objective at the start, to which
    certificates are relative. Those two come from `evaluate`, never from an update of a round.

    `gap` gives the duality gap of a model that was looked at, None where none is known; infinite,
    if it cannot be as small as wanted, about which nobody need be asked.
    """

    federation: Federation
    problem: Problem
    weights: np.ndarray
    settings: Settings
    gap: Callable[["Driver", Point, Look, float], float | None] = lambda *about: None

    @abc.abstractmethod
    def begin(self) -> Any:
        """The state before the first round."""

    @abc.abstractmethod
    def algorithm(self, state: Any) -> Algorithm | None:
        """The method of the next round; None if sites are asked tasks only and keep no state."""

    @abc.abstractmethod
    def one_round(self, state: Any) -> tuple[Any, Record]: ...

    @abc.abstractmethod
    def model(self, state: Any) -> Point:
        """The model to return if this state is the last."""

    def obstacle(self, state: Any) -> str | None:
        """A sentence on why no more rounds lead to a certified model; None if they may."""
        return None

    def endless(self, state: Any) -> bool:
        """Whether the objective falls on far beyond the model, which one more exchange may tell."""
        return False

    def mean(self, answers: Mapping[str, Mapping[str, Any]], part: str) -> Any:
        """The mean over sites of one part of their answers, summed in the sites' order."""
        weights, parts = self.weights.tolist(), [answers[s][part] for s in self.federation.sites]

        def add(*leaves: Any) -> jax.Array:
            arrays = map(np.asarray, leaves)  # nothing is compiled here for each new shape
            return jax.device_put(sum(w * a for w, a in zip(weights, arrays, strict=True)))

        return jax.tree.map(add, *parts)

    def evaluate(self, x: Point) -> Evaluated:
        """The loss and its full gradient at x."""
        return self.evaluated(self.federation.ask("evaluate", {"x": x}))

    def evaluate_start(self) -> Evaluated:
        """The same at the starting point, where both must be finite and have room for squares."""
        answers = self.federation.ask("evaluate", {"x": self.problem.x0})
        found = self.evaluated(answers)
        if not np.isfinite([found.loss, float(norm(found.gradient))]).all():
            raise InputError(too_large(answers))
        return found

    def evaluated(self, answers: Mapping[str, Mapping[str, Any]]) -> Evaluated:
        losses = {site: float(answers[site]["value"]) for site in self.federation.sites}
        loss, gradient = self.mean(answers, "value"), self.mean(answers, "gradient")
        return Evaluated(float(loss), gradient, losses)

    def curvatures(self) -> tuple[float, float]:
        """The sites' smoothness, the mean and the largest; one number leaves each site."""
        answers = self.federation.ask("curvature", {"x": self.problem.x0})
        each = np.array([float(answers[site]["curvature"]) for site in self.federation.sites])
        mean = float(self.weights @ each)
        refuse_curvature(mean)
        return mean, float(each.max())

    def look(self, state: Any) -> Look:
        """What full gradients say of the model in a state."""
        return self.look_anew(state)

    def look_anew(self, state: Any) -> Look:
        """The same, always asked for."""
        x, g = self.model(state), self.problem.g
        found = self.evaluate(x)
        objective, distance = found.loss + g.value(x), float(g.distance(x, found.gradient))
        optimality = distance / (float(state.scale) or 1.0)
        return Look(float(objective), distance, optimality, found.site_losses, found.gradient)

    def certify(self, state: Any, last: bool = False) -> Certificate:
        """The same with the duality gap, asked for where it decides and at the very end."""
        return self.certificate(state, self.look(state), last)

    def certify_anew(self, state: Any) -> Certificate:
        """A certificate from no answer but new ones, to questions about start and model."""
        x0, found = self.problem.x0, self.evaluate_start()
        start = found.loss + float(self.problem.g.value(x0))
        begun = state._replace(scale=norm(found.gradient), start=start)
        return self.certificate(begun, self.look_anew(begun))

    def certificate(self, state: Any, look: Look, last: bool = False) -> Certificate:
        """What a look comes to, with a gap where that decides."""
        settings = self.settings
        close, over = look.optimality <= settings.tol, int(state.round) >= settings.rounds
        by = max(abs(float(state.start)), abs(look.objective)) or 1.0
        wanted = np.inf if last or over else GAP * settings.tol * by
        gap = self.gap(self, self.model(state), look, wanted) if close or over else None
        relative = None if gap is None else gap / by
        converged = close and (relative is None or relative <= GAP * settings.tol)
        return Certificate(*look[:-1], gap, relative, converged)


def shortfall(optimality: float, relative_gap: float | None, tol: float) -> str:
    """What keeps a run that has not converged from it."""
    if not optimality <= tol or relative_gap is None:
        return f"optimality {optimality:.2e} is above the tolerance {tol:.2e}"
    return (
        f"the duality gap is {relative_gap:.2e} of the objective, above {GAP:g} times the "
        f"tolerance {tol:.2e}"
    )


def too_large(answers: Mapping[str, Mapping[str, Any]]) -> str:
    """Who is to blame when a mean of finite numbers is not finite, or its square is not."""
    largest = lambda answer: max(float(np.abs(leaf).max()) for leaf in jax.tree.leaves(answer))
    site = max(answers, key=lambda site: largest(answers[site]))
    return (
        f"Site {site} has the largest loss or gradient, {largest(answers[site]):.2g}, with which "
        "the mean over sites is not finite; check its data for huge values, or standardise the "
        "features."
    )


@jax.jit
def output(algorithm, g, server):
    return algorithm.output(g, server)


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
    rounds = driver.settings.rounds
    state, records = driver.begin() if state is None else state, list(records)
    due = next_look(driver.settings.tol, records[:-1])
    while True:
        last = records[-1] if records else Record(0, np.nan, np.nan, np.nan, False)
        looks, obstacle = next_look(due, [last]), driver.obstacle(state)
        over = last.round >= rounds
        met = looks < due or (over and last.optimality <= driver.settings.tol)
        on = bool(met or obstacle) and driver.endless(state)
        if on and (obstacle or over or is_deep(last.optimality, float(state.scale))):
            obstacle = AT_INFINITY
        if not on and looks < due or obstacle or over:
            found = driver.certify(state, last=bool(obstacle or over))
            if obstacle:
                found = found._replace(converged=False)
            if found.converged or obstacle or over:
                return Solution(driver.model(state), *found, state, records, obstacle)
        due = looks
        state, record = driver.one_round(state)
        records.append(record)
        watch(state, records)


def next_look(due: float, records: Sequence[Record]) -> float:
    """The optimality at which to certify next, after looks at these records in vain.

    A gap may take longer than optimality, and to ask for it costs exchanges.
    """
    for record in records:
        if record.counted and record.optimality <= due:
            due = record.optimality / 2
    return due
