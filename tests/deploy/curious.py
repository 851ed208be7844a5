"""A server that follows the protocol, keeps what one site tells it in the clear, and computes.

All that is asked about a model is answered by a mean over rows of what each row would answer alone.
So the server has the site's own code answer for rows that it makes up, and compares.

    overheard   the models that an honest run asked about, and a site's answers
    moved       rows from a random start, moved until they give the same answers (least squares)
    counted     where features are 0 or 1: how many rows there are of each kind
    likely      how much rows that the server has look like rows of the site

The loss is logistic. Left out is what says little more: the curvature, which is one number, what is
told before the first model, which a Hessian at 0 says again, and a path's losses by fold.
"""

import contextlib
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import least_squares, nnls

from proxfl.deploy.masking.messages import question_in
from proxfl.deploy.masking.path import PLACES
from proxfl.deploy.protocol import wire
from proxfl.deploy.protocol.trees import rebuild, unpack
from proxfl.deploy.server.inquiry import TooFewSites
from proxfl.deploy.transport.memory import Fate
from proxfl.engine.masked import means
from proxfl.losses import coef_of
from proxfl.precision import precision
from proxfl.problem import Shard
from proxfl.train.folds import deal_at
from proxfl.train.tasks import TASKS

MEANS = ("evaluate", "imbalance", "conjugate", "newton", "hessian", "information")
ALL = slice(None)


class Heard(NamedTuple):
    """A question about a model, a site's answer, and about which of its rows that is."""

    task: str
    question: Any
    answer: dict[str, Any]
    rows: Any = ALL


class Overheard(NamedTuple):
    """What was heard of a site about a problem; and its rows and labels, as it prepared them."""

    problem: Any
    heard: list[Heard]
    A: np.ndarray
    y: np.ndarray


def overheard(field):
    """What a run of the field's study, as it is, tells the server, by site.

    One that ends because sites have been asked all that they allow is one, too.
    """
    frames, exact = {site: [] for site in field.study.sites}, []

    def listening(way, site, frame):
        frames[site].append(frame)
        return Fate(((0.0, frame),))

    def keeping(federation):
        visit = federation.visit

        def kept(algorithm, call, down, about=None):
            exact.append(about)
            return visit(algorithm, call, down, about)

        federation.visit = kept

    field.transport.fate = listening
    with contextlib.suppress(TooFewSites):
        field.run(spoil=keeping)
    return {site: heard_of(field, site, frames[site], exact) for site in frames}


def heard_of(field, site, frames, exact):
    """All frames of a site, questions and replies in turn, and what it has of the study."""
    (worker,) = field.sites[site].worker.open.values()
    dealt, place = None, field.study.sites.index(site)
    if field.study.choice is None:
        made = worker.load()
        problem, shard = made.problem, made.shard
    else:
        answers = worker.setup["sums"].__self__.made
        problem, shard = answers.prepared()
        dealt = deal_at(field.spec, field.study.choice, answers.table, place)
    about, heard, exact = (problem, dealt), [], list(exact)
    with precision(np.float64):
        for asked, told in zip(frames[::2], frames[1::2], strict=True):
            heard += understood(wire.decode(asked), wire.decode(told), *about, exact)
    return Overheard(problem, heard, *(np.asarray(a)[: int(shard.size)] for a in shard.examples))


def summed(sites):
    """What masks would have left of it: means over sites of as many rows each."""
    mean = lambda *parts: np.mean(parts, axis=0)
    heard = [
        same[0]._replace(answer=jax.tree.map(mean, *(one.answer for one in same)))
        for same in zip(*(one.heard for one in sites), strict=True)
    ]
    rows = (np.concatenate([getattr(one, name) for one in sites]) for name in ("A", "y"))
    return Overheard(sites[0].problem, heard, *rows)


def understood(asked, told, problem, dealt, exact):
    """What a message and its reply say of models; the frames of a round come in its order."""
    task, points = asked.settings.get("task"), str(asked.settings.get("points", "")).split()
    if told.header.kind == wire.UPLINK and (about := exact.pop(0)) is not None:
        up = rebuild(told.payload, problem.x0, "The uplink")
        gradient = jax.tree.map(lambda a: a / about.factor, up)
        found = {"gradient": gradient, "value": told.settings["['loss']"]}
        return [Heard("evaluate", {"x": about.x}, found)]
    if told.header.kind != wire.ANSWER:
        return []
    if task in MEANS:
        about = unpack(asked.payload, points, problem.x0)
        return [Heard(task, about, rebuild(told.payload, form(task, problem, about), "It"))]
    if task == "sums" and question_in(asked.payload).kind.startswith("models"):
        return list(of_path(question_in(asked.payload), told.payload["sums"], problem, dealt))
    return []


