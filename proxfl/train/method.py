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
WIDE, HESSIANS = {"newton": 22, "decoupled": 200}, 5
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


def in_digits(seconds: float) -> str:
    """Two digits, or all of a whole number."""
    return f"{seconds:.0f}" if seconds >= 10 else f"{seconds:.2g}"


def method_for(spec: Spec, agreement: Agreement, link: Link, along_path: bool = False) -> Method:
    """The method that a spec asks for or, if it leaves that open, the better one.

    It may be another one for the models along a path.
    """
    if spec.dp_clip is not None:
        return Method(ALGORITHM, REASON)
    if spec.algorithm != "auto":
        return Method(spec.algorithm, "It was asked for.")
    why_not = unfit(spec, agreement, along_path)
    if why_not:
        return Method("decoupled", f"Algorithm 1, since {why_not}.")
    costs = {name: cost(name, spec, agreement, link, along_path) for name in EXCHANGES}
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


def cost(name: str, spec: Spec, agreement: Agreement, link: Link, along_path: bool = False) -> Cost:
    """For the largest site, up and down, and the server; one process does the work of all sites."""
    count = coefficients(agreement)
    rows = sum(agreement.rows) if link == NEAR else max(agreement.rows)
    sets = on_sets(spec, agreement) and not along_path
    exchanges, known = (WIDE if sets else EXCHANGES)[name], count
    if sets:  # a model with l1 has no more coefficients than there are rows
        known = min(count, sum(agreement.rows), working_set.MOST)
    elif loss_of(spec).quadratic and name == "newton":
        exchanges = 3
    hessians = (HESSIANS if sets else exchanges) if name == "newton" else 0
    numbers = exchanges * 3 * count + hessians * known * (known + 1) / 2
    steps = exchanges * (CUBES_ON_SETS if sets else CUBES) if name == "newton" else 0
    products = rows * hessians * known**2 + steps * known**3
    work = 4 * rows * exchanges * count / SPEED + products / SPEED_OF_PRODUCTS
    seconds = exchanges * link.latency + 8 * numbers / link.bandwidth + work
    return Cost(exchanges, 8 * numbers, seconds)


def coefficients(agreement: Agreement) -> int:
    return (len(agreement.features) + 1) * len(agreement.targets)
