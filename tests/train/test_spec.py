"""Options: one form for each value, whole round trips, and a sentence that names the key."""

import copy
import json
import math
import subprocess
import sys

import jax.numpy as jnp
import numpy as np
import pytest

from proxfl.losses import Softmax
from proxfl.train.spec import Spec, convex_losses, describe
from tests.sentences import said

BASE = {"target": "y", "loss": "logistic"}

FULL = Spec(
    sites=("a.csv", "b/"),
    target="y",
    offset="level",
    missing="mean",
    features=("age", "size"),
    exclude=("name",),
    schema={"age": {"kind": "number"}, "size": {"kind": "count", "missing": "drop"}},
    standardise=True,
    precondition=False,
    intercept=False,
    loss="huber",
    huber_delta=0.5,
    weights="uniform",
    l1=0.1,
    l2=0.2,
    feature_weights={"age": 2.0, "size": 0.0},
    group={"age": "body", "size": ""},
    group_weight=0.3,
    elastic_net=0.5,
    l1_ratio=0.25,
    nuclear=0.4,
    nonneg=True,
    box=(-math.inf, 2.0),
    simplex=3.0,
    algorithm="fedavg",
    inference=True,
    accelerate=False,
    local_steps=5,
    batch=16,
    cohort=2,
    eta=0.01,
    eta_g=1.5,
    rounds=7,
    tol=1e-9,
    seed=3,
    out="results",
)

# What FULL cannot have, since its loss or its batches do not go with it.
SURVIVAL = Spec(loss="cox", time="days", event="died", entry="start", cox_ties="efron")
RATES = Spec(
    target="y",
    loss="negbin",
    negbin_dispersion=0.5,
    exposure="years",
    row_weights="times",
    site_intercepts=True,
)


def toml(folder, content):
    path = folder / "experiment.toml"
    path.write_text(content)
    return path


NOISED = Spec(
    **BASE | {"loss": "squared"}, eta=0.1, dp_clip=1.0, dp_noise=9.0, dp_delta=1e-6, dp_honest=2
)
BUDGETED = NOISED.replace(dp_noise=None, dp_epsilon=1.0)


def test_the_full_examples_leave_no_option_at_its_default():
    plain = Spec(**BASE)
    for key in Spec.table():
        if key != "target":
            given = [getattr(full, key) for full in (FULL, SURVIVAL, RATES, NOISED, BUDGETED)]
            assert any(value != getattr(plain, key) for value in given), key


@pytest.mark.parametrize(
    "spec", [Spec(**BASE), FULL, SURVIVAL, RATES, NOISED], ids=lambda spec: spec.loss
)
def test_a_spec_survives_json(spec):
    written = json.dumps(spec.to_dict(), allow_nan=False)
    assert Spec.from_dict(json.loads(written)) == spec


def test_the_defaults_are_those_of_a_practitioner():
    spec = Spec(**BASE)
    assert (spec.weights, spec.algorithm, spec.local_steps) == ("samples", "auto", 1)
    assert (spec.rounds, spec.tol, spec.seed, spec.batch) == (10_000, 1e-6, 0, None)
    assert (spec.accelerate, spec.intercept, spec.standardise) == (True, True, False)
    assert spec.missing == "refuse"


def test_equal_options_have_one_form():
    options = {"sites": ["a.csv"], "l1": 1, "box": [0, 2], "simplex": True, **BASE}
    loose = Spec.from_dict(options | {"box": np.array([0, 2]), "rounds": np.int64(9)})
    assert Spec(**options, rounds=9) == loose
    strict = Spec(sites=("a.csv",), l1=1.0, box=(0.0, 2.0), simplex=1.0, rounds=9, **BASE)
    assert loose == strict and type(loose.l1) is float and type(loose.rounds) is int
    assert Spec(sites="a.csv", simplex=False, **BASE) == Spec(sites=("a.csv",), **BASE)


def test_toml_holds_every_option_and_paths_start_from_its_folder(tmp_path):
    path = toml(
        tmp_path,
        """
        sites = ["data", "/srv/c.csv"]
        target = "y"
        loss = "squared"
        l1 = 1
        box = [-inf, 1]
        group = "groups.csv"
        group_weight = 0.5
        out = "results"
        [feature_weights]
        age = 2
        """,
    )
    spec = Spec.from_toml(path)
    assert spec.sites == (str(tmp_path / "data"), "/srv/c.csv")
    assert (spec.group, spec.out) == (str(tmp_path / "groups.csv"), str(tmp_path / "results"))
    assert spec.box == (-math.inf, 1.0) and spec.feature_weights == {"age": 2.0}


