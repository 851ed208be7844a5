"""The folder of a path; it appears whole or not at all.

path.csv            one line per weight: the model's size, loss and rounds, its scores
coefficients.csv    one line per weight and coefficient that is not zero
folds.csv           one line per fold and weight
stability.csv       the share of folds that select each feature at each weight
model/              the chosen model, refitted on all rows, in the files of `proxfl train`
path.json           what was run and chosen
report.html         all of it, to read
figures/            PNG and SVG

In the tables, a text that a spreadsheet would take for a formula has an apostrophe before it.
"""

from pathlib import Path
from typing import Any, NamedTuple, TypedDict

import numpy as np
import pandas as pd

from proxfl.console.words import called, count, csv_cell, size
from proxfl.drawing import plots
from proxfl.report import training
from proxfl.report.page import MOST_ROWS, Page
from proxfl.report.path_figures import CHOICES, figures
from proxfl.storage import documents
from proxfl.storage.files import whole_folder, write_text
from proxfl.train import folder
from proxfl.train.folds import Validation
from proxfl.train.local import total
from proxfl.train.model import output_key
from proxfl.train.path import RegularisationPath
from proxfl.train.spec import describe, outcome_of
from proxfl.train.train import Fit

SUMMARY, REPORT = "path.json", "report.html"


class FoundPath(NamedTuple):
    """A path, its scores, and the model that a rule chose, refitted on all rows."""

    path: RegularisationPath
    validation: Validation
    fit: Fit

    @property
    def rule(self) -> str:
        return self.path.choice.rule

    @property
    def chosen(self) -> int:
        return self.validation.chosen(self.rule)

    @property
    def at_the_end(self) -> bool:
        """Whether a longer path may score better still."""
        return self.validation.chosen("min") == len(self.path.weights) - 1


class Chosen(TypedDict):
    """How a choice was made."""

    sweep: str


class Summary(TypedDict):
    """What is read of the summary."""

    choice: Chosen
    columns: list[str]
    choices: list[list[Any]]
    at_the_end: bool


def write(where: Path, found: FoundPath, command: str) -> None:
    with whole_folder(where) as made:
        fill(made, found, command)


def fill(made: Path, found: FoundPath, command: str) -> None:
    """Write the files into a folder that is there; the figures last, so that none can cost it."""
    training.save(made / folder.CHOSEN, found.fit, command)
    for name, frame in frames(found).items():
        text = frame.map(csv_cell).to_csv(index=False, lineterminator="\n")
        write_text(made / f"{name}.csv", text)
    documents.write_json(made / SUMMARY, summary(found, command))
    with training.allowed_to_fail(made):
        drawn = figures(found.path, found.validation)
        report(found, drawn, command).write(made / REPORT)
        plots.save_figures(drawn, made / "figures")


def frames(found: FoundPath) -> dict[str, pd.DataFrame]:
    path, validation = found.path, found.validation
    measured = ("nonzeros", "loss", "objective", "optimality", "converged", "rounds")
    along = {"weight": path.weights} | {name: getattr(path, name) for name in measured}
    along |= {"left_out_loss": validation.mean, "left_out_error": validation.error}
    along |= {f"left_out_{name}": mean for name, mean in validation.mean_scores.items()}
    stability = {
        "weight": np.repeat(path.weights, len(validation.parts)),
        "part": np.tile(validation.parts, len(path.weights)),
        "share": validation.stability.ravel(),
    }
    return {
        "path": pd.DataFrame(along),
        "coefficients": coefficients(path),
        "folds": pd.concat([fold_lines(path, validation, k) for k in range(len(validation.names))]),
        "stability": pd.DataFrame(stability),
    }


def coefficients(path: RegularisationPath) -> pd.DataFrame:
    along = zip(path.weights, path.models, strict=True)
    lines = [{"weight": weight} | entry for weight, model in along for entry in model.nonzeros()]
    several = [output_key(path.agreement.classes)] if path.coef.ndim == 3 else []
    names = ["weight", "feature", *several, "value"]
    return pd.DataFrame(lines, columns=names)


def fold_lines(path: RegularisationPath, validation: Validation, k: int) -> pd.DataFrame:
    columns: dict[str, Any] = {"fold": validation.names[k], "share": validation.shares[k]}
    columns |= {"weight": path.weights, "loss": validation.losses[k]}
    columns |= {name: values[k] for name, values in validation.scores.items()}
    return pd.DataFrame(columns | {"rounds": validation.rounds[k]})


def summary(found: FoundPath, command: str) -> dict[str, Any]:
    path, validation, index = found.path, found.validation, found.chosen
    walked, scored, fitted = path.traffic, validation.traffic, total(found.fit.ledger)
    rounds = int(path.first_rounds + path.rounds.sum())
    return {
        "format": "proxfl path 1",
        "command": command,
        "config": path.spec_at(index).to_dict(),
        "choice": path.choice.to_dict(),
        "folds": list(validation.names),
        "weight": float(path.weights[index]),
        "weights": {rule: float(path.weights[validation.chosen(rule)]) for rule in CHOICES},
        "largest_weight": float(path.weights[0]),
        "left_out_loss": float(validation.mean[index]),
        "left_out_error": float(validation.error[index]),
        **{
            f"left_out_{name}": known(float(mean[index]))
            for name, mean in validation.mean_scores.items()
        },
        "nonzeros": int(path.nonzeros[index]),
        "choices": [[known(held) for held in row] for row in choice_rows(found)],
        "columns": choice_columns(found),
        "at_the_end": found.at_the_end,
        "all_converged": bool(path.converged.all()),
        "path_rounds": rounds,
        "fold_rounds": int(validation.rounds.sum()),
        "exchanges": walked.exchanges + scored.exchanges + fitted.exchanges,
        "path_bytes_up": walked.up + scored.up + fitted.up,
        "path_bytes_down": walked.down + scored.down + fitted.down,
        "method": path.method._asdict(),
        "versions": folder.versions(),
    }


