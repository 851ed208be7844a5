"""`proxfl describe` over real sites; under masks, of all of them together."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from proxfl.deploy.masking.description import MaskedDescription
from proxfl.deploy.server.masked import MaskedRun
from proxfl.deploy.server.run import StudyRun
from proxfl.errors import InputError
from proxfl.report import description as report
from proxfl.tables.describe import Described, over_sites
from proxfl.tables.survey import Numbers, survey


def in_the_clear(run: StudyRun) -> dict[str, Described]:
    """Every column, at each site and, where no site hides any of it, overall."""

    def ask(kind: str, about: Numbers, size: int) -> dict[str, np.ndarray]:
        answers = run.federation.ask(kind, about)
        return {site: read(site, answer.get("told"), size) for site, answer in answers.items()}

    return {name: over_sites(told) for name, told in survey(run.study.schema, ask).items()}


def masked(run: StudyRun) -> dict[str, Described]:
    """Every column overall, by sites that follow; a run that was interrupted goes on."""
    return MaskedRun(run).in_private(lambda charter: MaskedDescription(run.study))


def save(run: StudyRun, found: Mapping[str, Described]) -> None:
    study = run.study
    about = {"smallest_cell": study.smallest, "masked": study.masked}
    report.write(run.out, found, about | {"command": run.options.command})


def read(site: str, told: Any, size: int) -> np.ndarray:
    """A site's numbers, or InputError if no site of ours would tell them."""
    if not isinstance(told, np.ndarray) or told.dtype.kind != "f" or told.shape != (size,):
        raise InputError(f"Site {site} told other numbers than were asked for; check its version.")
    return told
