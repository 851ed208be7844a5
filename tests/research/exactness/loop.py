"""Algorithm 1 once more in NumPy, which keeps all that the proofs of docs/theory.md speak of.

Arrays have an axis of replicates (of the noise) before that of clients. The only thing taken from
the library is the prox.
"""

from typing import NamedTuple

import jax
import numpy as np

from tests import cases_prox
from tests.cases_prox import Case, shaped


class Sites(NamedTuple):
    """f_i(x) = x'H_i x / 2 - b_i'x + s_i sum_j (1 - cos x_j), of weight w_i; not all are convex."""

    H: np.ndarray
    b: np.ndarray
    s: np.ndarray
    w: np.ndarray

    @property
    def L(self) -> float:
        return float(max(abs(np.linalg.eigvalsh(self.H)).max(axis=1) + abs(self.s)))

    @property
    def mean(self) -> "Sites":
        """The mean loss, as a single client."""
        over = lambda a: np.tensordot(self.w, a, axes=1)[None]
        return Sites(over(self.H), over(self.b), over(self.s), np.ones(1))

    @property
    def L_f(self) -> float:
        return self.mean.L

    @property
    def mu(self) -> float:
        """The strong convexity of the mean; there must be no ripple."""
        assert not self.s.any()
        return float(np.linalg.eigvalsh(self.mean.H[0])[0])

    @property
    def least(self) -> float:
        """No value of the mean loss is below this."""
        H, b = self.mean.H[0], self.mean.b[0]
        return -float(b @ np.linalg.solve(H, b)) / 2 - 2 * len(b) * max(0.0, -self.mean.s[0])

    def grad(self, x):
        """Every client's gradient at its own point: x is [..., clients, d]."""
        ripple = self.s[:, None] * np.sin(x)
        return np.einsum("ijk,...ik->...ij", self.H, x) - self.b + ripple

    def value(self, x):
        """The mean loss at a point."""
        f = self.mean
        return x @ f.H[0] @ x / 2 - f.b[0] @ x + f.s[0] * (1 - np.cos(x)).sum()

    def rise(self, x, y):
        """f(y) - f(x) of the mean loss, to full relative precision however close the two are."""
        f, s = self.mean, y - x
        slope = (f.grad(x[..., None, :])[..., 0, :] - f.s[0] * np.sin(x)) * s
        bend = np.einsum("jk,...k->...j", f.H[0], s) * s / 2
        return (slope + bend + 2 * f.s[0] * np.sin((x + y) / 2) * np.sin(s / 2)).sum(-1)


def draw(seed: int, d: int, clients: int = 4, ripple: float = 0.5) -> Sites:
    """Clients that differ in curvature, optimum and weight; with a ripple some are not convex."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(clients, d, d)) * rng.uniform(0.3, 1.0, (clients, 1, 1))
    H = A @ A.transpose(0, 2, 1) / d + 0.1 * np.eye(d)
    bent = rng.normal(size=(clients, d, d))
    bent = 0.3 * ripple * (bent + bent.transpose(0, 2, 1))
    w = rng.dirichlet(np.full(clients, 3.0))
    H += bent - np.tensordot(w, bent, axes=1)  # leaves the mean as it was
    b = rng.normal(size=(clients, d)) * 2
    return Sites(H, b, ripple * rng.normal(size=clients), w)


class Run(NamedTuple):
    """Rounds of a run; the first axis of every array is that of rounds."""

    sites: Sites
    case: Case
    eta: float
    eta_g: float
    tau: int
    p: np.ndarray  # [rounds + 1, replicates, d]
    x: np.ndarray  # the same, before the prox
    c: np.ndarray  # [rounds, replicates, clients, d]
    z: np.ndarray  # [rounds, tau, replicates, clients, d]
    taken: np.ndarray  # gradients, noise and all: the same
    sigma: float  # the root mean square of the noise of a gradient

    @property
    def step(self) -> float:
        return self.eta * self.eta_g * self.tau

    def value(self, x):
        """g at points [..., d]."""
        return values(self.case, x)

    def prox(self, x, step: float):
        return prox(self.case, x, step)


def run(
    sites: Sites,
    case: Case,
    step: float,
    eta_g: float,
    tau: int,
    rounds: int,
    sigma: float = 0.0,
    replicates: int = 1,
    seed: int = 0,
) -> Run:
    """`rounds` rounds with eta * eta_g * tau = step from a drawn point, full gradients or noisy."""
    rng = np.random.default_rng(seed)
    n, d = sites.b.shape
    eta = step / (eta_g * tau)
    x = np.broadcast_to(rng.normal(size=d), (replicates, d))
    c = np.zeros((replicates, n, d))
    xs, ps, cs, zs, grads = [], [], [], [], []
    for _ in range(rounds):
        p = prox(case, x, step)
        z = z_hat = np.repeat(p[:, None], n, axis=1)
        local, taken = [], []
        for t in range(tau):
            noise = sigma * rng.normal(size=z.shape) / np.sqrt(d) if sigma else 0.0
            grad = sites.grad(z) + noise
            local.append(z)
            taken.append(grad)
            z_hat = z_hat - eta * (grad + c)
            z = prox(case, z_hat, (t + 1) * eta)
        xs, ps, cs = [*xs, x], [*ps, p], [*cs, c]
        zs, grads = [*zs, np.stack(local)], [*grads, np.stack(taken)]
        x = p + eta_g * (np.einsum("i,rij->rj", sites.w, z_hat) - p)
        c = ((p - x) / step)[:, None] - np.mean(taken, axis=0)
    made = np.stack([*ps, prox(case, x, step)]), np.stack([*xs, x])
    return Run(sites, case, eta, eta_g, tau, *made, *map(np.stack, (cs, zs, grads)), sigma)


def solve(sites: Sites, case: Case, rounds: int = 400) -> np.ndarray:
    """The minimiser of a strongly convex F: proximal gradient with Nesterov's momentum."""
    root = np.sqrt(sites.mu / sites.L_f)
    x = y = prox(case, np.zeros((1, sites.b.shape[1])), 1.0)
    for _ in range(rounds):
        gradient = sites.mean.grad(y[:, None])[:, 0]
        x, last = prox(case, y - gradient / sites.L_f, 1 / sites.L_f), x
        y = x + (1 - root) / (1 + root) * (x - last)
    return x[0]


proxes = jax.jit(
    jax.vmap(
        lambda g, like, x, step: cases_prox.flat(g.prox(shaped(like, x), step)),
        in_axes=(None, None, 0, None),
    )
)
values_of = jax.jit(jax.vmap(lambda g, like, x: g.value(shaped(like, x)), in_axes=(None, None, 0)))


def prox(case: Case, x: np.ndarray, step: float) -> np.ndarray:
    return in_chunks(lambda rows: proxes(case.g, case.like, rows, step), x).reshape(x.shape)


def values(case: Case, x: np.ndarray) -> np.ndarray:
    return in_chunks(lambda rows: values_of(case.g, case.like, rows), x).reshape(x.shape[:-1])


CHUNKS = (4, 1600)  # so that few programs are compiled, whatever is asked


def in_chunks(function, x):
    """A function of rows, applied to all points, in pieces of one of two sizes."""
    rows = x.reshape(-1, x.shape[-1])
    chunk = CHUNKS[0] if len(rows) <= 64 else CHUNKS[1]
    padded = np.concatenate([rows, np.repeat(rows[:1], -len(rows) % chunk, axis=0)])
    made = [np.asarray(function(part)) for part in padded.reshape(-1, chunk, rows.shape[1])]
    return np.concatenate(made)[: len(rows)]
