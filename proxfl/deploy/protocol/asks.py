"""What a study may ask: by its name, which keys the study's text then has, and what they say."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from proxfl.errors import InputError
from proxfl.tables import Schema
from proxfl.train.choice import Choice
from proxfl.train.evaluate import MOST_DRAWS, How
from proxfl.train.folder import parsed_model
from proxfl.train.spec import Spec

OWN = ("sites", "out")  # options that a study has in other ways
NO_PROBLEM = {"target": "none", "loss": "squared"}  # where none is solved
MOST_FOLDS, MOST_POINTS = 100, 1000

Held = Mapping[str, Any]  # a study's text as TOML; see `StudyFile`


def to_train(held: Held) -> dict[str, Any]:
    return {"spec": problem_in(held["problem"])}


def to_choose(held: Held) -> dict[str, Any]:
    choice = choice_in(held["choice"])
    if choice.sweep in held["problem"]:
        raise InputError(f"The study has {choice.sweep!r}, the weight that its path chooses.")
    spec = problem_in(held["problem"] | {choice.sweep: 1.0})
    if spec.dp_clip is not None:
        raise InputError("a path asks many questions, and none of its answers carries noise.")
    return {"spec": spec, "choice": choice}


def to_evaluate(held: Held) -> dict[str, Any]:
    how = How(**held["how"])
    if not (0 < how.threshold < 1 and 0 <= how.draws <= MOST_DRAWS and 0 <= how.seed < 2**63):
        raise InputError(f"The study has a threshold, draws or a seed that cannot be: {how}.")
    spec = problem_in(parsed_model(held["model"], "The model of the study")[1]["problem"])
    if spec.site_intercepts:
        raise InputError(
            "the model has an intercept for each site, which stayed there and no study asks for; "
            "use 'proxfl evaluate' at each site."
        )
    return {"spec": spec, "model": held["model"], "how": how}


def to_describe(held: Held) -> dict[str, Any]:
    schema, smallest = Schema.from_dict(held["schema"]), held["smallest"]
    if not schema.columns or smallest < 1:
        raise InputError("The study describes no column, or what no row is behind; correct it.")
    return {"spec": Spec(**NO_PROBLEM), "schema": schema, "smallest": smallest}


class Ask(NamedTuple):
    """The keys of a text, and how the fields of a `Study` are read from them."""

    keys: set[str]
    read: Callable[[Held], dict[str, Any]]


ASKS = {
    "train": Ask({"problem"}, to_train),
    "path": Ask({"problem", "choice"}, to_choose),
    "evaluate": Ask({"model", "how"}, to_evaluate),
    "describe": Ask({"schema", "smallest"}, to_describe),
}
OPTIONAL = set().union(*(ask.keys for ask in ASKS.values()))


def parts_of(held: Held) -> dict[str, Any]:
    """What the text says of what it asks; InputError if it has other keys than it should."""
    ask = ASKS.get(held["ask"])
    if ask is None:
        known = ", ".join(ASKS)
        raise InputError(f"The study asks for {held['ask']!r}; what there is, is {known}.")
    if odd := sorted(ask.keys ^ (held.keys() & OPTIONAL)):
        raise InputError(f"The study cannot be read: the key {odd[0]!r} is missing or not for it.")
    return ask.read(held)


def choice_in(held: Held) -> Choice:
    """How the weight of a path is chosen, within what a site does for a study."""
    choice = Choice(**held)
    if choice.folds > MOST_FOLDS or choice.points > MOST_POINTS:
        raise InputError(
            f"a path over sites has at most {MOST_FOLDS} folds and {MOST_POINTS} points, got "
            f"{choice.folds} and {choice.points}; use fewer."
        )
    return choice


def problem_in(held: Held) -> Spec:
    """The problem of a study, which names no file of whoever reads it."""
    table = Spec.table()
    is_path = lambda key: key in table and table[key].kind.is_path and isinstance(held[key], str)
    if own := [key for key in held if key in OWN or is_path(key)]:
        raise InputError(f"The study has the key {own[0]!r}, which is of one machine; remove it.")
    return Spec.from_dict(held)
