"""The report of one training run, from what its folder tells."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from proxfl.console.log import logger
from proxfl.console.words import called, count, size, unit_of
from proxfl.report.data import data, site_table
from proxfl.report.deployment import deployment
from proxfl.report.inference import inference
from proxfl.report.page import MOST_ROWS, Page
from proxfl.report.survival import survival
from proxfl.report.training_figures import bars, by_size, objective_figure, optimality_figure
from proxfl.train import folder
from proxfl.train.drivers.driver import shortfall
from proxfl.train.penalties import chosen
from proxfl.train.privacy import in_words as promised
from proxfl.train.saved import Saved
from proxfl.train.spec import Spec, describe, in_words
from proxfl.train.terms import terms
from proxfl.train.train import Fit

log = logger("proxfl.report")


def page(saved: Saved) -> Page:
    made = Page(title(saved), lead(saved))
    for section in SECTIONS:
        if section.there(saved):
            made.section(section.heading)
            section.fill(made, saved)
    return made


def sites_of(saved: Saved) -> list[str]:
    """Their names; a masked run has what it knows of them under one name for all."""
    real = saved.manifest.get("deployment", {}).get("sites")
    return list(real) if real else [site["name"] for site in saved.manifest["sites"]]


def title(saved: Saved) -> str:
    sites = count(sites_of(saved), "site")
    return f"{called(saved.model['target'])}: a {saved.spec.loss} model from {sites}"


def lead(saved: Saved) -> str:
    """What came of it, in two sentences."""
    model = saved.model
    nonzero = f"{len(model['nonzeros'])} of {np.size(model['coef'])} coefficients are not zero."
    return f"{verdict(model['certificate'])} {nonzero}"


def save(where: Path, fit: Fit, command: str) -> None:
    """All files of a finished run: the model first, so that no picture can cost it."""
    saved = folder.write(where, fit, command)
    with allowed_to_fail(where):
        page(saved).write(where / folder.REPORT)


@contextmanager
def allowed_to_fail(where: Path) -> Iterator[None]:
    """For what is drawn once the results are safe: whatever goes wrong there is but a warning."""
    try:
        yield
    except Exception as error:  # others' code draws names from anywhere
        why = f"{type(error).__name__}: {error}"
        log.warning("The results are in %s, but not all of their report: %s", where, why)


def verdict(certificate: Mapping[str, Any]) -> str:
    rounds, tolerance = count(certificate["rounds"], "round"), certificate["tolerance"]
    if certificate["objective"] is None:
        return f"Ended after {rounds}, as many as were asked for. {certificate['obstacle']}"
    found = f"optimality {certificate['optimality']:.2g}"
    if certificate.get("obstacle"):
        return f"Not converged after {rounds}, with {found}. {certificate['obstacle']}"
    if certificate["converged"]:
        return f"Converged after {rounds}: {found} is within the tolerance {tolerance:.2g}."
    short = shortfall(certificate["optimality"], certificate.get("relative_gap"), tolerance)
    return f"Not converged after {rounds}: {short}."


def asked(made: Page, saved: Saved) -> None:
    spec = saved.spec
    made.text(in_words(spec))
    made.code(describe(spec))
    chosen = {"local steps": spec.local_steps, "rows per step": spec.batch or "all"}
    chosen |= {"sites per round": spec.cohort or "all", "eta": spec.eta or "found on the way"}
    chosen |= {"rounds at most": f"{spec.rounds:,}"}
    method = saved.manifest["method"]
    made.facts({"method": method["name"], "why": method["reason"], **chosen})


def found(made: Page, saved: Saved) -> None:
    model, coef = saved.model, np.array(saved.model["coef"])
    if not model["nonzeros"]:
        made.text("All coefficients are zero: a smaller penalty would let some in.")
    elif coef.ndim == 1:
        if len(model["nonzeros"]) > 1:
            scaled = " For standardised features." if saved.spec.standardise else ""
            made.figure(bars(saved), f"The largest coefficients.{scaled}")
        single(made, saved)
    else:
        by_output(made, saved)
    names = [str(label) for label in model["outputs"]] if coef.ndim > 1 else [""]
    values = np.atleast_1d(model["intercept"]).tolist()
    if saved.spec.intercept:
        pairs = zip(names, values, strict=True)
        made.facts({f"intercept {name}".strip(): f"{value:.6g}" for name, value in pairs})
    for sentence in remarks(model):
        made.text(sentence)


def remarks(model: Mapping[str, Any]) -> list[str]:
    """What is to be said of the coefficients beside their values."""
    shapes = (p.sweep.parts.said for p in chosen(Spec.from_dict(model["problem"])) if p.sweep)
    said = [shape(np.array(model["coef"])) for shape in shapes] + [positive(model)]
    said += [promised(model["privacy"])] if "privacy" in model else []
    return [sentence for sentence in said if sentence is not None]


def positive(model: Mapping[str, Any]) -> str | None:
    """Which of two classes the coefficients speak for."""
    if not model["classes"] or np.ndim(model["coef"]) > 1:
        return None
    target, label = called(model["target"]), called(model["classes"][1])
    return f"A positive score speaks for {target} = {label}."


def single(made: Page, saved: Saved) -> None:
    entries, shown = by_size(saved), 3 if saved.spec.standardise else 2
    by = lambda key: terms(saved.model, {entry["feature"]: entry[key] for entry in entries})
    pairs = zip(by("value"), by("scaled"), strict=True)
    rows = [[term.name, term.shown(), scaled.shown()][:shown] for term, scaled in pairs]
    heads = ["feature", "coefficient", "standardised"][:shown]
    made.table(heads, rows[:MOST_ROWS], caption(len(rows)))


def by_output(made: Page, saved: Saved) -> None:
    """One row per feature that is in the model, one column per class or target."""
    model, coef = saved.model, np.array(saved.model["coef"])
    order = [j for j in np.argsort(-np.abs(coef).max(axis=1), kind="stable") if coef[j].any()]
    rows = [[model["features"][j], *coef[j].tolist()] for j in order[:MOST_ROWS]]
    made.table(["feature", *map(str, model["outputs"])], rows, caption(len(order)))


def caption(rows: int) -> str:
    shown = "The largest first."
    return shown if rows <= MOST_ROWS else f"{shown} {rows - MOST_ROWS} more are in model.json."


def privacy(made: Page, saved: Saved) -> None:
    """Whom the noise protects, against whom, and provided what."""
    held = saved.model["privacy"]
    noise = f"{held['noise']:.6g} times the clip, in the sum over all rows of every round"
    made.facts(
        {
            "epsilon": f"{held['epsilon']:.6g}, of {count(held['rounds'], 'round')} together",
            "delta": f"{held['delta']:.3g}",
            "protected": held["protects"],
            "against": held["against"],
            "provided that": held["provided"],
            "clip": f"{held['clip']:g}: the gradient of a row is shortened to that",
            "noise": f"{noise}: discrete Gaussian, in steps of 2^-40",
        }
    )


def certificate(made: Page, saved: Saved) -> None:
    held = saved.model["certificate"]
    gap = held["duality_gap"]
    made.text(verdict(held))
    if held["objective"] is None:
        return
    made.facts(
        {
            "objective": f"{held['objective']:.12g}",
            "distance": f"{held['distance']:.3g}: how far the negative gradient of the loss is "
            "from the subdifferential of the penalty, in float64 from the full gradients of all "
            "sites; 0 exactly at a solution",
            "optimality": f"{held['optimality']:.3g}: the same, relative to the gradient's length "
            "at the start",
            "tolerance": f"{held['tolerance']:.3g}",
            "duality gap": "not known for this loss and penalty"
            if gap is None
            else f"{gap:.3g}: the objective is at most this much above the least possible",
        }
    )


def convergence(made: Page, saved: Saved) -> None:
    missed = sum(not line["counted"] for line in saved.history)
    uncounted = (
        f" Ticks at the bottom: {count(missed, 'round')} not counted, whose step was too long; "
        "sites went back to the state before."
    )
    note = uncounted if missed else ""
    told = "Optimality after each round; the dashed line is the tolerance."
    made.figure(optimality_figure(saved, saved.series("round"), "round"), told + note)
    made.figure(objective_figure(saved), "The objective above its final value." + note)


def communication(made: Page, saved: Saved) -> None:
    manifest, sites = saved.manifest, len(sites_of(saved))
    each = (saved.series("bytes_up") + saved.series("bytes_down")) / sites
    unit, scale = unit_of(float(each[-1]))
    if "privacy" not in saved.model:
        figure = optimality_figure(saved, each / scale, f"{unit} per site, up and down")
        made.figure(figure, "What optimality cost in communication.")
    ledger = {kind: t for kind, t in manifest["ledger"].items() if t["exchanges"]}
    words = {kind: LEDGER.get(kind, called(kind)) for kind in ledger}
    rows = [[words[k], t["exchanges"], size(t["up"]), size(t["down"])] for k, t in ledger.items()]
    exchanges = sum(t["exchanges"] for t in ledger.values())
    rows.append(["all", exchanges, size(manifest["bytes_up"]), size(manifest["bytes_down"])])
    note = f"Payload of all messages, {count(sites, 'site')} together; up is towards the server."
    made.table(["exchange", "times", "up", "down"], rows, note)


LEDGER = {
    "agreement": "agreement on columns, classes and scaling",
    "round": "rounds of training",
    "curvature": "smoothness, one number up",
    "evaluate": "losses and full gradients, for the certificate",
    "imbalance": "mean of the slopes, for the duality gap",
    "conjugate": "conjugates of the losses, for the duality gap",
    "hessian": "curvature, which tells collinear features",
    "information": "curvature and score products, for standard errors",
    "newton": "Newton steps: losses, gradients and Hessians, which tell second moments of features",
    "survival": "survival curves and concordance",
}


def again(made: Page, saved: Saved) -> None:
    manifest = saved.manifest
    made.code(manifest["command"])
    run = {"seed": manifest["seed"], "run": f"{manifest['date']}, {manifest['seconds']:.1f} s"}
    made.facts(manifest["versions"] | run)
    rows = [[site, name] for site, name in manifest["fingerprints"].items()]
    same = "The same data, options and versions give the same model, bit for bit."
    if rows:
        made.table(["site", "SHA-256 of its data"], rows, same)


always = lambda saved: True
private = lambda saved: "privacy" in saved.model


class Section(NamedTuple):
    """A part of the report, and of which results it speaks."""

    heading: str
    fill: Callable[[Page, Saved], None]
    there: Callable[[Saved], bool] = always


SECTIONS = (
    Section("What was asked", asked),
    Section("Privacy", privacy, private),
    Section("What was found", found),
    Section("Standard errors", inference, lambda saved: bool(saved.model.get("inference"))),
    Section("Survival", survival, lambda saved: "survival" in saved.model),
    Section("Certificate", certificate),
    Section("Convergence", convergence, lambda saved: not private(saved)),  # noise leaves none
    Section("Communication", communication),
    Section("Sites", site_table),
    Section("Deployment", deployment, lambda saved: "deployment" in saved.manifest),
    Section("Data", data),
    Section("How to reproduce", again),
)
