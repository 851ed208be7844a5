"""The report of one training run, from what its folder tells."""

import datetime
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from proxfl.console.words import count, size, unit_of
from proxfl.report.page import Page
from proxfl.report.training_figures import bars, by_size, objective_figure, optimality_figure
from proxfl.train import folder
from proxfl.train.saved import Saved
from proxfl.train.spec import describe, in_words
from proxfl.train.train import Fit

MOST_ROWS = 500  # of a table; model.json has the rest
MOST_FAULTS = 100  # of a table; manifest.json has the rest


def page(saved: Saved) -> Page:
    model, sites = saved.model, saved.manifest["sites"]
    title = f"{model['target']}: a {saved.spec.loss} model from {count(sites, 'site')}"
    nonzero = f"{len(model['nonzeros'])} of {np.size(model['coef'])} coefficients are not zero."
    made = Page(title, f"{verdict(model['certificate'])} {nonzero}")
    for heading, fill in SECTIONS.items():
        if heading == DEPLOYED and "deployment" not in saved.manifest:
            continue
        made.section(heading)
        fill(made, saved)
    return made


def save(where: Path, fit: Fit, command: str) -> None:
    """All files of a finished run: the model first, so that no picture can cost it."""
    page(folder.write(where, fit, command)).write(where / folder.REPORT)


def verdict(certificate: Mapping[str, Any]) -> str:
    rounds, tolerance = count(certificate["rounds"], "round"), certificate["tolerance"]
    found = f"optimality {certificate['optimality']:.2g}"
    if certificate["converged"]:
        return f"Converged after {rounds}: {found} is within the tolerance {tolerance:.2g}."
    return f"Not converged after {rounds}: {found} is above the tolerance {tolerance:.2g}."


def asked(made: Page, saved: Saved) -> None:
    spec = saved.spec
    made.text(in_words(spec))
    made.code(describe(spec))
    chosen = {"local steps": spec.local_steps, "rows per step": spec.batch or "all"}
    chosen |= {"sites per round": spec.cohort or "all", "eta": spec.eta or "found on the way"}
    made.facts({"method": spec.algorithm, **chosen, "rounds at most": f"{spec.rounds:,}"})


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
        by_class(made, saved)
    names = [str(label) for label in model["classes"]] if coef.ndim > 1 else [""]
    values = np.atleast_1d(model["intercept"]).tolist()
    if saved.spec.intercept:
        pairs = zip(names, values, strict=True)
        made.facts({f"intercept {name}".strip(): f"{value:.6g}" for name, value in pairs})
    if model["classes"] and coef.ndim == 1:
        made.text(f"A positive score speaks for {model['target']} = {model['classes'][1]}.")


def single(made: Page, saved: Saved) -> None:
    entries, shown = by_size(saved), 3 if saved.spec.standardise else 2
    rows = [[e["feature"], e["value"], e["scaled"]][:shown] for e in entries[:MOST_ROWS]]
    heads = ["feature", "coefficient", "standardised"][:shown]
    made.table(heads, rows, caption(len(entries)))


def by_class(made: Page, saved: Saved) -> None:
    """One row per feature that is in the model, one column per class."""
    model, coef = saved.model, np.array(saved.model["coef"])
    order = [j for j in np.argsort(-np.abs(coef).max(axis=1), kind="stable") if coef[j].any()]
    rows = [[model["features"][j], *coef[j].tolist()] for j in order[:MOST_ROWS]]
    made.table(["feature", *map(str, model["classes"])], rows, caption(len(order)))


def caption(rows: int) -> str:
    shown = "The largest first."
    return shown if rows <= MOST_ROWS else f"{shown} {rows - MOST_ROWS} more are in model.json."


def certificate(made: Page, saved: Saved) -> None:
    held = saved.model["certificate"]
    gap = held["duality_gap"]
    made.text(verdict(held))
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
    manifest, sites = saved.manifest, len(saved.manifest["sites"])
    each = (saved.series("bytes_up") + saved.series("bytes_down")) / sites
    unit, scale = unit_of(float(each[-1]))
    figure = optimality_figure(saved, each / scale, f"{unit} per site, up and down")
    made.figure(figure, "What optimality cost in communication.")
    ledger = {kind: t for kind, t in manifest["ledger"].items() if t["exchanges"]}
    rows = [[LEDGER[k], t["exchanges"], size(t["up"]), size(t["down"])] for k, t in ledger.items()]
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
}


