"""Which method trains a model, if that is left open: the one that should need the least time.

What real sites pay for is exchanges. Newton's method needs few, and sends a Hessian in each, whose
size is the square of the model's; Algorithm 1 needs more, and sends a gradient. A sparse model of
many coefficients needs a few Hessians only, on those that are not zero (`drivers/working_set.py`).
The seconds are those of exchanges, of bytes, of the sites' work and of the server's, which for
Newton's method takes the cube of the model's size. Inside one process an exchange takes next to
nothing and the cube decides; over a network, the exchanges do. All is predicted, from the numbers
below and those of a `Link`. Nothing is measured, so that a run that is resumed chooses as before.
"""

from typing import NamedTuple

from proxfl.console.words import size
from proxfl.errors import InputError
from proxfl.train.agreement import Agreement
from proxfl.train.drivers import working_set
from proxfl.train.federation import NEAR, Link
from proxfl.train.penalties import chosen
from proxfl.train.privacy import ALGORITHM, REASON
from proxfl.train.spec import Spec, loss_of

# About the middle of results/bench/exchanges and, for sparse models of many coefficients, of wide.
EXCHANGES = {"newton": 12, "decoupled": 100}
WIDE, HESSIANS = {"newton": 18, "decoupled": 180}, 4
# Of a path, likewise: exchanges that all its models share and, of each model, those that it is in;
# Algorithm 1 goes from one model to the next.
SHARED, QUADRATIC = (17, 3.5), (4, 1.3)
ROUNDS_A_MODEL = 9
FEW = 500  # coefficients from which on a sparse model is solved for by working sets
SPEED, SPEED_OF_PRODUCTS = 1e9, 1e10  # multiplications a second with a vector, with a matrix
# Multiplications of a step by the cube of what its Hessian is on: with its eigenvalues and the
# derivative of any penalty; and on a set, where linear systems are solved only.
CUBES, CUBES_ON_SETS = 30, 3
MOST = 1500  # coefficients of a Newton step, whose linear systems take the cube of that
WORDS = {"newton": "Newton's method", "decoupled": "Algorithm 1"}


class Method(NamedTuple):
    """A method by its option's name, and why it was taken, in a sentence."""

    name: str
    reason: str


class Cost(NamedTuple):
    """What a site should have to send, and how long a run should take."""

    exchanges: int
    bytes: float
    seconds: float

    def __str__(self) -> str:
        sent = size(round(self.bytes))
        return f"{self.exchanges} exchanges, {sent} and {in_digits(self.seconds)} s"


class Along(NamedTuple):
    """What a path is made of: so many weights, for each of so many sets of sites."""

    weights: int
    sets: int


def in_digits(seconds: float) -> str:
    """Two digits, or all of a whole number."""
    return f"{seconds:.0f}" if seconds >= 10 else f"{seconds:.2g}"


def method_for(spec: Spec, agreement: Agreement, link: Link, along: Along | None = None) -> Method:
    """The method that a spec asks for or, if it leaves that open, the better one.

    It may be another one for the models along a path.
    """
    if spec.dp_clip is not None:
        return Method(ALGORITHM, REASON)
    if spec.algorithm != "auto":
        return Method(spec.algorithm, "It was asked for.")
    why_not = unfit(spec, agreement, along is not None)
    if why_not:
        return Method("decoupled", f"Algorithm 1, since {why_not}.")
    costs = {name: cost(name, spec, agreement, link, along) for name in EXCHANGES}
    name, other = sorted(costs, key=lambda name: costs[name].seconds)
    where = " in one process" if link == NEAR else ""
    return Method(
        name,
        f"{WORDS[name]}, for which about {costs[name]} a site are predicted, against "
        f"{costs[other]} for {WORDS[other]}, at {link.latency:g} s an exchange{where}.",
    )


def on_sets(spec: Spec, agreement: Agreement) -> bool:
    """Whether Newton's method has Hessians on some of many coefficients only."""
    penalties = chosen(spec)
    sparse = any(penalty.sweep is not None for penalty in penalties)
    alone = all(penalty.by_coefficient for penalty in penalties)
    return sparse and alone and coefficients(agreement) > FEW


def unfit(spec: Spec, agreement: Agreement, along_path: bool = False) -> str | None:
    """Why Newton's method cannot do, or would ignore, what is asked; None if it can."""
    given = {"batch": None, "cohort": None, "eta": None, "eta_g": None, "local_steps": 1}
    given |= {"accelerate": True}
    for key, default in given.items():
        if getattr(spec, key) != default:
            return f"{key} means nothing to Newton's method"
    if not loss_of(spec).convex:
        return "the loss is not convex"
    count = coefficients(agreement)
    if count <= MOST or (on_sets(spec, agreement) and not along_path):
        return None
    return f"a Hessian of {count:,} coefficients is too large"


def refuse_newton(spec: Spec, agreement: Agreement, along_path: bool = False) -> None:
    why_not = unfit(spec, agreement, along_path)
    if why_not:
        raise InputError(f"algorithm 'newton' cannot be: {why_not}; use 'auto' or 'decoupled'.")


def cost(
    name: str, spec: Spec, agreement: Agreement, link: Link, along: Along | None = None
) -> Cost:
    """For the largest site, up and down, and the server; one process does the work of all sites."""
    count = coefficients(agreement)
    rows = sum(agreement.rows) if link == NEAR else max(agreement.rows)
    work = workload(name, spec, agreement, along)
    sets = on_sets(spec, agreement) and along is None
    # A model with l1 has no more coefficients than there are rows.
    known = min(count, sum(agreement.rows), working_set.MOST) if sets else count
    numbers = work.models * 3 * count + work.hessians * known * (known + 1) / 2
    steps = work.models * (CUBES_ON_SETS if sets else CUBES) if name == "newton" else 0
    products = rows * work.hessians * known**2 + steps * known**3
    computing = 4 * rows * work.models * count / SPEED + products / SPEED_OF_PRODUCTS
    seconds = work.exchanges * link.latency + 8 * numbers / link.bandwidth + computing
    return Cost(work.exchanges, 8 * numbers, seconds)


class Workload(NamedTuple):
    """Exchanges; in all of them, questions about a model; and those that ask for its Hessian."""

    exchanges: int
    models: float
    hessians: float


def workload(name: str, spec: Spec, agreement: Agreement, along: Along | None) -> Workload:
    newton, quadratic = name == "newton", loss_of(spec).quadratic
    if along is not None:
        models = along.weights * along.sets
        if not newton:
            return Workload(ROUNDS_A_MODEL * models, ROUNDS_A_MODEL * models, 0)
        exchanges, each = QUADRATIC if quadratic else SHARED
        return Workload(exchanges, each * models, along.sets if quadratic else each * models)
    if on_sets(spec, agreement):
        return Workload(WIDE[name], WIDE[name], HESSIANS if newton else 0)
    exchanges = 3 if quadratic and newton else EXCHANGES[name]
    return Workload(exchanges, exchanges, exchanges if newton else 0)


def coefficients(agreement: Agreement) -> int:
    return (len(agreement.features) + 1) * len(agreement.targets)
