"""A server wholly in an attacker's hands, against one honest site.

The attacker knows the protocol and forges every message: it writes the agreement, chooses the
models and asks as often as it is answered. `Attacker` is what the site lets it do; the attacks are
functions of one. Rows are recovered to 0.1 standard deviations if a guess is that near to a row of
the table in every feature; a row counts once.

    isolate     models so long that slopes are indicators; differences between them are single rows
    tilt        models as long as the site will answer, in which the rows farthest out weigh most
    kinks       models along a line; where sums have kinks in it, second differences are single rows
    outliers    the tail of one feature: its few rows are fitted, all others being powers there
    solve_all   no special models: as many answers as the site gives, and least squares for all rows
    solve_more  the same with the Hessians that a site tells where the study allows Newton's method
"""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from scipy.optimize import least_squares

from proxfl.deploy.protocol import wire
from proxfl.deploy.protocol.membership import Membership
from proxfl.deploy.protocol.study import make_study
from proxfl.deploy.protocol.wire import BadMessage, Header
from proxfl.deploy.site.office import Office
from proxfl.deploy.site.policy import Policy
from proxfl.deploy.site.reception import Reception
from proxfl.precision import precision
from proxfl.train.agreement import agree
from proxfl.train.spec import Spec
from tests.deploy.field import LOOSE

NEAR = 0.1  # standard deviations
OFF, USUAL = LOOSE, Policy(sites=1)

LABELS = {
    "logistic": lambda z, rng: (z + rng.logistic(size=len(z)) > 0).astype(int),
    "poisson": lambda z, rng: rng.poisson(np.exp(z / 4)),
    "gamma": lambda z, rng: np.exp(z / 4) * rng.gamma(2.0, size=len(z)),
}


def victim(
    folder, rows, features=10, policy=USUAL, seed=0, heavy=False, loss="logistic", **options
):
    """A site with a table for a loss and a study of it, and its rows."""
    rng = np.random.default_rng(seed)
    A = rng.lognormal(size=(rows, features)) if heavy else rng.normal(size=(rows, features))
    A = (A - A.mean(0)) / A.std(0)
    z = A @ rng.normal(size=features)
    y = LABELS.get(loss, lambda z, rng: z + rng.normal(size=rows))(z, rng)
    folder.mkdir(parents=True, exist_ok=True)
    names = [f"x{j}" for j in range(features)]
    pd.DataFrame(A, columns=names).assign(y=y).to_csv(folder / "data.csv", index=False)
    membership, office = Membership("clinic", ("north",)), Office(folder / "site", policy)
    site = Reception(membership, "north", folder / "data.csv", office)
    site.asks = Spec(**{"target": "y", "loss": loss} | options)
    return site, A, y


class Line:
    """Messages that a server makes up, to a site, about a study or, at first, its federation."""

    def __init__(self, site, number=0):
        self.site, self.number, self.step = site, number, 0
        self.experiment = site.membership.channel

    def task(self, name, payload, points=""):
        self.step += 1
        header = Header(wire.TASK, wire.tag(self.experiment), self.number, self.step)
        settings = {"task": name, "points": points}
        reply = self.site.answer(wire.encode(header, settings, payload))
        return wire.decode_reply(reply, wire.ANSWER).payload


class Attacker:
    """What a server can make of a site's answers; it counts its questions and its refusals."""

    def __init__(self, site):
        self.site, self.line, self.asked, self.refused = site, Line(site), 0, 0
        self.propose("first", site.asks)

    def propose(self, name, spec):
        """Begin a study, or raise BadMessage in the site's words."""
        study = make_study(name, "clinic", ("north",), spec)
        self.line.experiment = self.site.membership.channel
        found = self.task("propose", {"study": study.text})
        if found["decision"] != "takes part":
            raise BadMessage(f"{found['decision']}: {found['reason']}")
        self.line.experiment = study.id
        told = json.loads(self.task("summary", {})["summary"])
        self.rows, self.features = told["rows"], len(told["features"])
        self.agree(agree(spec, {"north": told}).to_dict())

    def agree(self, agreement):
        self.task("agree", {"agreement": json.dumps(agreement)})

    def task(self, name, payload, points=""):
        return self.line.task(name, payload, points)

    def about(self, task, w, b, points="x", **more):
        """What a site tells of a model, or None if it refuses."""
        self.asked += 1
        x = {"x.params.coef": np.asarray(w, float), "x.params.intercept": np.asarray(b, float)}
        try:
            return self.task(task, x | more, points)
        except BadMessage:
            self.refused += 1
            return None

    def corrected(self, w, b, by):
        """The sum of slopes times rows, as a correction of the server's choosing leaves them."""
        more = {"scale": np.ones(()), "correction": np.asarray(by, float)}
        found = self.about("conjugate", w, b, **more)
        return None if found is None else self.rows * found["['gradient']"]

    def hessian(self, w, b):
        """Sums over rows at a model: slope times row, and second derivative times products."""
        w, b = np.asarray(w, float), np.asarray(b, float)
        more = {"u.params.coef": w, "u.params.intercept": b, "length": np.ones(())}
        more["features"] = np.arange(self.features + 1, dtype=np.int32)
        found = self.about("newton", w, b, points="x u", **more)
        if found is None or not found["['finite']"]:
            return None
        parts = [found["['gradient'].params.intercept"], *found["['gradient'].params.coef"]]
        return self.rows * np.concatenate([parts, found["['hessian']"]])

    def gradient(self, w, b):
        """The sum over rows of slope and slope times row at a model, or None if refused."""
        found = self.about("evaluate", w, b)
        if found is None:
            return None
        parts = [found["['gradient'].params.intercept"], *found["['gradient'].params.coef"]]
        return self.rows * np.array(parts)


