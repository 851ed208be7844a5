"""The sites of one experiment, near or far, as a training run may use them.

A driver talks to this interface only, so the same run goes over a list of arrays in
one process or over real sites in a Flower deployment. Every method is one exchange with the sites;
what leaves a site is what its reply holds, and never a row of its data.
"""

import abc
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np

from proxfl.core import Algorithm, Received
from proxfl.engine.round import Ask
from proxfl.points import Point, Scalar


class Link(NamedTuple):
    """What lies between a server and its sites, for predictions of how long a run takes."""

    latency: float  # seconds an exchange takes, however little it carries
    bandwidth: float  # bytes a second between a site and the server


# Assumed of real sites; and measured inside one process, where bytes do not travel.
FAR, NEAR = Link(1.0, 1e6), Link(0.002, np.inf)


class Call(NamedTuple):
    """One exchange of an algorithm, as the server asks for it.

    `step` numbers the exchanges of an experiment and is never used twice. `counted` is the last
    step whose replies entered the server's state: a client starts from the state it had after that
    step, so a reply that was lost, late or rejected never happened. Sites therefore keep two
    generations of state: the one they started from and the one they ended in.
    """

    step: int
    counted: int
    round: int
    exchange: int


class Exact(NamedTuple):
    """What an exchange is known to ask for: an uplink is `factor` times the gradient at `x`.

    Beside it the client reports its `loss` there. So a site says in a round what it may be asked
    for otherwise, too, and a federation can hold the one against the other.
    """

    x: Point
    factor: float


class Answers(NamedTuple):
    """What came back: the mean uplink, the mean of the clients' metrics, and who answered."""

    received: Received
    info: dict[str, Scalar]
    sites: tuple[str, ...]


class Federation(abc.ABC):
    link: ClassVar[Link] = FAR
    by_site: ClassVar[bool] = True  # whether an answer is that of one site

    @property
    @abc.abstractmethod
    def sites(self) -> tuple[str, ...]:
        """The sites' names, in the fixed order in which sums are taken."""

    @property
    def away(self) -> frozenset[str]:
        """Sites that the last exchange went on without; a question to all would wait for them."""
        return frozenset()

    @abc.abstractmethod
    def ask(self, task: str, payload: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        """Every site's answer to a named task of `proxfl.train.tasks`, by site."""

    @abc.abstractmethod
    def visit(
        self, algorithm: Algorithm, call: Call, down: Any, exact: Exact | None = None
    ) -> Answers:
        """One exchange of the algorithm with the sites."""

    def asked_in(self, algorithm: Algorithm, number: int) -> Ask:
        """How `one_round` asks the sites in a round: the last counted step stands for them."""

        def ask(counted: int, down: Any, e: int) -> tuple[int, Received, dict[str, Scalar]]:
            call = Call(step=counted + 1, counted=counted, round=number, exchange=e)
            answers = self.visit(algorithm, call, down)
            return call.step, answers.received, answers.info

        return ask
