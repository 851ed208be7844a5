"""Each numbered inequality of docs/theory.md: its left sides, its right sides, and their scale.

Both sides of every line are non-negative, so their ratio says how tight it is. Norms are root mean
squares over replicates of the noise; with full gradients there is one replicate.
"""

from collections.abc import Callable, Iterator
from functools import cached_property

import numpy as np

from proxfl.research import theory
from tests.research.exactness.loop import Run, prox

Sides = tuple[np.ndarray, np.ndarray, float]
TINY = 1e-10  # of the scale at the start: below this, rounding errors decide
SLACK = 1e-6


class Seen:
    """The letters of the proofs, for one run."""

    def __init__(self, run: Run):
        self.run, self.sites, self.tau, self.eta_g = run, run.sites, run.tau, run.eta_g
        self.step = run.step
        self.gamma = self.step / run.eta_g
        self.L, self.L_f = run.sites.L, run.sites.L_f
        self.q, self.q_f, self.theta = (
            self.L * self.step,
            self.L_f * self.step,
            self.L * self.gamma,
        )
        h = 1 + self.theta / self.tau
        self.kappa = (h**self.tau - 1 - self.theta) / self.theta**2 if self.tau > 1 else 0.0
        self.alpha = self.kappa * (1 / self.eta_g + self.theta)
        self.beta = self.kappa * self.theta
        self.p, self.after = run.p[:-1], run.p[1:]

    def rms(self, a):
        """Over replicates (second axis) and coordinates (last): an axis of rounds is left."""
        return np.sqrt((a**2).sum(-1).mean(axis=1))

    def over_clients(self, a):
        """|.|_w of arrays [..., replicates, clients, d], root mean square over replicates."""
        return np.sqrt(np.einsum("...rij,i->...r", a**2, self.sites.w).mean(axis=-1))

    @cached_property
    def xi(self):
        return (self.run.x - self.run.p)[:-1] / self.step

    @cached_property
    def grad(self):
        """The gradient of the mean loss at p."""
        return self.sites.mean.grad(self.p[..., None, :])[..., 0, :]

    @cached_property
    def away(self):
        """D = z - p, by round, local step, replicate, client."""
        return self.run.z - self.p[:, None, :, None]

    @cached_property
    def d(self):
        return self.over_clients(self.away)

    @cached_property
    def delta(self):
        return self.d.mean(axis=1)

    @cached_property
    def S(self):
        return self.rms(self.after - self.p)

    @cached_property
    def e(self):
        v = np.einsum("Rtrij,i->Rrj", self.run.taken, self.sites.w) / self.tau
        return v - self.grad

    @cached_property
    def A(self):
        each = self.sites.grad(np.repeat(self.p[:, :, None], len(self.sites.w), axis=2))
        return self.over_clients(self.gamma * (each + self.run.c + self.xi[:, :, None]))

    @cached_property
    def best(self):
        """p - step * G: where Q is least."""
        return prox(self.run.case, self.p - self.step * self.grad, self.step)

    @cached_property
    def G(self):
        return self.rms(self.p - self.best) / self.step

    @cached_property
    def least_Q(self):
        s = self.best - self.p
        smooth = (self.grad * s + s**2 / (2 * self.step)).sum(-1)
        return (smooth + self.run.value(self.best) - self.run.value(self.p)).mean(axis=1)

    @cached_property
    def fall(self):
        """F(p) - F(p+)."""
        g = self.run.value(self.p) - self.run.value(self.after)
        return (g - self.sites.rise(self.p, self.after)).mean(axis=1)

    def gap(self, solution):
        """F(p) - F(solution), for every p and the last one."""
        there = np.broadcast_to(solution, self.run.p.shape)
        smooth = -self.sites.rise(self.run.p, there)
        return (smooth + self.run.value(self.run.p) - self.run.value(there)).mean(axis=1)

    @cached_property
    def at_start(self):
        """The clients' gradients at the start."""
        return self.sites.grad(np.repeat(self.p[:1, :, None], len(self.sites.w), axis=2))

    @cached_property
    def slope(self) -> float:
        """The scale of gradients; that of moves is a round's step times it."""
        return float(self.over_clients(self.at_start)[0])

    @cached_property
    def move(self) -> float:
        return self.step * self.slope

    @cached_property
    def zeta(self):
        """zeta_0: how far the clients' gradients are from their mean at the start."""
        return self.over_clients(self.at_start - self.grad[:1, :, None])[0]

    @cached_property
    def omega(self):
        return self.run.case.distance(self.p[0, 0], self.grad[0, 0])

    @cached_property
    def Z(self):
        return np.hypot(self.zeta, self.omega)


def two(s: Seen) -> Iterator[Sides]:
    """|D_{i,t}| <= eta |sum_{s<t} (grad + c_i + xi)|."""
    each = s.run.taken + (s.run.c + s.xi[:, :, None])[:, None]
    summed = np.cumsum(each, axis=1)[:, :-1]
    right = s.run.eta * np.linalg.norm(summed, axis=-1)
    yield np.linalg.norm(s.away[:, 1:], axis=-1), right, s.move


def four(s: Seen) -> Iterator[Sides]:
    """d_t <= (A / theta) ((1 + theta/tau)^t - 1), and on average delta <= kappa A."""
    t = np.arange(s.tau)
    yield s.d, s.A[:, None] / s.theta * ((1 + s.theta / s.tau) ** t - 1), s.move
    yield s.delta, s.kappa * s.A, s.move


