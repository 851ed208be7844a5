"""Any method of the registry with fixed steps: for comparison, batches and partial participation.

Nothing adapts here. Steps that are not given are safe for the most curved site: eta eta_g tau is
1/L, for a method with proximal subproblems gamma is 1/L and eta 1/(L + 1/gamma). Rounds do not tell
the objective, so every few of them all sites are asked for their full gradients.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from proxfl.algorithms import REGISTRY
from proxfl.core import Algorithm
from proxfl.engine.round import compiled_exchanges, one_round
from proxfl.errors import InputError
from proxfl.points import Point, norm
from proxfl.problem import Problem
from proxfl.prox import OnLeaves, Zero
from proxfl.train.drivers.driver import Driver, Record, Settings, output
from proxfl.train.spec import Spec

EVERY = 10  # rounds between two certificates, which cost one more exchange


class State(NamedTuple):
    """Everything the server knows."""

    algorithm: Any
    server: Any
    scale: Any
    start: Any
    round: Any
    counted: Any


def applies(spec: Spec) -> bool:
    """Whether a spec asks for what no driver that adapts can do."""
    own = spec.algorithm in ("auto", "newton", "decoupled")
    return not own or spec.batch is not None or spec.cohort is not None


def named(spec: Spec) -> str:
    """The method of fixed steps that a spec asks for."""
    return "decoupled" if spec.algorithm == "auto" else spec.algorithm


@dataclasses.dataclass
class FixedSteps(Driver):
    """A method as it is published, with the steps given or safe ones."""

    name: str = "decoupled"

    def begin(self) -> State:
        x0 = self.problem.x0
        algorithm = method(self.name, self.settings, *self.curvatures())
        algorithm = jax.tree.map(lambda v: jnp.asarray(v, jnp.float64), algorithm)
        server = jax.tree.map(jnp.asarray, algorithm.init(self.problem.g, x0)[0])
        found = self.evaluate_start()
        start = found.loss + self.problem.g.value(x0)
        return State(
            algorithm=algorithm,
            server=server,
            scale=norm(found.gradient),
            start=jnp.asarray(start, jnp.float64),
            round=jnp.asarray(0),
            counted=jnp.asarray(0),
        )

    def algorithm(self, state: State) -> Algorithm:
        return state.algorithm

    def model(self, state: State) -> Point:
        return output(state.algorithm, self.problem.g, state.server)

    def one_round(self, state: State) -> tuple[State, Record]:
        algorithm, made = state.algorithm, int(state.round)
        exchanges, before = compiled_exchanges(algorithm), (state.server, int(state.counted))
        ask = self.federation.asked_in(algorithm, made)
        server, counted, _ = one_round(exchanges, self.problem.g, *before, ask)
        finished = made + 1
        after = State(
            algorithm=algorithm,
            server=server,
            scale=state.scale,
            start=state.start,
            round=jnp.asarray(finished),
            counted=jnp.asarray(counted),
        )
        eta, objective, optimality = step_of(self.name, algorithm), np.nan, np.nan
        sound = all(np.isfinite(np.asarray(leaf)).all() for leaf in jax.tree.leaves(server))
        due = finished % EVERY == 0 or finished >= self.settings.rounds
        if sound and due and not self.federation.away:  # a certificate needs everyone
            objective, _, optimality, *_ = self.look(after)
            sound = np.isfinite(objective) and np.isfinite(optimality)
        if not sound:
            raise InputError(
                f"{self.name} diverged: after round {finished} its model is no longer finite; "
                f"set an eta below {eta:.2g}."
            )
        return after, Record(finished, objective, optimality, eta, True)


def step_of(name: str, algorithm: Any) -> float:
    return float(getattr(algorithm, "eta" if "eta" in fields(name) else "step"))


def fields(name: str) -> dict[str, dataclasses.Field]:
    kind: Any = REGISTRY[name]
    return {field.name: field for field in dataclasses.fields(kind)}


def method(name: str, settings: Settings, mean: float, largest: float) -> Algorithm:
    """The method with the steps given, or safe ones for curvatures of this mean and maximum."""
    takes, tau, eta_g = fields(name), settings.local_steps, settings.eta_g or 1.0
    safe = 1 / (2 * largest) if "gamma" in takes else 1 / (largest * tau * eta_g)
    values = {
        "eta": safe if settings.eta is None else settings.eta,
        "eta_g": eta_g,
        "tau": tau,
        "gamma": 1 / largest,
        "step": 1 / mean if settings.eta is None else settings.eta,
    }
    return REGISTRY[name](**{key: value for key, value in values.items() if key in takes})


STEPS = ("eta", "step", "gamma")


def refuse_method(spec: Spec) -> None:
    """Refuse, in a sentence, options that the method named does not take."""
    if spec.algorithm == "newton":
        raise InputError(
            "algorithm 'newton' takes all rows of all sites; drop batch and cohort, or use "
            "'decoupled'."
        )
    name, takes = named(spec), fields(named(spec))
    lacking = [
        key
        for key, field in takes.items()
        if field.default is dataclasses.MISSING and key not in STEPS
    ]
    if lacking:
        raise InputError(
            f"algorithm {name!r} needs {', '.join(lacking)}, which no option gives; run it from "
            "Python with proxfl.simulate, or use 'decoupled'."
        )
    if spec.local_steps > 1 and "tau" not in takes:
        raise InputError(f"algorithm {name!r} takes one step a round; drop local_steps.")
    if spec.eta_g is not None and "eta_g" not in takes:
        raise InputError(f"algorithm {name!r} has no server step; drop eta_g.")
    if spec.cohort is not None and method(name, Settings(), 1.0, 1.0).needs_everyone:
        raise InputError(
            f"algorithm {name!r} needs every site in every round; drop cohort, or use "
            "'decoupled-partial'."
        )


def refuse_nonsense(spec: Spec, problem: Problem, rows: Sequence[int]) -> None:
    """Refuse, in a sentence, what the method named cannot do or would ignore."""
    refuse_method(spec)
    name, g = named(spec), problem.g
    penalty = g.g if isinstance(g, OnLeaves) else g
    if (
        not isinstance(penalty, Zero)
        and float(method(name, Settings(), 1.0, 1.0).longest_prox) == 0
    ):
        raise InputError(
            f"algorithm {name!r} is for smooth objectives and would ignore the penalty; drop the "
            "penalty, or use 'decoupled'."
        )
    if (spec.cohort or 1) > len(rows):
        raise InputError(f"cohort must be at most the {len(rows)} sites, got {spec.cohort}.")
    if (spec.batch or 1) > min(rows):
        raise InputError(
            f"batch must be at most the {min(rows)} rows of the smallest site, got {spec.batch}."
        )