class Colluder:
    """A server with a member on its side: it chooses models, and sees the other sites' sums.

    Where one site's policy strikes the sum has its flag, and shows nothing.
    """

    def __init__(self, sites):
        self.each = [Attacker(site) for site in sites]
        self.rows, self.features = sum(one.rows for one in self.each), self.each[0].features
        self.asked = self.refused = 0

    def gradient(self, w, b):
        return self.sum_of([one.gradient(w, b) for one in self.each])

    def hessian(self, w, b):
        return self.sum_of([one.hessian(w, b) for one in self.each])

    def sum_of(self, told):
        self.asked += 1
        flagged = any(one is None for one in told)
        self.refused += flagged
        return None if flagged else sum(told)


def recovered(A, guesses):
    """How many rows of the table some guess is near to."""
    if not len(guesses):
        return 0
    spread = A.std(axis=0)
    near = [(np.abs((A - guess) / spread) <= NEAR).all(axis=1) for guess in np.asarray(guesses)]
    return int(np.any(near, axis=0).sum())


def isolate(attacker, most, length=1e7):
    """Bisection over thresholds in one feature, until an interval holds one row: its sum is it.

    With slopes that are indicators, the gradient at a threshold is the sum of the rows above it,
    up to a constant; the first number counts them.
    """
    e = np.zeros(attacker.features)
    e[0] = length
    at = lambda t: attacker.gradient(e, -length * t)
    low, high = at(-10.0), at(10.0)
    if low is None or high is None:
        return []
    found, intervals = [], [(-10.0, low, 10.0, high)]
    while intervals and attacker.asked < most:
        left, above, right, below = intervals.pop()
        number = above[0] - below[0]
        if number < 0.5:
            continue
        if number < 1.5:
            found.append((above - below)[1:] / number)
            continue
        if right - left < 1e-9:
            continue
        middle = (left + right) / 2
        between = at(middle)
        if between is None:
            continue
        intervals += [(middle, between, right, below), (left, above, middle, between)]
    return found


def longest(attacker, w, b):
    """The largest factor, by bisection, at which the site still answers about (w, b)."""
    low, high = 0.0, 64.0
    for _ in range(12):
        middle = (low + high) / 2
        low, high = (low, middle) if attacker.gradient(middle * w, middle * b) is None else (
            middle, high)  # fmt: skip
    return low


def tilt(attacker, directions, offsets=8, few=3, seed=0):
    """In some directions, models as long as the site answers about, at several intercepts.

    What the slopes are at each row is known once the row is; so the few rows that weigh most are
    fitted to all answers in a direction, the rest being a smooth background of powers.
    """
    rng, found = np.random.default_rng(seed), []
    for _ in range(directions):
        w = rng.normal(size=attacker.features)
        w /= np.linalg.norm(w)
        length = longest(attacker, w, -4.0 * np.abs(w).max())
        shifts = length * np.linspace(-5.0, 0.0, offsets)
        answers = [(b, attacker.gradient(length * w, b)) for b in shifts]
        answers = [(b, g) for b, g in answers if g is not None]
        if len(answers) < 3:
            continue
        # Far out, all slopes are one exponential: ratios of sums are means under a tilt.
        differences = [(b, g - answers[0][1]) for b, g in answers[1:]]
        found += [g[1:] / g[0] for _, g in differences if abs(g[0]) > 1e-9]
        steps = np.diff([g for _, g in answers], axis=0)
        found += [g[1:] / g[0] for g in steps if abs(g[0]) > 1e-9]
        second = np.diff(steps, axis=0)
        found += [g[1:] / g[0] for g in second if abs(g[0]) > 1e-9]
    return found


def kinks(ask, features, lengths, questions, width=0.1):
    """Models along a line in one feature, at which `ask` gives sums over rows.

    Where slopes bend at a score, sums bend where a row has it: between two neighbours that alone
    bend, by the row times length and distance. `lengths` are tried until one is answered.
    """
    e = np.eye(features)[0]
    length = next((a for a in lengths if ask(a * e, 0.0) is not None), None)
    if length is None:
        return []
    shifts = np.linspace(-width, width, questions - len(lengths))
    told = [found for t in shifts if (found := ask(length * e, -length * t)) is not None]
    if len(told) < 4:
        return []
    bends = np.diff(told, n=2, axis=0)[:, -features:] / (length * (shifts[1] - shifts[0]))
    both = bends[1:] + bends[:-1]
    return np.concatenate([both, -both])


