"""From options to g: every combination has the prox of its formula, and leaves the intercept."""

import jax.numpy as jnp
import numpy as np
import pytest

from proxfl.losses import Coefficients
from proxfl.points import Tree
from proxfl.prox import L1, GroupL2, Zero
from proxfl.train.regulariser import largest_useful_weight, penalty
from proxfl.train.spec import Spec, describe
from tests.sentences import said

NAMES = ("age", "size", "dose", "pulse", "noise")
GROUPS = {"age": "body", "size": "body", "dose": "drug", "pulse": "drug", "noise": ""}
FACTORS = {"age": 2.0, "noise": 0.0}
EPS = float(np.finfo(np.float64).eps)


def spec(**options):
    return Spec(**({"target": "y", "loss": "squared", "intercept": False} | options))


def formula(options, coef):
    """The penalty as the help prints it, written anew in NumPy."""
    by_feature = np.abs(coef) if coef.ndim == 1 else np.abs(coef).sum(axis=1)
    factors = np.array([options.get("feature_weights", {}).get(name, 1.0) for name in NAMES])
    total = options.get("l1", 0) * (factors @ by_feature)
    total += options.get("l2", 0) / 2 * np.sum(coef**2)
    ratio, both = options.get("l1_ratio", 0.5), options.get("elastic_net", 0)
    total += both * (ratio * by_feature.sum() + (1 - ratio) / 2 * np.sum(coef**2))
    groups = options.get("group", {name: name for name in NAMES})
    for group in set(groups.values()) - {""}:
        block = coef[[groups[name] == group for name in NAMES]]
        total += options.get("group_weight", 0) * np.sqrt(block.size) * np.linalg.norm(block)
    if "nuclear" in options:
        total += options["nuclear"] * np.linalg.svd(coef, compute_uv=False).sum()
    lo, hi = options.get("box", (-np.inf, np.inf))
    inside = (coef >= lo - 1e-12).all() and (coef <= hi + 1e-12).all()
    inside &= not options.get("nonneg") or (coef >= 0).all()
    if "simplex" in options:
        inside &= (coef >= 0).all() and abs(coef.sum() - options["simplex"]) < 1e-12
    return total if inside else np.inf


KNOWN = [
    {},
    {"l1": 0.4},
    {"l1": 0.4, "feature_weights": FACTORS},
    {"l2": 0.7},
    {"l1": 0.4, "l2": 0.7},
    {"l1": 0.4, "nonneg": True},
    {"l1": 0.4, "box": (-0.5, 1.0), "l2": 0.3},
    {"l1": 0.4, "box": (-0.5, 1.0), "nonneg": True},
    {"group": GROUPS, "group_weight": 0.3},
    {"group": GROUPS, "group_weight": 0.3, "l1": 0.2, "feature_weights": FACTORS},
    {"group": GROUPS, "group_weight": 0.3, "nonneg": True, "l2": 0.5},
    {"group": GROUPS, "group_weight": 0.3, "nonneg": True, "l1": 0.2, "l2": 0.5},
    {"elastic_net": 0.6, "l1_ratio": 0.25},
    {"elastic_net": 0.6, "l1_ratio": 1.0, "nonneg": True},
    {"elastic_net": 0.6, "l1": 0.3, "feature_weights": FACTORS, "l2": 0.2, "box": (-0.5, 1.0)},
    {"elastic_net": 0.6, "group": GROUPS, "group_weight": 0.3},
    {"nonneg": True},
    {"box": (0.25, 1.0)},
    {"simplex": 1.0},
    {"simplex": 2.0, "l2": 0.5, "nonneg": True},
]
MATRIX = [
    {"l1": 0.4, "feature_weights": FACTORS},
    {"group_weight": 0.3},
    {"group_weight": 0.3, "l1": 0.1, "nonneg": True},
    {"group": GROUPS, "group_weight": 0.3},
    {"elastic_net": 0.6},
    {"nuclear": 0.5},
    {"nuclear": 0.5, "l2": 0.2},
]
CASES = [(case, (5,)) for case in KNOWN] + [(case, (5, 3)) for case in MATRIX]
each = pytest.mark.parametrize(("options", "shape"), CASES, ids=lambda a: "-".join(map(str, a)))


def build(options, shape, **more):
    return penalty(spec(**options, **more), NAMES, shape[1] if len(shape) == 2 else 1)