def known(value: Any) -> Any:
    """As JSON can hold it."""
    return None if isinstance(value, float) and not np.isfinite(value) else value


def report(found: FoundPath, drawn: dict[str, Any], command: str) -> Page:
    path, told = found.path, summary(found, command)
    title = f"{called(outcome_of(path.spec))}: the {path.sweep.axis} of a {path.spec.loss} model"
    page = Page(title, lead(found))
    page.section("What was asked")
    page.code(describe(path.spec_at(found.chosen)))
    page.text(
        f"{count(len(path.weights), 'weight')}, from the smallest that leaves an empty model, "
        f"{path.weights[0]:.4g}, down to {path.weights[-1]:.4g}. {WAYS[path.choice.by]} Scores are "
        "mean losses, weighted as in the objective; errors are standard errors between folds."
    )
    page.section("What was chosen")
    page.figure(drawn["cross-validation"], CAPTIONS["cross-validation"])
    page.table(choice_columns(found), choice_rows(found))
    folds(page, found)
    page.section("What the model holds")
    page.figure(drawn["coefficients"], CAPTIONS["coefficients"])
    page.figure(drawn["stability"], CAPTIONS["stability"])
    chosen_parts(page, found)
    page.section("What it cost")
    page.facts(
        {
            "method": told["method"]["reason"],
            "exchanges, all": f"{told['exchanges']:,}: path, folds, scores and the chosen model",
            "rounds of the path": f"{told['path_rounds']:,}, those of each weight counted",
            "rounds of all folds": f"{told['fold_rounds']:,}",
            "sent": f"{size(told['path_bytes_up'])} up, "
            f"{size(told['path_bytes_down'])} down, all sites together",
            "models within the tolerance": f"{int(path.converged.sum())} of {len(path.weights)}",
        }
    )
    page.section("How to reproduce")
    page.code(command)
    page.facts(folder.versions() | {"seed": path.spec.seed})
    return page


WAYS = {
    "rows": "Each site dealt its own rows to the folds.",
    "sites": "Each site was left out once, and the others' model scored on its rows.",
}
CAPTIONS = {
    "cross-validation": "The mean score of rows left out, with one standard error to either side. "
    "Dotted: the least loss. Dashed: the largest weight within one standard error of it.",
    "coefficients": "The models along the path, from the empty one on the left.",
    "stability": "The share of folds that select each feature at each weight.",
}


def lead(found: FoundPath) -> str:
    path, index = found.path, found.chosen
    rule = {"min": "the least loss", "1se": "the rule of one standard error"}[found.rule]
    text = (
        f"By {rule}, {path.key} = {path.weights[index]:.4g}: {path.nonzeros[index]} of "
        f"{path.coef[0].size} coefficients are not zero."
    )
    if found.at_the_end:
        text += " The loss is least at the end of the path; a smaller ratio would go on."
    return text


def choice_columns(found: FoundPath) -> list[str]:
    heads = ["rule", "weight", "size", "loss left out", "standard error"]
    return [*heads, *found.validation.scores]


def choice_rows(found: FoundPath) -> list[list[Any]]:
    """What each rule would choose: the weight, the size of the model and its scores."""
    path, validation, rows = found.path, found.validation, []
    for rule, (_, words) in CHOICES.items():
        i = validation.chosen(rule)
        row = [words + (" (chosen)" if rule == found.rule else ""), float(path.weights[i])]
        size = int(path.sweep.parts.sizes(path)[i])
        row += [size, float(validation.mean[i]), float(validation.error[i])]
        row += [float(mean[i]) for mean in validation.mean_scores.values()]
        rows.append(row)
    return rows


def folds(page: Page, found: FoundPath) -> None:
    validation, i = found.validation, found.chosen
    columns: dict[str, Any] = {
        "fold" if found.path.choice.by == "rows" else "site": validation.names,
        "share of the objective": validation.shares.tolist(),
        "loss left out": validation.losses[:, i].tolist(),
    }
    columns |= {name: values[:, i].tolist() for name, values in validation.scores.items()}
    rows = [list(row) for row in zip(*columns.values(), strict=True)]
    page.table(list(columns), rows, "Each fold at the chosen weight.")


def chosen_parts(page: Page, found: FoundPath) -> None:
    """What the chosen model holds, and in how many folds."""
    validation, spec = found.validation, found.path.spec
    shares = dict(zip(validation.parts, validation.stability[found.chosen].tolist(), strict=True))
    if not found.path.sweep.parts.by_feature:
        page.table(["part", "share of folds"], [[part, share] for part, share in shares.items()])
        return
    agreement = found.path.agreement
    scale = dict(zip(agreement.features, agreement.scale, strict=True))
    entries = [e | {"scaled": e["value"] * scale[e["feature"]]} for e in found.fit.model.nonzeros()]
    key = "scaled" if spec.standardise else "value"
    entries = sorted(entries, key=lambda entry: -abs(entry[key]))[:MOST_ROWS]
    columns = {key: key for key in ("feature", output_key(agreement.classes))}
    columns |= {"value": "coefficient"}
    columns |= {"scaled": "standardised"} if spec.standardise else {}
    columns = {name: head for name, head in columns.items() if entries and name in entries[0]}
    page.table(
        [*columns.values(), "share of folds"],
        [[*(entry[name] for name in columns), shares[entry["feature"]]] for entry in entries],
        "The chosen model, refitted on all rows, the largest coefficients first; its own report "
        "is model/report.html.",
    )
