"""A loss that leaves something out is refused where it is defined, and so is a penalty."""

import dataclasses

import pytest

from proxfl.losses import REGISTRY, Convex, Huber, Rowwise, Squared, setting
from proxfl.options.kinds import POSITIVE_NUMBER
from proxfl.train.penalties import REGISTRY as PENALTIES
from proxfl.train.penalties import Penalty

FACTS = "name formula curvature target centring value slope second conjugate mean".split()
WHOLE = {fact: vars(Squared)[fact] for fact in FACTS} | {"name": "whole"}


@pytest.fixture(autouse=True)
def registries():
    """As they were, whatever is defined here."""
    before = dict(REGISTRY), dict(PENALTIES)
    yield
    for registry, held in zip((REGISTRY, PENALTIES), before, strict=True):
        registry.clear()
        registry.update(held)


def test_a_whole_loss_is_defined_and_entered():
    made = type("Whole", (Convex,), WHOLE)
    assert REGISTRY["whole"] is made and made() == made() and made.options() == {}


@pytest.mark.parametrize("fact", FACTS)
def test_what_is_left_out_is_named(fact):
    rest = {name: held for name, held in WHOLE.items() if name != fact}
    with pytest.raises(TypeError, match=f"loss Half leaves out {fact}; define it."):
        type("Half", (Convex,), rest)
    assert "half" not in REGISTRY


def test_whether_it_is_convex_cannot_be_left_out():
    with pytest.raises(TypeError, match="leaves out convex"):
        type("Half", (Rowwise,), WHOLE)


def test_a_field_that_users_could_not_set_is_refused():
    with pytest.raises(TypeError, match="has a field 'delta'; make it a setting"):
        type("Half", (Convex,), WHOLE | {"delta": 1.0, "__annotations__": {"delta": float}})


def test_a_setting_is_an_option_of_the_loss():
    held = {"bend": setting(POSITIVE_NUMBER, "the bend", 2.0), "__annotations__": {"bend": float}}
    made = type("Bent", (Convex,), WHOLE | held | {"name": "bent"})
    assert made.options()["bend"] == ("bent_bend", POSITIVE_NUMBER, "the bend", 2.0)
    assert made().bend == 2.0 and made(3) == made(3.0) != made()
    with pytest.raises(ValueError, match="Bent.bend must be a positive number, got -1."):
        made(-1)


@pytest.mark.parametrize("name", ["level", "name", "centring", "slopes", "total"])
def test_a_setting_hides_no_part_of_a_loss(name):
    held = {name: setting(POSITIVE_NUMBER, "a number", 2.0), "__annotations__": {name: float}}
    with pytest.raises(TypeError, match=f"loss Odd has a setting '{name}', the name of what every"):
        type("Odd", (Convex,), WHOLE | held)


def test_a_name_is_taken_once():
    with pytest.raises(TypeError, match="there is a loss 'huber' already"):
        type("Other", (Convex,), WHOLE | {"name": Huber.name})
    record = {f.name: getattr(PENALTIES["l1"], f.name) for f in dataclasses.fields(Penalty)}
    with pytest.raises(TypeError, match="there is a penalty 'l1' already"):
        Penalty(**record | {"make": lambda spec, features, outputs: None})


@pytest.mark.parametrize("field", [f.name for f in dataclasses.fields(Penalty)])
def test_a_penalty_leaves_nothing_out(field):
    record = {f.name: getattr(PENALTIES["l1"], f.name) for f in dataclasses.fields(Penalty)}
    del record[field]
    with pytest.raises(TypeError, match=f"missing .* '{field}'"):
        Penalty(**record)