@each
def test_the_prox_beats_other_points_of_the_formula(options, shape):
    rng, g, step = np.random.default_rng(1), build(options, shape), 0.8

    def objective(u):
        return step * formula(options, u) + np.sum((u - x) ** 2) / 2

    for _ in range(5):
        x = 2 * rng.normal(size=shape)
        p = np.asarray(g.prox(jnp.asarray(x), step))
        best = objective(p)
        assert np.isfinite(best)
        # Far points, near points, and points moved along one axis, each brought into the domain.
        others = [x, 0 * x, *(p + s * rng.normal(size=(40, *shape)) for s in (1, 0.1, 0.01))]
        for u in np.concatenate([np.reshape(u, (-1, *shape)) for u in others]):
            u = np.clip(u, *options.get("box", (-np.inf, np.inf)))
            u = np.maximum(u, 0) if options.get("nonneg") or "simplex" in options else u
            u = u * (options["simplex"] / max(u.sum(), 1e-9)) if "simplex" in options else u
            assert best <= objective(u) + 32 * EPS * (1 + best)


@each
def test_the_value_is_that_of_the_formula(options, shape):
    g, rng = build(options, shape), np.random.default_rng(2)
    u = np.asarray(g.prox(jnp.asarray(rng.normal(size=shape)), 0.3))
    assert float(g.value(jnp.asarray(u))) == pytest.approx(formula(options, u), rel=64 * EPS)


@each
def test_the_intercept_is_neither_penalised_nor_constrained(options, shape):
    coef = jnp.asarray(np.random.default_rng(3).normal(size=shape))
    intercept = jnp.full(shape[1:], -7.0)
    plain, g = build(options, shape), build(options, shape, intercept=True)
    moved = g.prox(Tree(Coefficients(coef, intercept)), 0.8).params
    np.testing.assert_array_equal(moved.intercept, intercept)
    np.testing.assert_array_equal(moved.coef, plain.prox(coef, 0.8))
    x, other = (Tree(Coefficients(moved.coef, b)) for b in (intercept, 0 * intercept))
    assert float(g.value(x)) == float(g.value(other)) == float(plain.value(moved.coef))


REFUSED = [
    ({"nuclear": 1.0, "l1": 1.0}, 3, "l1 and nuclear have no known joint prox; keep one of them"),
    ({"nuclear": 1.0, "nonneg": True}, 3, "nuclear and nonneg have no known joint prox"),
    ({"group_weight": 1.0, "box": (0, 1)}, 3, "group_weight and box have no known joint prox"),
    ({"group_weight": 1.0, "l1": 1.0, "box": (0, 1), "l2": 1.0}, 3, "l1, group_weight and box "),
    ({"simplex": True, "l1": 1.0}, 1, "l1 and simplex have no known joint prox"),
    ({"simplex": True, "box": (0, 1)}, 1, "box and simplex have no known joint prox"),
    ({"nuclear": 1.0}, 1, "key 'nuclear' needs a model with several outputs; remove it"),
    ({"simplex": True}, 3, "key 'simplex' needs a model with one output; remove it"),
    ({"group_weight": 1.0}, 1, "key 'group_weight' needs 'group' if the model has one output"),
    ({"box": (-2, -1), "nonneg": True}, 1, "nonneg and box cannot be had together: no coeff"),
]


@pytest.mark.parametrize(("options", "outputs", "words"), REFUSED, ids=lambda a: str(a)[:40])
def test_a_combination_without_a_prox_is_refused(options, outputs, words):
    assert words in said(penalty, spec(**options), NAMES, outputs)


def test_nothing_asked_is_nothing_added():
    assert penalty(spec(), NAMES) == Zero()


def test_groups_and_weights_are_read_from_files(tmp_path):
    (tmp_path / "g.csv").write_text(
        "group, feature\n" + "".join(f"{GROUPS[n]},{n}\n" for n in NAMES)
    )
    (tmp_path / "w.csv").write_text("feature,weight\nage,2\nnoise,0\n")
    asked = spec(
        l1=0.5, feature_weights=tmp_path / "w.csv", group=tmp_path / "g.csv", group_weight=0.1
    )
    held = asked.read_files()
    assert (held.group, held.feature_weights) == (GROUPS, FACTORS)
    assert Spec.from_dict(held.to_dict()) == held
    l1, groups = penalty(asked, NAMES).first, penalty(asked, NAMES).second
    assert isinstance(l1, L1) and isinstance(groups, GroupL2)
    np.testing.assert_array_equal(l1.weight, [1.0, 0.5, 0.5, 0.5, 0.0])
    np.testing.assert_array_equal(groups.labels, [0, 0, 1, 1, -1])