def test_what_is_given_besides_wins_over_the_file(tmp_path):
    path = toml(tmp_path, 'loss = "squared"\nl1 = 1\nout = "a"')
    spec = Spec.from_toml(path, {"target": "y", "l1": 2, "out": "b"})
    assert (spec.target, spec.loss, spec.l1, spec.out) == ("y", "squared", 2.0, "b")
    assert said(Spec.from_toml, path, {"l1": -2}).startswith("key 'l1' must be")
    assert said(Spec.from_toml, path) == (
        f"{path}: key 'target' is missing; it is the column to predict, or several of numbers."
    )


WRONG = [
    ({"l1": -1}, "key 'l1' must be a non-negative number, got -1; it is the weight of the sum"),
    ({"l1": True}, "key 'l1' must be a non-negative number, got True"),
    ({"l2": math.inf}, "key 'l2' must be a non-negative number, got inf"),
    ({"nuclear": "much"}, "key 'nuclear' must be a non-negative number, got 'much'"),
    ({"group_weight": math.nan}, "key 'group_weight' must be a non-negative number, got nan"),
    ({"tol": 0}, "key 'tol' must be a positive number, got 0; it is the optimality at which"),
    (
        {"eta": -0.1},
        "key 'eta' must be a positive number, 1e-100 or more, got -0.1; it is the local step",
    ),
    ({"eta_g": 0.0}, "key 'eta_g' must be a positive number, 1e-100 or more, got 0.0"),
    ({"rounds": 0}, "key 'rounds' must be a whole number from 1 to 1000000000, got 0"),
    ({"rounds": 1.5}, "key 'rounds' must be a whole number from 1 to 1000000000, got 1.5"),
    ({"local_steps": True}, "key 'local_steps' must be a whole number from 1 to 1000000, got True"),
    ({"batch": 0}, "key 'batch' must be a whole number from 1 to 1000000000, got 0"),
    ({"cohort": -2}, "key 'cohort' must be a whole number from 1 to 1000000000, got -2"),
    ({"seed": -1}, "key 'seed' must be a whole number from 0 to 9223372036854775807, got -1"),
    ({"nonneg": 1}, "key 'nonneg' must be true or false, got 1"),
    ({"intercept": "no"}, "key 'intercept' must be true or false, got 'no'"),
    ({"box": [1, 0]}, "key 'box' must be two numbers, the lower first, got [1, 0]"),
    ({"box": 3}, "key 'box' must be two numbers"),
    ({"box": [1, 2, 3]}, "key 'box' must be two numbers"),
    ({"simplex": 0}, "key 'simplex' must be true, false or a positive number, got 0"),
    ({"loss": "log"}, "key 'loss' must be one of logistic, squared, huber, softmax, poisson"),
    ({"weights": "rows"}, "key 'weights' must be one of samples, uniform, got 'rows'"),
    ({"missing": "zero"}, "key 'missing' must be one of refuse, drop, mean, got 'zero'"),
    (
        {"target": ""},
        "key 'target' must be a text, or several different ones, got ''; it is the column to ",
    ),
    ({"sites": 3}, "key 'sites' must be a list of paths, got 3"),
    ({"group": 3}, "key 'group' must be a path, or a table of group names by feature, got 3"),
    ({"group": {"age": 3}}, "key 'group' must be a path, or a table of group names by feature"),
    ({"feature_weights": {"age": -1}}, "key 'feature_weights' must be a path, or a table of non"),
    ({"group": "g.csv"}, "key 'group' needs 'group_weight'"),
    ({"l1_ratio": 0.5}, "key 'l1_ratio' needs 'elastic_net'"),
    ({"l1_ratio": 0, "elastic_net": 1}, "key 'l1_ratio' must be a number above 0 and at most 1"),
    ({"feature_weights": "w.csv"}, "key 'feature_weights' needs 'l1', the weight of the sum of"),
    ({"huber_delta": 2.0}, "key 'huber_delta' means nothing to loss 'logistic'"),
    ({"algorithm": "fed_avg"}, "key 'algorithm' must be one of auto, newton, decoupled, "),
    ({"loss": "sigmoid"}, "key 'loss' must be one of "),  # no certificate of a minimum
    ({"local-steps": 5}, "there is no key 'local-steps'; did you mean 'local_steps'?"),
    ({"l1_weight": 5}, "there is no key 'l1_weight'; did you mean"),
    ({"qqq": 5}, "there is no key 'qqq'; the keys are sites, target, "),
]


