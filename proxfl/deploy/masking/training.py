"""Training from sums alone: the questions of a run; `answering.py` has what a site says to each.

    rows        how much the site's rows count, how many they are, and how many were dropped
    sums        per feature, counts and sums of what is not missing
    squares     per feature, sums of squares around the mean of all sites
    TASK        the site's answer to a task of `proxfl.train.tasks`, times how much its rows count
    round       the same of an algorithm's uplink and metrics

A driver sees one site, called "all sites", whose answers are the means over all rows. Of these no
two may contradict each other (`claims.py`), and a certificate counts if it is met twice, by answers
none of which is in both: so one false sum forges none.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

import jax
import jax.numpy as jnp
import numpy as np

from proxfl.core import Algorithm, Received
from proxfl.deploy.masking.replica import Ask, Question
from proxfl.deploy.protocol.claims import Claims, Impossible, is_smooth
from proxfl.deploy.protocol.trees import pack
from proxfl.engine.fixed_point import STEP
from proxfl.engine.masked import means
from proxfl.engine.messages import Exchange, messages
from proxfl.engine.visit import round_key
from proxfl.errors import InputError
from proxfl.losses.targets import Label
from proxfl.precision import precision
from proxfl.problem import Problem, Shard
from proxfl.storage.checkpoint import named_arrays
from proxfl.train.agreement import (
    Agreement,
    agree,
    needs_moments,
    problem_of,
    shard_form,
)
from proxfl.train.drivers import fixed
from proxfl.train.drivers.driver import Driver, Record, Solution, solve
from proxfl.train.federation import Answers, Call, Exact, Federation
from proxfl.train.privacy import noise_of
from proxfl.train.spec import Spec, columns_of, declared, loss_of
from proxfl.train.tasks import TASKS
from proxfl.train.train import Trained, settings_of, solved

ALL = "all sites"
SETUP = ("rows", "sums", "squares")  # what is asked before there is a model to ask about
SETTINGS, DOWN = "settings ", "down "  # before the names of an algorithm's numbers and message
NO_NUMBERS: dict[str, np.ndarray] = {}
MOST_ROWS = 2**40  # of all sites together
LONGEST = 10.0  # a round's steps together, by the step that the sum's curvature surely bears
FALSE = "Numbers of some site are false, and masks hide whose"
REMEDY = "have every site check its version of proxfl, or ask unmasked"
UNCONFIRMED = (
    f"{FALSE}: asked again, all together told what does not meet the certificate; {REMEDY}."
)


def refuse_unmaskable(spec: Spec) -> None:
    """Refuse what cannot be had from sums over all sites and all of their rows."""
    if spec.cohort is not None or spec.batch is not None:
        raise InputError(
            "a masked run needs all sites and all of their rows in every exchange; leave out "
            "cohort and batch, or use --unmasked."
        )
    if not fixed.applies(spec):
        return
    if spec.eta is None:
        raise InputError(
            f"algorithm {spec.algorithm!r} takes its step from the most curved site, which a sum "
            "does not tell; give eta, or use --unmasked."
        )
    if fixed.method(fixed.named(spec), settings_of(spec), 1.0, 1.0).client_noise:
        raise InputError(
            f"the noise of algorithm {spec.algorithm!r} is for each site's answer; use dp_clip, or "
            "--unmasked."
        )


class MaskedTraining:
    """The program of a training run, for the server and for every site that follows it.

    `agreements`, `dropped` and `found` are known once the run has come to them; `watch` is called
    after every round. Beside the set of all rows there is one for each of its `folds`, of the rows
    that the fold leaves: none, but along a path. `final` is the problem of the model that is found.
    """

    folds: tuple[str, ...] = ()

    def __init__(
        self,
        spec: Spec,
        members: int,
        features: tuple[str, ...],
        labels: Sequence[Label] = (),
        watch: Callable[[Driver, list[Record]], None] = lambda driver, records: None,
    ):
        if loss_of(spec).target.most and not (declared(spec) or labels):
            raise InputError(
                "a masked run must know the classes beforehand; give a schema that names those of "
                f"column {columns_of(spec)[0]!r}."
            )
        refuse_unmaskable(spec)
        self.spec, self.members, self.watch = spec, members, watch
        self.features, self.labels = features, list(labels)
        self.agreements: list[Agreement] = []  # by set, that of all rows first
        self.federation: SumFederation | None = None
        self.found: Trained | None = None
        self.dropped, self.final = 0, spec

    @property
    def agreement(self) -> Agreement | None:
        """That of all rows."""
        return self.agreements[0] if self.agreements else None

    def __call__(self, ask: Ask) -> Question:
        with precision(np.float64):
            mass, _ = self.agree(ask)
            return self.trained(ask, float(mass[0]))

    def trained(self, ask: Ask, mass: float) -> Question:
        """The final problem solved, from sums over all rows, which count so much."""
        agreement = self.agreements[0]
        problem = problem_of(self.final, agreement)
        refuse_chosen_start(problem)
        rows = shard_form(self.final, agreement), mass, self.members
        self.federation = SumFederation(ask, problem, *rows, self.final.seed)
        self.found = solved(self.final, self.federation, problem, agreement, self.drive)
        numbers, _ = pack({"x": self.found.solution.x})
        return Question("model", arrays(numbers), 0)

    def drive(self, driver: Driver) -> Solution:
        self.refuse_long_steps(driver)
        found = solve(driver, watch=lambda state, records: self.watch(driver, records))
        if not found.converged or driver.certify_anew(found.state).converged:
            return found
        return found._replace(converged=False, obstacle=UNCONFIRMED)

    def refuse_long_steps(self, driver: Driver) -> None:
        """Refuse steps by which whoever writes a study chooses the models: from a gradient that is
        known, one long step with weights for each feature leads wherever they like."""
        spec, tau, eta_g = self.spec, self.spec.local_steps, self.spec.eta_g or 1.0
        if (spec.eta is None and spec.eta_g is None) or noise_of(spec) is not None:
            return  # steps are found from sums, or what a model tells has its own bound
        mean, _ = driver.curvatures()
        eta = spec.eta or 1 / (mean * eta_g * tau)
        if eta * tau * max(eta_g, 1.0) * mean > LONGEST:
            raise InputError(
                f"steps of {eta:g}, {tau} in a round and {eta_g:g} times as long at the server, "
                "are so long that the study would choose the models that sites tell about; leave "
                f"eta_g out and give an eta of {LONGEST / (tau * mean):.2g} or less."
            )

    def agree(self, ask: Ask) -> tuple[np.ndarray, np.ndarray]:
        """What all sites' tables come to, for every set; how much the rows of each count, and by
        fold, those that it left out."""
        folds, width, moments = len(self.folds), len(self.features), [{}] * (1 + len(self.folds))
        told = ask(Question("rows", NO_NUMBERS, 4 * folds + 5))
        by_set, out, (sites, dropped) = np.split(told, [3 * folds + 3, 4 * folds + 3])
        by_set = by_set.reshape(-1, 3)
        self.refuse_counts(by_set, sites, dropped)
        mass, rows, total = by_set.T
        self.dropped = int(dropped)
        if needs_moments(self.spec):
            split = lambda found: found.reshape(folds + 1, -1, width).transpose(1, 0, 2)
            count, sums = split(ask(Question("sums", NO_NUMBERS, 2 * (folds + 1) * width)))
            mean = sums / np.where(count > 0, count, 1.0)
            (squares,) = split(ask(Question("squares", {"mean": mean}, (folds + 1) * width)))
            self.refuse_moments(count, squares, total[0])
            each = zip(count, mean, squares, strict=True)
            moments = [dict(zip(("count", "mean", "squares"), one, strict=True)) for one in each]
        each = zip(rows, total, moments, strict=True)
        self.agreements = [self.agreed(*both, **of) for *both, of in each]
        return mass, out

    def refuse_counts(self, sets: np.ndarray, sites: float, dropped: float) -> None:
        """Refuse counts that no sites have; of each set of rows how much it counts, how many rows
        it has, and how much these count in all. The first set is all rows."""
        mass, rows, total = sets.T
        counted = np.array([*rows, dropped])
        by_rows = self.spec.weights == "samples"
        unweighted = self.spec.row_weights is None
        if sites != self.members:
            refuse_told(f"that they are {sites:g}, and not the {self.members} of the study")
        if (counted != np.round(counted)).any() or not (0 <= counted).all():
            refuse_told("numbers of rows that are none")
        if (counted > MOST_ROWS).any() or rows[0] < self.members:
            refuse_told(f"of {rows[0]:g} rows, which is too many, or not one for each of them")
        if (total < 0).any() or total[0] <= 0 or (unweighted and (total != rows).any()):
            refuse_told("that their rows count otherwise than rows do")
        if (mass != total).any() if by_rows else mass[0] != sites or (mass > sites).any():
            refuse_told("that they weigh otherwise than the study says")
        for name, found in zip(self.folds, rows[1:], strict=True):
            if not found:
                raise InputError(f"{name} leaves no row to train on; use fewer folds.")

    def refuse_moments(self, count: np.ndarray, squares: np.ndarray, total: float) -> None:
        """Refuse what no column holds, by how much all rows count."""
        rounding = self.members * STEP
        if (count < 0).any() or (count > total + rounding).any() or (squares < 0).any():
            refuse_told("counts or squares that no column has")

    def agreed(self, rows: float, total: float, **moments: np.ndarray) -> Agreement:
        """The agreement of one site that has so many rows, which count so much in all."""
        told: dict[str, Any] = {"rows": int(rows), "features": list(self.features)}
        told |= {"labels": self.labels, "targets": len(columns_of(self.spec))}
        return agree(self.spec, {ALL: told | {"total": float(total)} | moments})


def refuse_told(what: str) -> NoReturn:
    raise InputError(f"{FALSE}: all together told {what}; {REMEDY}.")


def refuse_chosen_start(problem: Problem) -> None:
    """Refuse constraints by which whoever writes a study chooses the model."""
    if any(np.any(np.asarray(leaf)) for leaf in jax.tree.leaves(problem.x0)):
        raise InputError(
            "a masked run starts from 0, which the constraints leave out, so that the study would "
            "choose the model that sites tell about; change them, or use --unmasked."
        )


class Visiting(NamedTuple):
    """What the last visit was by, for its structure: numbers are those of the question."""

    algorithm: Algorithm
    down: Any


class SumFederation(Federation):
    """All sites as one: the mean over rows is all that is known of them."""

    by_site = False

    def __init__(
        self, ask: Ask, problem: Problem, row: Shard, mass: float, members: int, seed: int
    ):
        self.asking, self.problem, self.row = ask, problem, row
        self.mass, self.members, self.seed = mass, members, seed
        self.claims = Claims(is_smooth(problem.loss), members * STEP / mass)
        self.visiting: Visiting | None = None
        self.shapes: tuple[Exchange, ...] | None = None

    @property
    def sites(self) -> tuple[str, ...]:
        return (ALL,)

    def ask(self, task: str, payload: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        shape = jax.eval_shape(TASKS[task], self.problem, self.row, dict(payload))
        numbers, points = pack(payload)
        kind = " ".join([task, *points])
        total = self.asking(Question(kind, arrays(numbers), size_of(shape)))
        told = means(total, shape, self.mass, self.members)
        self.held(self.claims.hear_answer, task, payload, told)
        return {ALL: told}

    def visit(
        self, algorithm: Algorithm, call: Call, down: Any, exact: Exact | None = None
    ) -> Answers:
        if self.shapes is None:  # once, since tracing takes longer than most visits
            self.shapes = messages(algorithm, self.problem, self.row)
        shape = self.shapes[call.exchange]
        self.visiting = Visiting(algorithm, down)
        settings, message = named_arrays(algorithm), named_arrays(down)
        numbers = {f"{SETTINGS}{name}": value for name, value in settings.items()}
        numbers |= {f"{DOWN}{name}": value for name, value in message.items()}
        numbers["call"] = np.array(call, np.int64)
        told = (shape.up, shape.info)
        total = self.asking(Question("round", numbers, size_of(told)))
        up, info = means(total, told, self.mass, self.members)
        if exact is not None:
            self.held(self.claims.hear_uplink, exact, up, info["loss"])
        key = round_key(jax.random.key(self.seed), call.round, call.exchange, self.members)
        return Answers(Received(up, jnp.ones(()), key), info, self.sites)

    def held(self, hear: Callable[..., None], *about: Any) -> None:
        """Hold what all sites say together to what they have said before."""
        try:
            hear(ALL, *about)
        except Impossible as error:
            raise InputError(f"{FALSE}: as of one site, {error.why}; {REMEDY}.") from None


def size_of(shape: Any) -> int:
    return sum(leaf.size for leaf in jax.tree.leaves(shape))


def arrays(numbers: Mapping[str, Any]) -> dict[str, np.ndarray]:
    return {name: np.asarray(value) for name, value in numbers.items()}
