"""A model applied to files: how it reads them, and what its scores see of their rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from proxfl import losses
from proxfl.errors import InputError
from proxfl.precision import precision
from proxfl.tables import Schema, Table, read_beside, read_features, read_site
from proxfl.tables.formats import Source, filled
from proxfl.tables.sites import arranged, wanted_for
from proxfl.train.agreement import has_level, offsets, row_counts
from proxfl.train.model import Model
from proxfl.train.spec import Spec, beside_of, columns_of, loss_of
from proxfl.train.terms import schema_of


@dataclass(frozen=True)
class Applied:
    """A model and how it reads files: all that model.json holds.

    A model with an intercept for each site needs that of the site it is applied at: of sites whose
    rows are known, and one for all others, if there are others.
    """

    model: Model
    held: Mapping[str, Any]
    schema: Schema | None
    intercept: float | None = 0.0
    intercepts: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, model: Model, held: Mapping[str, Any], schema: Schema | None = None) -> "Applied":
        """With its own schema, or another in its place."""
        return cls(model, held, schema_of(held) if schema is None else schema)

    def at_site(self, intercept: float | Path | None) -> "Applied":
        """With the intercept of a site, or the best one for the rows in a file of its own."""
        found = self.at_sites(() if intercept is None else (intercept,))
        own = next(iter(found.intercepts.values()), found.intercept)
        return replace(self, intercept=own)

    def at_sites(self, given: Sequence[float | Path]) -> "Applied":
        """With the best intercept for each site of whose own rows there is a file, by its name, and
        a number for all others."""
        if not self.spec.site_intercepts:
            if given:
                raise InputError("the model has no intercepts of sites; leave --intercept out.")
            return self
        if not given:
            raise InputError(
                "the model has an intercept for each site, which stayed there; give --intercept, a "
                "number or a file of the site's own rows with their target."
            )
        files = [one for one in given if isinstance(one, Path)]
        if len(numbers := [one for one in given if not isinstance(one, Path)]) > 1:
            raise InputError("--intercept takes one number, for sites without a file; drop others.")
        own = {file.stem: self.best_intercept(file) for file in files}
        return replace(self, intercept=numbers[0] if numbers else None, intercepts=own)

    def best_intercept(self, file: Path) -> float:
        """What a site finds for itself, from its own rows."""
        rows, loss = self.rows(self.table(file)), loss_of(self.spec)
        about = tuple(map(as_arrays, (rows.z, rows.y, rows.counts / rows.counts.sum())))
        with precision(np.float64):
            if has_level(loss, *about):
                return float(loss.level(*about))
        raise InputError(
            f"{file}: the best intercept for these rows is infinite; give others of the site, or "
            "a number."
        )

    @property
    def spec(self) -> Spec:
        """The problem that the model solves."""
        return Spec.from_dict(self.held["problem"])

    @property
    def missing(self) -> str:
        return self.held.get("missing", "refuse" if self.held["fill"] is None else "mean")

    @property
    def loss(self) -> Any:
        return losses.named(self.model.loss)(**self.held.get("settings", {}))

    def features(self, file: Source) -> Any:
        """The features of all rows of a file."""
        return self.filled(read_features(file, self.model.features, self.missing, self.schema))

    def offset(self, file: Source) -> np.ndarray:
        """What is added to the scores of all rows of a file."""
        names = beside_of(self.spec.replace(row_weights=None))
        found = read_beside(file, names, self.schema) if names else {}
        rows = Table("", str(file), "", (), np.zeros((0, 0)), np.zeros(0), "", beside=found)
        added = offsets(rows, self.spec)
        return np.asarray(self.of_site("", added))

    def of_site(self, name: str, added: np.ndarray | None) -> Any:
        """The intercept at a site, and what is added to the scores of its rows besides."""
        own = self.intercepts.get(name, self.intercept)
        if own is None:
            raise InputError(
                f"the model has an intercept for each site, and none is given for {name!r}; give "
                "--intercept a file of that name of its own rows, or a number for such sites."
            )
        return own if added is None else added + own

    def table(self, file: Source) -> Table:
        """A file with its target, without the rows that training would have dropped."""
        wanted = wanted_for(self.model.features, self.schema)
        wanted = wanted._replace(beside=beside_of(self.spec))
        return read_site(file, columns_of(self.spec), self.missing, wanted)

    def rows(self, table: Table) -> "SiteRows":
        A, added = self.filled(arranged(table, self.model.features).A), offsets(table, self.spec)
        z = self.model.scores(A, self.of_site(table.name, added))
        y = self.loss.target.encode(table, self.model.classes, self.model.loss)
        return SiteRows(z, y, self.loss.mean(z), row_counts(table, self.spec))

    def filled(self, A: Any) -> Any:
        fill = self.held["fill"]
        return A if fill is None else filled(A, np.array(fill))


class SiteRows(NamedTuple):
    """A site's rows as its scores see them, and how much they count; they stay at the site."""

    z: np.ndarray
    y: Any
    mean: np.ndarray
    counts: np.ndarray


def as_arrays(held: Any) -> Any:
    with precision(np.float64):
        return jax.tree.map(jnp.asarray, held)
