"""`px.fit`: what `proxfl train` does, on data frames and in one call."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from proxfl.console.progress import is_watched, progress
from proxfl.notebook.fitted import Fitted
from proxfl.notebook.sites import by_name
from proxfl.storage.files import refuse_full
from proxfl.train import train as fitting
from proxfl.train.spec import Spec


def fit(sites: Any, **options: Any) -> Fitted:
    """A model of several sites' rows, trained to a certificate as by `proxfl train`.

    `sites` is a dict of pandas DataFrames by the names of the sites, or a list of DataFrames. The
    options are those of the command, spelt with underscores: `target="y", loss="logistic",
    l1=0.01`. Sites weigh by their rows, which makes it the objective of the pooled data, unless
    `weights="uniform"`; `px.simulate` weighs them uniformly. Rounds that are used up before the
    certificate is met raise a `ConvergenceWarning`.
    """
    frames, spec = by_name(sites), Spec(**options)
    if spec.out is not None:
        refuse_full(Path(spec.out), "choose another as 'out'")
    with progress(fitting.heading(spec), None, is_watched()) as report:
        job = fitting.begin(spec, fitting.read_tables(spec, frames))
        watch = lambda record: report(record.round, note=fitting.standing(record, spec))
        fitted = Fitted(fitting.run(job, watch=watch), call(frames, spec))
    if spec.out is not None:
        fitted.save(spec.out)
    return fitted


def call(frames: Mapping[str, Any], spec: Spec) -> str:
    """The call as one would write it, but for the data."""
    given = ", ".join(f"{name!r}: ..." for name in frames)
    options = "".join(f", {key}={value!r}" for key, value in spec.changed().items())
    return f"px.fit({{{given}}}{options})"
