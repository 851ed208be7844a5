"""What `px.fit` gives back: a model, its certificate and what it cost, as pandas has them."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from proxfl.errors import InputError
from proxfl.notebook.html import html
from proxfl.notebook.sites import by_name
from proxfl.report import training
from proxfl.report.evaluation import score_table
from proxfl.storage.files import refuse_full
from proxfl.tables.formats import InMemory
from proxfl.train import folder
from proxfl.train.applied import Applied
from proxfl.train.evaluate import evaluate
from proxfl.train.saved import Saved
from proxfl.train.train import Fit


@dataclass(frozen=True, eq=False, repr=False)
class Fitted:
    """A trained model; `command` is the call that made it."""

    trained: Fit
    command: str

    @cached_property
    def saved(self) -> Saved:
        """All that the files of `proxfl train` would hold."""
        fit = self.trained
        return Saved(
            folder.model_of(fit), folder.manifest_of(fit, self.command), folder.history_of(fit)
        )

    @property
    def coef(self) -> pd.Series | pd.DataFrame:
        """By feature, and by class or target if there are several; zeros are exact."""
        model = self.trained.model
        if model.coef.ndim == 1:
            return pd.Series(model.coef, list(model.features), name="coef")
        return pd.DataFrame(model.coef, list(model.features), list(model.outputs))

    @property
    def intercept(self) -> float | pd.Series:
        """A number, or one by class or target."""
        model = self.trained.model
        if model.intercept.ndim == 0:
            return float(model.intercept)
        return pd.Series(model.intercept, list(model.outputs), name="intercept")

    @property
    def certificate(self) -> dict[str, Any]:
        """How good a minimum the model is, as model.json has it."""
        return dict(self.saved.model["certificate"])

    @property
    def converged(self) -> bool:
        return self.trained.solution.converged

    @property
    def objective(self) -> float:
        return self.trained.solution.objective

    @property
    def optimality(self) -> float:
        return self.trained.solution.optimality

    @property
    def duality_gap(self) -> float | None:
        """No model has an objective lower by more than this; None where it is not known."""
        return self.trained.duality_gap

    @property
    def exchanges(self) -> int:
        """How often sites were asked, agreement and certificate included."""
        return self.saved.manifest["exchanges"]

    @property
    def bytes_up(self) -> int:
        """What all sites together would send."""
        return self.saved.manifest["bytes_up"]

    @property
    def bytes_down(self) -> int:
        return self.saved.manifest["bytes_down"]

    @property
    def history(self) -> pd.DataFrame:
        """One row per round; NaN where nobody looked."""
        return numbers(pd.DataFrame(list(self.saved.history)))

    @property
    def sites(self) -> pd.DataFrame:
        """By site: its rows, how much it weighs, its mean loss."""
        sites, columns = self.saved.manifest["sites"], ["rows", "dropped", "weight", "loss"]
        return pd.DataFrame(sites, [site["name"] for site in sites], columns)

    @property
    def inference(self) -> pd.DataFrame | None:
        """Standard errors, intervals and p-values by coefficient, if they were asked for."""
        found = self.trained.inference
        return None if found is None else numbers(pd.DataFrame(found.by_name()).T)

    def predict(
        self, frame: pd.DataFrame, intercept: float | None = None
    ) -> pd.Series | pd.DataFrame:
        """A prediction for each row, or one for each target; a model with intercepts of sites needs
        that of one."""
        applied, rows = self.applied(intercept), InMemory("the data frame", frame)
        found = applied.model.predict(applied.features(rows), applied.offset(rows))
        if found.ndim == 2:
            return pd.DataFrame(found, frame.index, list(applied.model.outputs))
        return pd.Series(found, frame.index, name="prediction")

    def probabilities(self, frame: pd.DataFrame, intercept: float | None = None) -> pd.DataFrame:
        """The probability of each class for each row, if the model is a classifier."""
        applied, rows = self.applied(intercept), InMemory("the data frame", frame)
        if not applied.model.classes:
            raise InputError(f"a {applied.model.loss} model has no probabilities; use predict.")
        found = applied.model.probabilities(applied.features(rows), applied.offset(rows))
        return pd.DataFrame(found, frame.index, list(applied.model.classes))

    def evaluate(
        self,
        sites: Any,
        threshold: float = 0.5,
        draws: int = 200,
        seed: int = 0,
        intercepts: Mapping[str, float] | None = None,
    ) -> pd.DataFrame:
        """By site and score, all sites first: the value, and the ends of its 95% interval.

        `sites` is as in `px.fit`, with the target; the scores and what else is chosen are those of
        `proxfl evaluate`. A model with intercepts of sites needs those of the sites, by name.
        """
        if not 0 < threshold < 1:
            raise InputError(f"threshold must be between 0 and 1, got {threshold}.")
        frames = [InMemory(name, frame) for name, frame in by_name(sites).items()]
        applied = Applied.of(self.trained.model, self.saved.model)
        if applied.spec.site_intercepts:
            applied = replace(applied, intercept=None, intercepts=dict(intercepts or {}))
        scores = score_table(evaluate(applied, frames, threshold, draws, seed))
        return scores.set_index(["site", "score"])

    def applied(self, intercept: float | None) -> Applied:
        return Applied.of(self.trained.model, self.saved.model).at_site(intercept)

    def save(self, where: str | os.PathLike) -> None:
        """Write the folder that `proxfl train` writes, report included."""
        refuse_full(Path(where), "choose another")
        training.save(Path(where), self.trained, self.command)

    def __repr__(self) -> str:
        return f"{training.title(self.saved)}. {training.lead(self.saved)}"

    def _repr_html_(self) -> str:
        return html(self.saved)


def numbers(frame: pd.DataFrame) -> pd.DataFrame:
    """With NaN for None, also in a column that holds nothing else."""
    empty = dict.fromkeys(frame.select_dtypes(object).columns, float)
    return frame.astype(empty)
