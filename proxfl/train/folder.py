"""The folder of a result; each file in it is whole or not there at all.

    model.json          the model, its penalty and its certificate: equal runs give equal bytes
    model.safetensors   the arrays coef and intercept
    history.jsonl       one line per round
    manifest.json       what was run on what, by which versions; there once the first round is done
    inference.csv       standard errors, intervals and p-values, if they were asked for
    report.html         all of it, to read
    checkpoint.npz      as long as the run is not converged: what it goes on from

Each JSON file carries a digest of its content, and `manifest.json` those of the files beside it. It
is written last but for the report: a run whose manifest says that it is finished is all there.
"""

import datetime
import json
import logging
import os
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy

from proxfl import __version__, losses
from proxfl.console.words import csv_text
from proxfl.errors import InputError
from proxfl.storage import documents
from proxfl.storage.files import litter, remove, write_bytes
from proxfl.tables.sites import MISSING
from proxfl.train import first
from proxfl.train.contents import Begun, Finished, HistoryLine, ModelFile
from proxfl.train.inference import LEVEL, Inference
from proxfl.train.local import total
from proxfl.train.model import Model
from proxfl.train.privacy import promise
from proxfl.train.saved import Saved
from proxfl.train.spec import Spec, describe, fills, loss_of, outcome_of, sections
from proxfl.train.terms import schema_of
from proxfl.train.train import Fit

log = logging.getLogger(__name__)

MODEL, MANIFEST, HISTORY = "model.json", "manifest.json", "history.jsonl"
INFERENCE = "inference.csv"
ARRAYS, REPORT, CHECKPOINT = "model.safetensors", "report.html", "checkpoint.npz"
CHOSEN = "model"  # in the folder of a path, that of the model it chose
BY_FEATURE = ("centre", "scale", "unit", "fill")
FIRST = "%s is of the first edition, which kept no digests: nothing shows whether it was damaged."
FORMATS = {MODEL: "proxfl model 1", MANIFEST: "proxfl manifest 1"}


def versions() -> dict[str, str]:
    packages = {name: version(name) for name in ("jax", "jaxlib", "numpy")}
    system = {"python": platform.python_version(), "machine": platform.platform()}
    return {"proxfl": __version__} | packages | system


def begin(folder: Path, spec: Spec, fingerprints: Mapping[str, str], command: str) -> None:
    """Write what a resumption needs to know; without a checkpoint it starts from the beginning."""
    saved = {"fingerprints": dict(fingerprints)}
    documents.write_json(folder / MANIFEST, manifest(spec, command) | saved)


def manifest(spec: Spec, command: str) -> dict[str, Any]:
    return {
        "format": FORMATS[MANIFEST],
        "finished": False,
        "command": command,
        "working_folder": os.getcwd(),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "config": spec.to_dict(),
        "seed": spec.seed,
        "versions": versions(),
    }


def discard(folder: Path, made: Sequence[Path]) -> None:
    """Take back what `begin` wrote, after a run that failed, and the folders made for it."""
    for name in (MANIFEST, CHECKPOINT):
        remove(folder / name)
    for part in made:
        if part.is_dir() and not any(part.iterdir()):
            part.rmdir()


def write(folder: Path, fit: Fit, command: str) -> Saved:
    """The files of a finished run, all but the report, and what they hold.

    All are made before the first is written: what cannot be told is told before anything is there.
    """
    arrays = {"coef": fit.model.coef, "intercept": fit.model.intercept}
    contiguous = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    model, history = model_of(fit), history_of(fit)
    files = {
        HISTORY: "".join(json.dumps(line) + "\n" for line in history).encode(),
        ARRAYS: safetensors.numpy.save(contiguous),
        MODEL: documents.sealed(model),
    }
    if fit.inference is not None:
        files[INFERENCE] = inference_csv(fit.inference.by_name()).encode()
    digests = {name: documents.digest(data) for name, data in files.items()}
    saved = Saved(model, manifest_of(fit, command) | {"files": digests}, history)
    files[MANIFEST] = documents.sealed(saved.manifest)
    for name, data in files.items():
        write_bytes(folder / name, data)
    if fit.solution.converged or "privacy" in model:
        remove(folder / CHECKPOINT)
    for left in litter(folder):
        remove(left)
    return saved