def outliers(attacker, length, shifts, few, powers=6):
    """The tail of the first feature: `few` rows in it, and powers of one exponential for the rest.

    Right of the bulk, the slopes of all its rows are sums of a few powers of exp(-length t). With
    the scores of the few given, all else is linear; scores are found by least squares.
    """
    e = np.eye(attacker.features)[0]
    told = [(t, g) for t in shifts if (g := attacker.gradient(length * e, -length * t)) is not None]
    if len(told) < powers + 2 * few + 2:
        return []
    t, G = np.array([t for t, _ in told]), np.array([g for _, g in told])
    smooth = np.exp(-length * np.outer(t - t[0], np.arange(powers)))
    smooth, _ = np.linalg.qr(smooth)

    def parts(scores):
        slopes = 1 / (1 + np.exp(length * (t[:, None] - scores)))
        basis = np.column_stack([smooth, slopes])
        found = np.linalg.lstsq(basis, G, rcond=1e-14)[0]
        return found[powers:], (G - basis @ found).ravel()

    rng, best = np.random.default_rng(0), (np.inf, np.zeros((0, attacker.features)))
    for _ in range(20):
        start = np.sort(rng.uniform(t[0], t[-1], few))
        fitted = least_squares(lambda s: parts(s)[1], start, x_scale=0.1, xtol=1e-15, ftol=1e-15)
        rows, _ = parts(fitted.x)
        sound = np.abs(rows[:, 0]) > 1e-3
        if fitted.cost < best[0] and sound.all():
            best = fitted.cost, rows[:, 1:] / rows[:, :1]
    return best[1]


def solve_all(attacker, questions, steps=200, seed=0):
    """Answers about random models of the length of honest ones, and least squares for all rows.

    The unknowns are the rows, from a random start; labels enter by one sum that is known.
    """
    rng, d = np.random.default_rng(seed), attacker.features
    asked = [(rng.normal(size=d), rng.normal()) for _ in range(questions)]
    asked = [(w, b, attacker.gradient(w, b)) for w, b in asked]
    asked = [(w, b, g) for w, b, g in asked if g is not None]
    if len(asked) < 2:
        return []
    W, b = np.array([w for w, _, _ in asked]), np.array([b for _, b, _ in asked])
    G = np.array([g for _, _, g in asked])
    told = G[1:] - G[0]  # the labels' part is the same in all

    def sums(rows):
        p = 1 / (1 + np.exp(-(rows @ W.T + b)))
        return p, np.column_stack([p.sum(axis=0), p.T @ rows])

    def residuals(flat):
        _, found = sums(flat.reshape(-1, d))
        return (found[1:] - found[0] - told).ravel()

    def jacobian(flat):
        rows = flat.reshape(-1, d)
        p, _ = sums(rows)
        by_score = np.einsum("rq,qk->qrk", p * (1 - p), W)
        of_count = by_score[:, None]
        of_sum = np.einsum("qrk,rj->qjrk", by_score, rows)
        of_sum += np.einsum("rq,jk->qjrk", p, np.eye(d))
        whole = np.concatenate([of_count, of_sum], axis=1)
        return (whole[1:] - whole[0]).reshape(told.size, -1)

    start = rng.normal(size=attacker.rows * d)
    fitted = least_squares(residuals, start, jacobian, max_nfev=steps)
    return fitted.x.reshape(-1, d)


def solve_more(attacker, questions, steps=300, seed=0):
    """The unknowns are the rows; the labels are in the gradients alone, by one sum."""
    rng, d = np.random.default_rng(seed), attacker.features
    asked = [(rng.normal(size=d), rng.normal()) for _ in range(questions)]
    asked = [(w, b, attacker.hessian(w, b)) for w, b in asked]
    asked = [(w, b, told) for w, b, told in asked if told is not None]
    if len(asked) < 2:
        return []
    W, b = np.array([w for w, _, _ in asked]), np.array([b for _, b, _ in asked])
    upper = np.triu_indices(d + 1)

    def of_row(row):
        """What it adds to all answers; of slopes, to what they are beyond those of the first."""
        B = jnp.append(row, 1.0)
        p = 1 / (1 + jnp.exp(-(W @ row + b)))
        slopes = jnp.column_stack([p, jnp.outer(p, row)])
        products = jnp.outer(p * (1 - p), jnp.outer(B, B)[upper])
        return jnp.concatenate([(slopes[1:] - slopes[0]).ravel(), products.ravel()])

    told = np.array([told for _, _, told in asked])
    slopes, products = told[:, : d + 1], told[:, d + 1 :]
    told = np.concatenate([(slopes[1:] - slopes[0]).ravel(), products.ravel()])
    residuals = lambda flat: jax.vmap(of_row)(flat.reshape(-1, d)).sum(axis=0) - told
    by_row = jax.vmap(jax.jacfwd(of_row), out_axes=1)
    jacobian = lambda flat: by_row(flat.reshape(-1, d)).reshape(told.size, -1)
    with precision(np.float64):
        start = rng.normal(size=attacker.rows * d)
        fitted = least_squares(jax.jit(residuals), start, jax.jit(jacobian), max_nfev=steps)
    return fitted.x.reshape(-1, d)
