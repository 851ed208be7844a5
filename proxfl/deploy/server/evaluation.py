"""`proxfl evaluate` over real sites: scores from the sums of all; under masks, from theirs only."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from proxfl.deploy.masking.evaluation import MaskedEvaluation
from proxfl.deploy.protocol.study import Study
from proxfl.deploy.server.masked import MaskedRun
from proxfl.deploy.server.run import StudyRun
from proxfl.deploy.server.summaries import refuse_other
from proxfl.errors import InputError
from proxfl.report import evaluation as report
from proxfl.train.evaluate import Evaluation, EvaluationSums, evaluated
from proxfl.train.folder import parsed_model
from proxfl.train.spec import loss_of

PARTS = EvaluationSums._fields


def in_the_clear(run: StudyRun) -> Evaluation:
    """The scores of the study's model at its sites, and overall."""
    answers = run.federation.ask("sums", {})
    form = lambda answer: str(sorted((name, np.shape(a)) for name, a in answer.items()))
    refuse_other("form of its sums", {site: form(answer) for site, answer in answers.items()})
    told = ((site, read_sums(site, answer, run.study)) for site, answer in answers.items())
    return evaluated(loss_of(run.study.spec).target.scorecard, told)


def masked(run: StudyRun) -> Evaluation:
    """The overall scores, by sites that follow; a run that was interrupted goes on."""
    return MaskedRun(run).in_private(lambda charter: MaskedEvaluation(run.study))


def read_sums(site: str, answer: Mapping[str, Any], study: Study) -> EvaluationSums:
    """A site's sums, or InputError if no site of ours would tell them."""
    split = {part: {} for part in PARTS}
    for name, values in answer.items():
        part, _, key = name.partition("/")
        if part not in split or isinstance(values, str) or np.asarray(values).dtype.kind != "f":
            raise InputError(f"Site {site} sent {name!r}, which is no sum; check its version.")
        split[part][key] = np.asarray(values)
    sums, drawn = split.values()
    card, draws = loss_of(study.spec).target.scorecard, study.how.draws
    of_draws = sums.keys() - card.only_of_curves if draws else set()
    named = {"rows", "weight", "loss", "deviance"} <= sums.keys() and of_draws == drawn.keys()
    sound = named and all(a.shape == (draws, *sums[n].shape) for n, a in drawn.items())
    if not sound or not (sums["rows"] >= 1 and sums["weight"] > 0):
        raise InputError(f"Site {site} sent other sums than were asked for; check its version.")
    return EvaluationSums(sums, drawn)


def save(run: StudyRun, found: Evaluation) -> None:
    study = run.study
    model, held = parsed_model(study.model, "The model of the study")
    about = {"target": held["target"], "loss": model.loss, "classes": list(model.classes)}
    about |= study.how._asdict() | {"masked": study.masked, "command": run.options.command}
    report.write(run.out, found, about)