WRONG_FILES = [
    ("feature,groups\nage,a\n", "the first line must name feature and group"),
    ("", "the first line must name feature and group"),
    ("feature,group\nage,a\nage,b\n", "feature 'age' has more than one line"),
    (b"feature,group\n\xe9,a\n", "this cannot be read as CSV"),
    (
        "feature,group\nagge,a\n",
        "key 'group' names 'agge', which is no feature; did you mean 'age'",
    ),
    ("feature,group\nage,a\n", "key 'group' gives no group to 'size' (4 such in all); add it"),
]


@pytest.mark.parametrize(("content", "words"), WRONG_FILES)
def test_a_wrong_group_file_is_refused(tmp_path, content, words):
    path = tmp_path / "g.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert words in said(penalty, spec(group=path, group_weight=1.0), NAMES)


def test_wrong_weights_are_refused(tmp_path):
    path = tmp_path / "w.csv"
    assert "cannot be read" in said(penalty, spec(l1=1.0, feature_weights=path), NAMES)
    for wrong in ("-1", "much", "", "nan", "inf"):
        path.write_text(f"feature,weight\nage,{wrong}\n")
        words = f"the weight of 'age' must be a non-negative number, got '{wrong}'"
        assert words in said(penalty, spec(l1=1.0, feature_weights=path), NAMES)
    unknown = spec(l1=1.0, feature_weights={"zzz": 1.0})
    assert "names 'zzz', which is no feature; remove it" in said(penalty, unknown, NAMES)


gradient = np.array([0.5, -2.0, 1.5, 0.25, 9.0])
wide = np.random.default_rng(4).normal(size=(5, 3))

DUAL = [
    ("l1", {}, gradient, 9.0),
    ("l1", {"feature_weights": FACTORS}, gradient, 2.0),
    ("l1", {"nonneg": True}, gradient, 2.0),
    ("l1", {"l2": 3.0}, gradient, 9.0),
    ("l1", {"box": (-0.5, 0.5)}, gradient, 9.0),
    ("l1", {}, 0 * gradient, 0.0),
    ("l1", {}, wide, np.abs(wide).max()),
    ("group_weight", {"group": GROUPS}, gradient, np.hypot(0.5, 2.0) / np.sqrt(2)),
    ("group_weight", {"group": GROUPS, "nonneg": True}, gradient, 2.0 / np.sqrt(2)),
    ("group_weight", {"group": GROUPS, "l1": 1.0}, gradient, 1.0 / np.sqrt(2)),
    ("group_weight", {}, wide, np.linalg.norm(wide, axis=1).max() / np.sqrt(3)),
    ("nuclear", {"l2": 1.0}, wide, np.linalg.svd(wide, compute_uv=False).max()),
    ("l1", {"group": {n: "all" for n in NAMES}, "group_weight": 99.0}, gradient, 0.0),
]


@pytest.mark.parametrize(("key", "options", "slope", "expected"), DUAL)
def test_the_largest_useful_weight_is_the_dual_norm(key, options, slope, expected):
    options = options if key == "l1" or "group" not in options else options | {"group_weight": 1.0}
    options = options | {"l1": 1.0} if "feature_weights" in options else options
    found = largest_useful_weight(key, spec(**options), NAMES, slope)
    assert found == pytest.approx(expected, rel=64 * EPS, abs=0)


def test_a_sparse_group_path_starts_where_the_last_group_leaves():
    asked = spec(l1=1.0, group=GROUPS, group_weight=0.2)
    calm = np.where(gradient == 9.0, 0.0, gradient)
    top = largest_useful_weight("l1", asked, NAMES, calm)
    assert 0 < top < 2.0
    for weight, is_empty in ((top, True), (top * (1 - 1e-12), False)):
        g = penalty(spec(l1=weight, group=GROUPS, group_weight=0.2), NAMES)
        assert not np.any(g.prox(-jnp.asarray(calm), 1.0)) == is_empty
        assert (float(g.distance(jnp.zeros(5), jnp.asarray(calm))) == 0) == is_empty


def test_a_path_that_cannot_start_is_refused():
    assert "one of l1, group_weight, elastic_net, nuclear, got 'l2'" in said(
        largest_useful_weight, "l2", spec(), NAMES, gradient
    )
    assert "no weight leaves an empty model" in said(
        largest_useful_weight, "l1", spec(box=(0.5, 1.0)), NAMES, gradient
    )
    assert "l1 and nuclear have no known" in said(
        largest_useful_weight, "nuclear", spec(l1=1.0), NAMES, wide
    )


def test_the_description_comes_with_the_penalty():
    assert "0.5 sum_j |coef_j|" in describe(spec(l1=0.5))