@pytest.mark.parametrize(("options", "words"), WRONG, ids=lambda a: str(a)[:40])
def test_a_wrong_option_is_named_with_what_it_is(options, words):
    assert words in said(Spec.from_dict, BASE | options)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("l1 = -1", "key 'l1' must be a non-negative number, got -1; it is the weight of"),
        ("l3 = 1", "there is no key 'l3'; did you mean 'l"),
        ("[penalty]\nl1 = 1", "there is no key 'penalty'; "),
        ('group = "g.csv"\ntarget = "y"\nloss = "huber"', "key 'group' needs 'group_weight'"),
        ("l1 = x", "this is not TOML: Invalid value (at line 1"),
    ],
)
def test_a_wrong_file_is_named(tmp_path, content, words):
    path = toml(tmp_path, content)
    assert said(Spec.from_toml, path).startswith(f"{path}: {words}")


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    assert "the file cannot be read" in said(Spec.from_toml, tmp_path / "no.toml")
    (tmp_path / "latin.toml").write_bytes(b'target = "\xe9"')
    assert "the text is not UTF-8" in said(Spec.from_toml, tmp_path / "latin.toml")


def test_every_option_says_what_it_is():
    assert all(option.meaning for option in Spec.table().values())


def test_a_spec_does_not_change_but_makes_others():
    spec = Spec(**BASE)
    with pytest.raises(AttributeError, match="use replace"):
        spec.l1 = 1.0
    with pytest.raises(AttributeError, match="no option 'l3'"):
        spec.l3  # noqa: B018
    assert spec.replace(l1=1).l1 == 1.0 and spec.l1 == 0.0 and spec.replace() == spec
    assert copy.deepcopy(FULL) == FULL and eval(repr(FULL), {"Spec": Spec, "inf": math.inf}) == FULL
    assert FULL.replace(l1=0.0, feature_weights=None) != FULL


def test_the_objective_is_described_term_by_term():
    text = describe(Spec(l1=0.1, l2=0.5, nonneg=True, **BASE))
    assert "sum_i w_i mean_rows loss(z, y) + 0.1 sum_j |coef_j| + 0.5/2 |coef|^2\n" in text
    assert "subject to  coef >= 0\n" in text
    assert "z = A coef + intercept" in text and "neither penalised nor constrained" in text
    assert "the objective of the pooled data" in text and "not standardised" in text
    text = describe(FULL)
    assert "0.1 sum_j weight_j |coef_j| + 0.3 sum_groups_k sqrt(size_k) |coef_k|" in text
    assert "0.4 sum_k singular_value_k(coef)" in text and "-inf <= coef <= 2" in text
    assert "sum_j coef_j = 3" in text and "residual of 0.5" in text and "intercept" not in text
    assert "1 / number of sites" in text and "variance 1 over all sites" in text
    assert "subject to" not in describe(Spec(**BASE))


def test_the_described_losses_are_those_computed():
    """At z = 0.3 and y = 1 the formulas, evaluated as they are written, give the loss."""
    names = {"log": math.log, "exp": math.exp, "z": 0.3, "y": 1}
    of_rows = {loss: kind for loss, kind in convex_losses().items() if not kind.couples_rows}
    for loss, kind in of_rows.items():
        formula = describe(Spec(target="y", loss=loss)).split("loss        ")[1].split("\n")[0]
        formula = formula.split(", where")[0].split(" up to")[0]
        formula = formula.replace("^", "**").replace("y z", "y*z")
        formula = (
            formula.replace(") log", ")*log").replace("1 exp", "1*exp").replace("y exp", "y*exp")
        )
        if "sum_k" not in formula:
            found = float(kind().value(jnp.asarray(0.3), jnp.asarray(1.0)))
            assert found == pytest.approx(eval(formula, names))
    scores = np.array([0.3, -0.2])
    found = float(Softmax().value(jnp.asarray(scores), jnp.asarray(1)))
    assert found == pytest.approx(math.log(np.exp(scores).sum()) - scores[1])


def test_general_help_does_not_wait_for_jax():
    code = (
        "import sys, contextlib; from proxfl.cli.main import main\n"
        "with contextlib.suppress(SystemExit): main(['--help'])\n"
        "heavy = {'jax', 'pandas', 'scipy', 'sklearn'} & set(sys.modules); assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120, capture_output=True)