def of_path(asked, sums, problem, dealt):
    """Of each model of a path, what is told of the rows that its fold leaves, or of all."""
    points = asked.kind.split()[1:]
    for k, place in enumerate(asked.numbers[PLACES].tolist()):
        mine = {n[len(f"{k} ") :]: a for n, a in asked.numbers.items() if n.startswith(f"{k} ")}
        about = unpack(mine, points, problem.x0)
        shape, rows = form("newton", problem, about), np.flatnonzero(dealt != place - 1)
        part, sums = np.split(sums, [sum(leaf.size for leaf in jax.tree.leaves(shape))])
        yield Heard("newton", about, means(part, shape, float(len(rows)), 1), rows)


def form(task, problem, about):
    width = len(coef_of(problem.x0))
    return jax.eval_shape(TASKS[task], problem, alone(jnp.zeros(width), 1.0), about)


def alone(a, label):
    """A site of one row."""
    return Shard((a[None], jnp.asarray(label)[None]), jnp.asarray(1), jnp.asarray(1.0))


def numbers(answer):
    kept = {name: part for name, part in answer.items() if name != "finite"}
    return jnp.concatenate([jnp.ravel(leaf) for leaf in jax.tree.leaves(kept)])


def said(known):
    """What was heard; and what a row, and the chance that its label is the larger, adds to it."""

    def adds(row):
        answer = lambda one, label: numbers(
            TASKS[one.task](known.problem, alone(row[:-1], label), one.question)
        )
        return [row[-1] * answer(h, 1.0) + (1 - row[-1]) * answer(h, -1.0) for h in known.heard]

    return [np.asarray(numbers(h.answer)) for h in known.heard], adds


def moved(known, start, most=100):
    """Rows that give the answers that were heard, or nearly, from a random start of as many.

    A label is a chance, by its logarithmic odds; numbers count by how much rows differ in them.
    """
    (told, adds), shape = said(known), start.shape
    as_chance = lambda row: adds(row.at[-1].set(jax.nn.sigmoid(row[-1])))
    each, slopes = jax.jit(jax.vmap(as_chance)), jax.jit(jax.vmap(jax.jacfwd(as_chance)))
    sizes = [spread(np.asarray(e)) for e in each(start)]

    def residuals(flat):
        found = zip(known.heard, told, sizes, each(flat.reshape(shape)), strict=True)
        return np.concatenate([(np.asarray(e)[h.rows].mean(0) - t) / s for h, t, s, e in found])

    def jacobian(flat):
        parts = []
        for h, s, e in zip(known.heard, sizes, slopes(flat.reshape(shape)), strict=True):
            share = np.zeros(shape[0])
            share[h.rows] = 1.0
            parts.append(np.asarray(e) * (share / share.sum())[:, None, None] / s[:, None])
        return np.concatenate(parts, axis=1).transpose(1, 0, 2).reshape(-1, flat.size)

    solver = "exact" if start.size < 2000 else "lsmr"
    about = {"max_nfev": most, "tr_solver": solver, "xtol": 1e-15, "ftol": 1e-15, "gtol": 1e-15}
    fitted = least_squares(residuals, start.ravel(), jacobian, **about)
    return fitted.x.reshape(shape)[:, :-1], np.abs(fitted.fun).max()


def spread(each):
    """How much rows differ in each number; infinite where they do by rounding alone."""
    found = each.std(axis=0)
    return np.where(found > 1e-9 * np.abs(each).max(axis=0), found, np.inf)


def counted(known, kinds):
    """How many rows there are of each of these kinds: answers are linear in the numbers of rows.

    `kinds` are those of one label, and then the same of the other. Of the numbers that fit, it is
    the least or the most sparse ones, whichever of them, without labels, are nearer to whole.
    """
    about_all = [h for h in known.heard if len(known.A[h.rows]) == len(known.A)]
    told, adds = said(known._replace(heard=about_all))
    each = np.concatenate([np.asarray(e).T for e in jax.jit(jax.vmap(adds))(kinds)])
    sums = np.concatenate([each, np.ones((1, len(kinds)))])  # and all of them
    size = np.abs(sums).max(axis=1)
    about = sums / size[:, None], len(known.A) * np.concatenate([*told, [1.0]]) / size
    found = [np.linalg.lstsq(*about, rcond=1e-14)[0]]
    with contextlib.suppress(RuntimeError):  # where it does not end
        found.append(nnls(*about)[0])
    whole = lambda c: np.abs((total := c.reshape(2, -1).sum(axis=0)) - np.rint(total)).mean()
    return min(found, key=whole)


def likely(known, rows, others):
    """How much each row has in common with what was heard, beyond rows of the same population."""
    told, adds = said(known)
    each = jax.jit(jax.vmap(adds))
    join = lambda found: np.concatenate([np.asarray(e) for e in found], axis=1)
    usual, mine = join(each(others)), join(each(rows))
    centre = usual.mean(axis=0)
    size = spread(usual)
    _, sizes, ways = np.linalg.svd((usual - centre) / size, full_matrices=False)
    kept = sizes > 1e-6 * sizes[0]
    project = lambda a: (a - centre) / size @ ways[kept].T / sizes[kept] * np.sqrt(len(usual))
    return project(mine) @ project(np.concatenate(told))
