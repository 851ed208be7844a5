"""What an algorithm is, and what it may see.

The problem is `minimise sum_i w_i f_i(x) + g(x)`. A round is `broadcast -> client -> mean ->
server`; all that survives it is one server state and one state per client, both pytrees.
"""

import abc
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PRNGKeyArray

from proxfl.points import Point, Scalar, dtype

S = TypeVar("S")  # the server's state
C = TypeVar("C")  # one client's state
D = TypeVar("D")  # the message down
U = TypeVar("U")  # the message up


class Objective(NamedTuple):
    """One client's smooth part f_i, as an algorithm may see it.

    The key *is* the minibatch: equal keys give equal batches, which is what variance-reduced
    methods need when they compare gradients at two points.
    """

    grad: Callable[[Point, PRNGKeyArray], Point]
    full_grad: Callable[[Point], Point]
    value: Callable[[Point], Scalar]


class Regulariser(abc.ABC):
    """The shared, usually non-smooth part g."""

    @abc.abstractmethod
    def value(self, x: Point) -> Scalar: ...

    @abc.abstractmethod
    def prox(self, x: Point, step: Scalar) -> Point:
        """The u that minimises step * g(u) + |u - x|^2 / 2."""

    @abc.abstractmethod
    def distance(self, x: Point, grad: Point) -> Scalar:
        """How far -grad is from the subdifferential of g at x: zero exactly at an optimum."""

    @abc.abstractmethod
    def bound(self, x: Point) -> Scalar:
        """B_g, the longest subgradient at any point shaped like x; infinite where there is none."""

    @property
    def step_limit(self) -> Scalar:
        """The prox is single-valued for steps below this; infinite when g is convex."""
        return jnp.inf

    @property
    def is_sublinear(self) -> bool:
        """Whether g is known to be a norm, or 0 on a convex cone, or a sum of such."""
        return False

    def conjugate(self, v: Point) -> Scalar | None:
        """g*(v) = max_x <v, x> - g(x); None where no formula is known.

        A sublinear g needs none: g*(v) is 0 where v is a subgradient at 0, else infinite.
        """
        return None


class Reply(NamedTuple):
    """What a client hands back: its own next state, the uplink, and metrics only it can see."""

    state: Any
    up: Any
    info: dict[str, Scalar] = {}


class Compact(abc.ABC):
    """A part of an uplink that is smaller on the wire than what it stands for."""

    @abc.abstractmethod
    def expand(self) -> Any:
        """What it stands for; the mean over clients is taken of this."""


def is_compact(part: Any) -> bool:
    return isinstance(part, Compact)


def expand(up: Any) -> Any:
    """One client's uplink with every compact part of it written out."""
    write_out = lambda part: part.expand() if is_compact(part) else part
    return jax.tree.map(write_out, up, is_leaf=is_compact)


class Received(NamedTuple):
    """What reaches the server: the weighted mean uplink of the clients that answered.

    `share` is the total weight of those clients, in (0, 1]; 1 under full participation.
    """

    mean: Any
    share: Scalar
    key: PRNGKeyArray


class Algorithm(abc.ABC, Generic[S, C, D, U]):
    """Fields are hyper-parameters (a pytree); methods are pure; `self` never changes.

    `needs_everyone` says whether the method is undefined when some clients sit a round out.
    """

    needs_everyone: Any  # a truth value, or a property that gives one
    longest_prox: Any = jnp.inf  # the largest step it ever gives to `g.prox`; may be a property

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if not hasattr(cls, "needs_everyone"):
            raise TypeError(
                f"{cls.__name__} does not say whether a round needs every client; set its "
                "needs_everyone to True or False."
            )

    @abc.abstractmethod
    def init(self, g: Regulariser, x0: Point) -> tuple[S, C]:
        """The server's state and every client's state before the first round."""

    @abc.abstractmethod
    def broadcast(self, g: Regulariser, server: S) -> D: ...

    @abc.abstractmethod
    def client(
        self, f: Objective, g: Regulariser, state: C, down: D, key: PRNGKeyArray
    ) -> Reply: ...

    @abc.abstractmethod
    def server(self, g: Regulariser, server: S, received: Received) -> S: ...

    @abc.abstractmethod
    def output(self, g: Regulariser, server: S) -> Point:
        """The model this method reports; every metric is evaluated here."""

    @property
    def client_noise(self) -> dict[str, Scalar]:
        """The numbers that set the noise a client adds before anything leaves it; none: no noise.

        A deployed client draws such noise from a secret of its own and lets no server change them.
        """
        return {}

    def exchanges(self) -> tuple[Any, ...]:
        """The down-client-up-server exchanges that make one round, in order."""
        return (self,)


def repeat(
    step: Callable[[Any, Scalar, PRNGKeyArray], Any], carry: Any, key: PRNGKeyArray, times: int
) -> Any:
    """`carry = step(carry, t, key_t)` for t = 0, ..., times - 1.

    `t` comes in the floating type of the carry, since methods use it only to scale steps.
    """
    keys = jax.random.split(key, times)
    steps = jnp.arange(times, dtype=dtype(carry))

    def body(carry, t_and_key):
        return step(carry, *t_and_key), None

    return jax.lax.scan(body, carry, (steps, keys))[0]


def repeat_drawn(
    step: Callable[[Any, Scalar, PRNGKeyArray], Any],
    carry: Any,
    key: PRNGKeyArray,
    times: Int[Array, ""],
) -> Any:
    """`repeat` where the number of times is drawn at random, so known only to a running program."""
    kind = dtype(carry)

    def body(t, carry):
        return step(carry, jnp.asarray(t, kind), jax.random.fold_in(key, t))

    return jax.lax.fori_loop(0, times, body, carry)