def site_table(made: Page, saved: Saved) -> None:
    sites = saved.manifest["sites"]
    dropped = any(site["dropped"] for site in sites)
    keys = ["name", "rows", *(["dropped"] if dropped else []), "weight", "loss"]
    made.table(
        ["site" if key == "name" else key for key in keys],
        [[site[key] for key in keys] for site in sites],
        "The loss is the mean over a site's rows, without the penalty.",
    )


def data(made: Page, saved: Saved) -> None:
    agreement, spec = saved.manifest["agreement"], saved.spec
    facts = {"rows": f"{sum(agreement['rows']):,}", "features": len(agreement["features"])}
    if agreement["classes"]:
        facts["classes"] = ", ".join(map(str, agreement["classes"]))
    facts["missing values"] = {
        "refuse": "none",
        "drop": "their rows were dropped",
        "mean": "filled with the mean over all sites",
    }[spec.missing]
    made.facts(facts)
    if any(agreement["centre"]):
        columns = zip(*(agreement[key] for key in ("features", "centre", "scale")), strict=True)
        made.table(
            ["feature", "mean", "standard deviation"],
            [list(row) for row in columns][:MOST_ROWS],
            "Over all sites, from each site's counts, means and sums of squares.",
        )
    made.text("No row of data is in this report, nor did any leave its site.")


def again(made: Page, saved: Saved) -> None:
    manifest = saved.manifest
    made.code(manifest["command"])
    run = {"seed": manifest["seed"], "run": f"{manifest['date']}, {manifest['seconds']:.1f} s"}
    made.facts(manifest["versions"] | run)
    rows = [[site, name] for site, name in manifest["fingerprints"].items()]
    same = "The same data, options and versions give the same model, bit for bit."
    made.table(["site", "SHA-256 of its data"], rows, same)


def deployment(made: Page, saved: Saved) -> None:
    """What real sites add: who took part, what went wrong, what was sent."""
    held = saved.manifest["deployment"]
    rounds, sites = saved.model["certificate"]["rounds"], held["sites"]
    always = all(site["rounds"] == rounds for site in sites.values())
    who = "Every site took part in every round." if always else "Not every site was in every round."
    again = count(held["resumed"], "time")
    made.text(f"{who} The run was resumed {again}." if held["resumed"] else who)
    secure = "TLS, sites known by their keys" if held["secure"] else "in the clear"
    quorum = f"{held['quorum']} of {count(len(sites), 'site')}"
    made.facts({"connection": secure, "quorum": quorum})
    rows = [[name, site["rounds"], *sizes(site)] for name, site in sites.items()]
    made.table(
        ["site", "rounds", "payload up", "payload down", "Flower up", "Flower down"],
        [*rows, ["all", "", *sizes(held["traffic"])]],
        "Bytes as measured by the server. Payload is the numbers exchanged; Flower's are whole "
        "messages, headers and repetitions included, to which HTTP and TLS add theirs.",
    )
    faults(made, held["faults"])


def sizes(ways: Any) -> list[str]:
    return [size(ways[way][what]) for what in ("payload", "wire") for way in ("up", "down")]


def faults(made: Page, found: list[dict[str, Any]]) -> None:
    if not found:
        made.text("Nothing went wrong.")
        return
    moment = lambda fault: datetime.datetime.fromtimestamp(fault["time"], datetime.UTC)
    more = f" {len(found) - MOST_FAULTS} more are in manifest.json." * (len(found) > MOST_FAULTS)
    told = lambda f: [f"{moment(f):%Y-%m-%d %H:%M:%S}", f["step"], f["site"], f["sentence"]]
    made.table(
        ["time (UTC)", "step", "site", "what went wrong"],
        [told(fault) for fault in found[:MOST_FAULTS]],
        "What was late, lost or refused, none of which entered the model." + more,
    )


DEPLOYED = "Deployment"  # there for real sites only
SECTIONS = {
    "What was asked": asked,
    "What was found": found,
    "Certificate": certificate,
    "Convergence": convergence,
    "Communication": communication,
    "Sites": site_table,
    DEPLOYED: deployment,
    "Data": data,
    "How to reproduce": again,
}
