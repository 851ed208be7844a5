"""A result on a terminal: as sentences and tables, or as one JSON object."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from proxfl.console.table import show
from proxfl.console.words import printable, size
from proxfl.report.inference import inferred
from proxfl.report.training import remarks, verdict
from proxfl.train.folder import REPORT
from proxfl.train.saved import Saved
from proxfl.train.terms import intercept, table_of

MOST_ROWS = 20


def as_json(saved: Saved) -> str:
    certificate, model, manifest = saved.model["certificate"], saved.model, saved.manifest
    certified = ("objective", "optimality", "tolerance", "converged", "rounds")
    told = {key: certificate[key] for key in certified}
    told |= {"nonzeros": len(model["nonzeros"])}
    told |= {key: manifest[key] for key in ("exchanges", "bytes_up", "bytes_down")}
    told |= {"algorithm": manifest["method"]["name"]}
    if "privacy" in model:
        told |= {"privacy": model["privacy"]}
    if model.get("inference") is not None:
        told |= {"inference": model["inference"]["coefficients"]}
    told |= {"coef": by_name(model), "intercept": by_output(model)}
    return json.dumps(told)


def by_name(model: Any) -> dict[str, Any]:
    """Coefficients by feature; if there are several scores, by what they are for first."""
    coef = np.array(model["coef"])
    named = lambda column: dict(zip(model["features"], column.tolist(), strict=True))
    if coef.ndim == 1:
        return named(coef)
    return {str(c): named(column) for c, column in zip(model["outputs"], coef.T, strict=True)}


def by_output(model: Any) -> Any:
    if np.ndim(model["intercept"]) == 0:
        return float(model["intercept"])
    return dict(zip(map(str, model["outputs"]), model["intercept"], strict=True))


def summary(saved: Saved, folder: Path) -> None:
    """What was found, its certificate, what it cost and where it is."""
    show_model(saved.model)
    manifest = saved.manifest
    up, down = size(manifest["bytes_up"]), size(manifest["bytes_down"])
    print(manifest["method"]["reason"])
    print(
        f"Sent by all sites together: {up} up, {down} down, in {manifest['exchanges']} exchanges "
        f"and {manifest['seconds']:.1f} s."
    )
    print(f"Results: {printable(folder)}")
    if (report := folder / REPORT).exists():
        print(f"Report: {printable(report)}")


def show_remarks(model: Any) -> None:
    """What belongs to the coefficients of a model that were shown."""
    for sentence in filter(None, [intercept(model), *remarks(model)]):
        print(sentence)


def show_model(model: Any) -> None:
    certificate, entries = model["certificate"], model["nonzeros"]
    columns, rows = table_of(model)
    print(f"{len(entries)} of {np.size(model['coef'])} coefficients are not zero.")
    if rows:
        show("", columns, rows[:MOST_ROWS])
    if len(rows) > MOST_ROWS:
        print(f"... and {len(rows) - MOST_ROWS} smaller ones, in model.json.")
    show_remarks(model)
    if model.get("inference") is not None:
        heads, rows = inferred(model)
        show("Standard errors", heads, rows[:MOST_ROWS])
    if certificate["objective"] is not None:
        print(f"Objective: {certificate['objective']:.12g}")
    gap = certificate["duality_gap"]
    if gap is not None:
        print(f"Duality gap: {gap:.3g}, so no model has an objective lower by more than this.")
    print(verdict(certificate))