def model_of(fit: Fit) -> dict[str, Any]:
    spec, solution = fit.spec, fit.solution
    penalties = {option.key for option in sections()["penalties"]}
    return {
        "format": FORMATS[MODEL],
        "target": outcome_of(spec),
        "problem": {k: v for k, v in spec.changed().items() if k not in ("sites", "out")},
        **fit.model.to_dict(),
        "nonzeros": fit.model.nonzeros(fit.agreement.scale if spec.standardise else None),
        "settings": loss_of(spec).settings,
        "schema": spec.schema,
        "missing": spec.missing,
        "fill": list(fit.agreement.fill) if fills(spec) else None,
        "penalty": {key: value for key, value in spec.changed().items() if key in penalties},
        "objective": describe(spec),
        **told_survival(fit),
        **told_privacy(fit),
        "certificate": {
            "objective": known(solution.objective),
            "distance": known(solution.distance),
            "optimality": known(solution.optimality),
            "tolerance": spec.tol,
            "converged": solution.converged,
            "obstacle": solution.obstacle,
            "duality_gap": solution.duality_gap,
            "relative_gap": solution.relative_gap,
            "rounds": len(solution.records),
        },
        "inference": inference_told(fit.inference),
        "versions": versions(),
    }


def known(number: float) -> float | None:
    """A number, or null where nobody computed it."""
    return None if np.isnan(number) else number


def told_privacy(fit: Fit) -> dict[str, Any]:
    promised = promise(fit.spec, fit.deployment)
    return {} if promised is None else {"privacy": promised}


def told_survival(fit: Fit) -> dict[str, Any]:
    """What sites told of the model, of rows with features as they are in the files."""
    if fit.survival is None:
        return {}
    # Sites count scores from those of the mean features, if they were centred.
    level = float(np.asarray(fit.agreement.centre) @ fit.model.coef)
    return {"survival": {"score": level, "sites": fit.survival}}


def inference_told(found: Inference | None) -> dict[str, Any] | None:
    if found is None:
        return None
    told = {"level": LEVEL, "desparsified": found.desparsified}
    told |= {"freedom": found.freedom if np.isfinite(found.freedom) else None}
    return told | {"coefficients": found.by_name()}


def inference_csv(lines: Mapping[str, Mapping[str, Any]]) -> str:
    rows = ([name, *line.values()] for name, line in lines.items())
    return csv_text([["feature", *next(iter(lines.values()))], *rows])


def manifest_of(fit: Fit, command: str) -> dict[str, Any]:
    agreement = fit.agreement
    columns = zip(agreement.sites, agreement.rows, agreement.weights, strict=True)
    exchanges, up, down = total(fit.ledger)
    return manifest(fit.spec, command) | {
        "finished": True,
        "fingerprints": fit.fingerprints,
        "agreement": agreement.to_dict(),
        "sites": [
            {
                "name": site,
                "rows": rows,
                "dropped": fit.dropped[site],
                "weight": weight,
                "loss": known(fit.solution.site_losses[site]),
                **fit.tallies.get(site, {}),
            }
            for site, rows, weight in columns
        ],
        "ledger": {kind: traffic._asdict() for kind, traffic in fit.ledger.items()},
        "method": fit.method._asdict(),
        "exchanges": exchanges,
        "bytes_up": up,
        "bytes_down": down,
        "seconds": round(fit.seconds, 3),
        **({} if fit.deployment is None else {"deployment": fit.deployment}),
    }


def history_of(fit: Fit) -> list[dict[str, Any]]:
    """What each round showed; null where nobody looked, or where it was not finite."""
    lines = []
    for record, (exchanges, up, down) in zip(fit.records, fit.traffic, strict=True):
        line = record._asdict() | {"exchanges": exchanges, "bytes_up": up, "bytes_down": down}
        lines.append({name: value if np.isfinite(value) else None for name, value in line.items()})
    return lines


def read(folder: Path) -> Saved:
    """What the files of a finished run tell, each as it was written."""
    manifest = read_manifest(folder)
    if not manifest["finished"]:
        raise InputError(f"{folder}: the run is not finished; go on with it by train --resume.")
    path = folder / MANIFEST
    documents.demand(path, manifest, Finished)
    refuse_uneven(path, manifest)
    lines = {name: beside(folder, name, manifest) for name in (HISTORY, ARRAYS, MODEL)}[HISTORY]
    history = [documents.parsed(folder / HISTORY, line) for line in lines.splitlines()]
    documents.demand(folder / HISTORY, history, list[HistoryLine])
    model, held = read_model(folder)
    told = len(history), manifest["agreement"]["features"]
    if told != (held["certificate"]["rounds"], list(model.features)) or not history:
        raise InputError(f"{path}: it is of another model than {MODEL} beside it; restore both.")
    return Saved(held, manifest, history)


