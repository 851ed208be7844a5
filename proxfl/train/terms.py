"""The terms of a model with one score: a column of the files, with all features made of it."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from proxfl.console.words import called
from proxfl.tables import Schema
from proxfl.train.model import output_key
from proxfl.train.spec import Spec


class Term(NamedTuple):
    """One row of a table: a column, and what its features have, by what tells them apart."""

    name: str
    entries: tuple[tuple[str, float], ...]  # in the order given

    def shown(self) -> float | str:
        """Its number, or its numbers in words."""
        if len(self.entries) == 1 and self.entries[0][0] == "":
            return self.entries[0][1]
        own_first = sorted(self.entries, key=lambda entry: entry[0] != "")
        named = (f"{label}: " if label else "" for label, _ in own_first)
        values = (f"{value:.3g}" for _, value in own_first)
        return ", ".join(map("".join, zip(named, values, strict=True)))


def terms(model: Mapping[str, Any], values: Mapping[str, float]) -> list[Term]:
    """Numbers by feature as numbers by term, in the order in which the first of each comes.

    `model` is what model.json holds.
    """
    schema = schema_of(model)
    made = {} if schema is None else schema.sources()
    found: dict[str, list[tuple[str, float]]] = {}
    for feature, value in values.items():
        name = made.get(feature, feature)
        found.setdefault(name, []).append((feature.removeprefix(name).lstrip("= "), value))
    return [Term(name, tuple(entries)) for name, entries in found.items()]


def table_of(model: Mapping[str, Any]) -> tuple[list[str], list[list[Any]]]:
    """One row for each column of the files that is in the model, or for each of its classes."""
    entries = model["nonzeros"]
    if np.ndim(model["coef"]) == 1:
        values = {entry["feature"]: entry["value"] for entry in entries}
        return ["feature", "value"], [[t.name, t.shown()] for t in terms(model, values)]
    columns = ["feature", output_key(model["classes"]), "value"]
    return columns, [[entry[key] for key in columns] for entry in entries]


def intercept(model: Mapping[str, Any]) -> str | None:
    """A sentence on what is added to all scores, if anything is."""
    spec = Spec.from_dict(model["problem"])
    if spec.site_intercepts:
        return "Each site has an intercept of its own, which stays there."
    if not spec.intercept:
        return None
    values = np.atleast_1d(model["intercept"]).tolist()
    names = [f"{called(label)} " for label in model["outputs"]] if len(values) > 1 else [""]
    each = ", ".join(f"{name}{value:.4g}" for name, value in zip(names, values, strict=True))
    return f"Intercept: {each}."


def schema_of(model: Mapping[str, Any]) -> Schema | None:
    """The schema by which a model reads files, if it was made with one."""
    held = model.get("schema")
    return None if held is None else Schema.from_dict(held)
