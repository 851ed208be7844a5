"""Whatever one site sends as a summary: a sentence that names it, or a summary that works.

"Works" is that the sites agree and each honest one could prepare its rows by what they agreed on.
"""

import json
import random
import sys

import numpy as np
import pandas as pd
import pytest

from proxfl.deploy.protocol.study import make_study, read_table
from proxfl.deploy.server.summaries import aligned, read_summary
from proxfl.deploy.site.office import Office
from proxfl.deploy.site.policy import Policy
from proxfl.deploy.site.training import TrainingSite
from proxfl.errors import InputError
from proxfl.train.agreement import agree, prepare, summarise
from proxfl.train.spec import Spec

NAMES, BAD = ("north", "south", "west"), 300
LOOSE = Policy(rows=1, count=0, parameters_per_row=10.0)
NUMBERS = (
    10**400, -(10**400), 2**63, 2**53 + 2, -1, 0, 1, 10**7, 1e308, -1e308, 1e101, 5e-324, 0.5,
    float("nan"), float("inf"), float("-inf"),
)  # fmt: skip
OTHERS = (None, True, False, "", "3", "é\x1b[31m", [], [[1]], {}, {"x": [1]}, [None], [True])
SPECS = (
    Spec(target="y", loss="logistic"),
    Spec(target="y", loss="softmax"),
    Spec(target="y", loss="squared", standardise=True),
    Spec(target="y", loss="squared", row_weights="w"),
    Spec(target="y", loss="logistic", precondition=False),
)


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("tables"), np.random.default_rng(0)
    for name in NAMES:
        A = pd.DataFrame(rng.normal(size=(20, 3)), columns=list("abc"))
        A.assign(y=np.arange(20) % 2, w=rng.uniform(1, 2, 20)).to_csv(
            folder / f"{name}.csv", index=False
        )
    made = []
    for spec in SPECS:
        study = make_study("all", "field", NAMES, spec.replace(features=["a", "b", "c"]))
        read = {name: read_table(study.spec, folder / f"{name}.csv") for name in NAMES}
        office = lambda name: Office(folder / name, LOOSE)
        sites = {name: TrainingSite(study, name, read[name], office(name)) for name in NAMES}
        made.append((study.spec, sites))
    return made


def changed(told, rng):
    """An honest summary with some of it changed; sometimes no summary, or no JSON."""
    told = json.loads(json.dumps(told))
    for _ in range(rng.choice((1, 1, 2))):
        key = rng.choice(list(told)) if told else "rows"
        value = rng.choice((*NUMBERS, *OTHERS))
        match rng.randrange(7):
            case 0:
                told.pop(key, None)
            case 1 if isinstance(told.get(key), list) and told[key]:
                told[key][rng.randrange(len(told[key]))] = value
            case 2 if isinstance(told.get(key), list):
                told[key] = told[key] * rng.choice((0, 2, 1000))
            case 3 if isinstance(told.get(key), list):
                told[key] = told[key] + [rng.choice((7, "other", value))]
            case 4:
                other = rng.choice(list(told) or ["rows"])
                told[key] = told.get(other)
            case _:
                told[key] = value
    odd = ("[" * 10**5, "", "null", "[]", '{"a":' * 10**4, f'{{"rows": {"9" * 5000}}}', None, 3.0)
    return rng.choice(odd) if rng.random() < 0.05 else long_json(told)


def long_json(value):
    """JSON as a site that is not ours would write it: with integers of any length."""
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    try:
        return json.dumps(value)
    finally:
        sys.set_int_max_str_digits(before)


def outcome(sites, spec, bad, text):
    """The sentence with which a summary is refused, or nothing if all went well."""
    told = {name: json.dumps(summarise(site.seat.table, spec)) for name, site in sites.items()}
    told[bad] = text
    try:
        read = {name: read_summary(name, text, spec) for name, text in told.items()}
        agreement = agree(spec, aligned(read, spec))
    except InputError as error:
        return str(error)
    json.dumps(agreement.to_dict(), allow_nan=False)
    for name, site in sites.items():
        if name != bad:
            site.check(agreement)
            A, *_ = prepare(site.seat.table, spec, agreement)
            assert np.isfinite(A).all()
    return ""


@pytest.mark.parametrize("which", range(len(SPECS)))
@pytest.mark.filterwarnings("error")
def test_a_changed_summary_works_or_names_its_site(tables, which):
    (spec, sites), refused = tables[which], 0
    for seed in range(BAD):
        rng = random.Random(seed)
        bad = rng.choice(NAMES)
        text = changed(summarise(sites[bad].seat.table, spec), rng)
        said = outcome(sites, spec, bad, text)
        refused += bool(said)
        if said:
            assert said.startswith(f"Site {bad} "), (seed, said)
            assert said.endswith(".") and "\n" not in said and len(said) < 400, (seed, said)
            assert said.isprintable(), (seed, said)
    assert refused > BAD / 2  # the changes are not all harmless


@pytest.mark.parametrize(
    "change",
    [
        {"labels": [[1]]},
        {"labels": [True]},
        {"labels": [0, "1"]},
        {"labels": [0, 1, 2]},
        {"labels": [0, 7]},
        {"labels": ["a", "b"]},
        {"rows": 10**400},
        {"rows": -3},
        {"rows": float("nan")},
        {"rows": True},
        {"rows": 2.0},
        {"mean": [1e308, 0.0, 0.0]},
        {"mean": [0.0] * 2},
        {"mean": [[0.0], [0.0], [0.0]]},
        {"squares": [-1.0, 0.0, 0.0]},
        {"squares": [1e308, 1.0, 1.0]},
        {"count": [21.0, 1.0, 1.0]},
        {"count": []},
        {"targets": 10**7},
        {"targets": 2},
        {"targets": 0},
        {"features": [1, 2, 3]},
        {"features": ["a", "a", "b"]},
        {"features": ["a", "b", "d"]},
        {"features": []},
        {"features": [str(j) for j in range(10**5)]},
        {"fingerprint": "f" * 10**6},
        {"dropped": -1},
    ],
    ids=lambda change: f"{next(iter(change))} {str(next(iter(change.values())))[:20]}",
)
@pytest.mark.parametrize("bad", NAMES)
def test_what_no_table_has_is_refused_by_the_name_of_its_site(tables, change, bad):
    """Also if it is the first site, with which the others are compared."""
    spec, sites = tables[0]
    text = long_json(summarise(sites[bad].seat.table, spec) | change)
    assert outcome(sites, spec, bad, text).startswith(f"Site {bad} ")


def test_rows_that_all_count_once_weigh_what_they_are(tables):
    """A weight that nobody asked for is not heard."""
    spec, sites = tables[0]
    told = summarise(sites["north"].seat.table, spec) | {"total": 1e9}
    assert "total" not in read_summary("north", json.dumps(told), spec)