def beside(folder: Path, name: str, manifest: Mapping[str, Any]) -> bytes:
    """The bytes of a file, if they are those that the manifest tells of."""
    data = documents.read_bytes(folder / name, "restore the folder")
    if documents.digest(data) != manifest["files"].get(name):
        raise InputError(f"{folder / name}: {documents.ALTERED}.")
    return data


def refuse_uneven(path: Path, manifest: Mapping[str, Any]) -> None:
    """One of each for every site and every feature."""
    agreement, by_site, by_feature = manifest["agreement"], ("rows", "weights"), BY_FEATURE
    lengths = {len(agreement[key]) - len(agreement["sites"]) for key in by_site}
    lengths |= {len(agreement[key]) - len(agreement["features"]) for key in by_feature}
    names = [site["name"] for site in manifest["sites"]]
    if lengths != {0} or names != agreement["sites"] or not names:
        raise InputError(f"{path}: its agreement has not one of each for every site and feature.")


def model_folder(path: Path) -> Path:
    """The folder of a model: that of a path has it inside."""
    inside = path / CHOSEN
    return inside if (inside / MODEL).exists() and not (path / MODEL).exists() else path


def read_model(path: Path) -> tuple[Model, dict[str, Any]]:
    """The model in a folder, or in a model.json, and all that the file tells about it."""
    path = model_folder(path) / MODEL if path.is_dir() else path
    return checked_model(read_document(path, MODEL, ModelFile), str(path))


def parsed_model(text: str, called: str) -> tuple[Model, dict[str, Any]]:
    """The same of the text of a model.json, wherever it came from."""
    held = documents.unsealed(text.encode(), called)
    if held.get("format") != FORMATS[MODEL]:
        raise InputError(f"{called}: this is no {FORMATS[MODEL]!r}.")
    documents.demand(called, held, ModelFile)
    return checked_model(held, called)


def checked_model(held: dict[str, Any], path: str) -> tuple[Model, dict[str, Any]]:
    """A model, if all that its file says goes together."""
    try:
        model, _ = Model.from_dict(held), schema_of(held)
        losses.named(model.loss)(**held["settings"])
        Spec.from_dict(held["problem"])
    except (ValueError, TypeError) as error:
        raise InputError(f"{path}: {error}") from None
    if held["missing"] not in MISSING or len(held["fill"] or model.features) != len(model.features):
        raise InputError(f"{path}: what it says of missing values does not fit; make it anew.")
    return model, held


def read_document(path: Path, name: str, kind: Any) -> dict[str, Any]:
    data = documents.read_bytes(path, "name the folder of a result")
    held = of_first_edition(path, documents.parsed(path, data)) or documents.unsealed(data, path)
    if held.get("format") != FORMATS[name]:
        raise InputError(f"{path}: this is no {FORMATS[name]!r}; name the folder of a result.")
    documents.demand(path, held, kind)
    return held


def of_first_edition(path: Path, held: Any) -> dict[str, Any] | None:
    """What a file of the first edition would hold today; nothing, if it is none."""
    if first.is_manifest(held):
        names = (HISTORY, ARRAYS, MODEL)
        found = {name: documents.read_bytes(path.with_name(name)) for name in names}
        held |= {"files": {name: documents.digest(data) for name, data in found.items()}}
        held |= {"agreement": first.counted(held["agreement"])}
        documents.demand(path, held, Finished)
        return first.manifest_now(held)
    if not first.is_model(held):
        return None
    manifest = read_manifest(path.parent)
    documents.demand(path.with_name(MANIFEST), manifest, Finished)
    log.warning(FIRST, path)
    try:
        return first.model_now(held, manifest)
    except (ValueError, TypeError) as error:
        raise InputError(f"{path}: {error}") from None


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a run, finished or not."""
    return read_document(folder / MANIFEST, MANIFEST, Begun)


def read_spec(folder: Path) -> tuple[Spec, dict[str, Any]]:
    """What an unfinished run was saved, its paths made whole, and its manifest."""
    held = read_manifest(folder)
    try:
        spec = Spec.from_dict(held["config"])
    except InputError as error:
        raise InputError(f"{folder / MANIFEST}: {error}") from None
    sites = tuple(str(Path(held["working_folder"], site)) for site in spec.sites)
    return spec.replace(sites=sites), held