def five(s: Seen) -> Iterator[Sides]:
    """A by the last round, and at the start; hence the drift."""
    yield s.A[1:], (1 / s.eta_g + s.theta) * s.S[:-1] + s.theta * s.delta[:-1], s.move
    yield s.delta[1:], s.alpha * s.S[:-1] + s.beta * s.delta[:-1], s.move
    yield s.delta[:1], s.kappa * s.gamma * np.array([s.Z]), s.move


def six(s: Seen) -> Iterator[Sides]:
    """|e| <= L delta."""
    yield s.rms(s.e), s.L * s.delta, s.slope


def seven(s: Seen) -> Iterator[Sides]:
    """The first drift without omega_0, if eta_g >= 1."""
    if s.eta_g >= 1:
        more = ((1 + s.theta / s.tau) ** (s.tau - 1) - 1) / s.theta
        yield s.delta[:1], more * s.step * s.G[:1] + s.kappa * s.gamma * s.zeta, s.move


def eight(s: Seen) -> Iterator[Sides]:
    """Descent, with what falls on the right."""
    left = -s.step * s.least_Q + (1 - s.q_f) * s.S**2 / 2
    yield left, s.step * s.fall + (s.step * s.rms(s.e)) ** 2 / 2, s.move**2


def nine(s: Seen) -> Iterator[Sides]:
    """min Q <= -step |G|^2 / 2."""
    yield s.step * s.G**2 / 2, -s.least_Q, s.step * s.slope**2


def eleven(s: Seen) -> Iterator[Sides]:
    """The square of the drift."""
    if s.beta < 1:
        right = (s.alpha * s.S[:-1]) ** 2 / (1 - s.beta) + s.beta * s.delta[:-1] ** 2
        yield s.delta[1:] ** 2, right, s.move**2


def descent(s: Seen) -> Iterator[Sides]:
    """Theorem A: V+ + step^2 |G|^2 / 2 <= V, with the part of V that does not change left out."""
    share = s.q**2 / (2 * (1 - s.beta))
    falls = s.step * s.fall[:-1] + share * s.delta[:-1] ** 2
    yield share * s.delta[1:] ** 2 + (s.step * s.G[:-1]) ** 2 / 2, falls, s.move**2


def start_of(s: Seen, gap: float) -> theory.Start:
    return theory.Start(gap, float(s.zeta) ** 2, float(s.omega) ** 2)


def setting_of(s: Seen) -> theory.Setting:
    return theory.Setting(s.L, s.L_f, s.step, s.eta_g, s.tau)


def first_gap(s: Seen) -> float:
    """F(p0) less a lower bound of F: no penalty of the list is negative anywhere."""
    return float(s.sites.value(s.p[0, 0]) + s.run.value(s.p[0])[0] - s.sites.least)


def residual(s: Seen) -> Iterator[Sides]:
    """Theorem A: the mean of |G|^2 over the rounds so far."""
    rounds = np.arange(1, len(s.G) + 1)
    bound = setting_of(s).residual(start_of(s, first_gap(s)), rounds)
    yield np.cumsum(s.G**2) / rounds, bound, s.slope**2


def ten(s: Seen, gap: np.ndarray) -> Iterator[Sides]:
    """Strong convexity gives the proximal PL inequality."""
    yield s.sites.mu * s.step * gap[:-1], -s.least_Q, s.step * s.slope**2


def shrinking(s: Seen, gap: np.ndarray) -> Iterator[Sides]:
    """Theorem B: V+ <= rho V."""
    rho = 1 - s.sites.mu * s.step
    V = s.step * gap[:-1] + s.q**2 * s.delta**2 / (2 * (rho - s.beta))
    yield V[1:], rho * V[:-1], float(V[0])


def objective(s: Seen, gap: np.ndarray) -> Iterator[Sides]:
    """Theorem B: the objective after every round."""
    bound = setting_of(s).objective(start_of(s, gap[0]), s.sites.mu, np.arange(len(gap)))
    yield gap, bound, float(gap[0])


Line = Callable[[Seen], Iterator[Sides]]

# Those that hold whatever the steps (beta < 1 in 11), and those within the condition of Theorem A.
ANYWHERE: dict[str, Line] = {
    "(2)": two,
    "(4)": four,
    "(5)": five,
    "(6)": six,
    "(7)": seven,
    "(8)": eight,
    "(9)": nine,
    "(11)": eleven,
}
WITHIN: dict[str, Line] = {"A, V descends": descent, "A, the mean residual": residual}
# Those of strongly convex problems, within the conditions of Theorem B; they know the solution.
STRONGLY: dict[str, Callable[[Seen, np.ndarray], Iterator[Sides]]] = {
    "(10)": ten,
    "B, V shrinks": shrinking,
    "B, the objective": objective,
}


def tightest(sides: Iterator[Sides]) -> float:
    """The largest ratio of left to right among lines large enough to tell; 0 if there are none."""
    worst = 0.0
    for left, right, scale in sides:
        large = left > TINY * scale
        ratio = left[large] / np.maximum(right[large], TINY * scale)
        worst = max(worst, float(np.max(ratio, initial=0.0)))
    return worst
