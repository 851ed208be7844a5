"""The folder of a result; each file in it is whole or not there at all.

    model.json          the model, its penalty and its certificate: equal runs give equal bytes
    model.safetensors   the arrays coef and intercept
    history.jsonl       one line per round
    manifest.json       what was run on what, by which versions; there once the first round is done
    report.html         all of it, to read
    checkpoint.npz      as long as the run is not converged: what it goes on from

`model.json` is written last but for the report, so a folder that has it has a whole model.
"""

import datetime
import json
import os
import platform
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy

from proxfl import __version__
from proxfl.errors import InputError
from proxfl.storage.files import whole, write_text
from proxfl.train.local import total
from proxfl.train.model import Model
from proxfl.train.saved import Saved
from proxfl.train.spec import Spec, describe, sections
from proxfl.train.train import Fit

MODEL, MANIFEST, HISTORY = "model.json", "manifest.json", "history.jsonl"
ARRAYS, REPORT, CHECKPOINT = "model.safetensors", "report.html", "checkpoint.npz"
FORMATS = {MODEL: "proxfl model 1", MANIFEST: "proxfl manifest 1"}


def versions() -> dict[str, str]:
    packages = {name: version(name) for name in ("jax", "jaxlib", "numpy")}
    system = {"python": platform.python_version(), "machine": platform.platform()}
    return {"proxfl": __version__} | packages | system


def begin(folder: Path, spec: Spec, fingerprints: Mapping[str, str], command: str) -> None:
    """Write what a resumption needs to know; without a checkpoint it starts from the beginning."""
    saved = {"fingerprints": dict(fingerprints)}
    write_json(folder / MANIFEST, manifest(spec, command) | saved)


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


def discard(folder: Path) -> None:
    """Take back what `begin` wrote, after a run that failed."""
    for name in (MANIFEST, CHECKPOINT):
        (folder / name).unlink(missing_ok=True)
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


def write(folder: Path, fit: Fit, command: str) -> Saved:
    """The files of a finished run, all but the report, and what they hold."""
    arrays = {"coef": fit.model.coef, "intercept": fit.model.intercept}
    contiguous = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    saved = Saved(model_of(fit), manifest_of(fit, command), history_of(fit))
    write_text(folder / HISTORY, "".join(json.dumps(line) + "\n" for line in saved.history))
    with whole(folder / ARRAYS) as file:
        file.write(safetensors.numpy.save(contiguous))
    write_json(folder / MANIFEST, saved.manifest)
    write_json(folder / MODEL, saved.model)
    if fit.solution.converged:
        (folder / CHECKPOINT).unlink(missing_ok=True)
    for litter in folder.glob(f".{CHECKPOINT}.*"):  # of a process that was killed as it wrote
        litter.unlink()
    return saved


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    write_text(path, json.dumps(content, indent=1, allow_nan=False) + "\n")


def model_of(fit: Fit) -> dict[str, Any]:
    spec, solution = fit.spec, fit.solution
    penalties = {option.key for option in sections()["penalties"]}
    return {
        "format": FORMATS[MODEL],
        "target": spec.target,
        **fit.model.to_dict(),
        "fill": list(fit.agreement.fill) if spec.missing == "mean" else None,
        "penalty": {key: value for key, value in spec.changed().items() if key in penalties},
        "objective": describe(spec),
        "certificate": {
            "objective": solution.objective,
            "distance": solution.distance,
            "optimality": solution.optimality,
            "tolerance": spec.tol,
            "converged": solution.converged,
            "duality_gap": fit.duality_gap,
            "rounds": len(solution.records),
        },
        "versions": versions(),
    }


def manifest_of(fit: Fit, command: str) -> dict[str, Any]:
    agreement = fit.agreement
    columns = zip(agreement.sites, agreement.rows, agreement.weights, strict=True)
    up, down = total(fit.ledger)
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
                "loss": fit.solution.site_losses[site],
            }
            for site, rows, weight in columns
        ],
        "ledger": {kind: traffic._asdict() for kind, traffic in fit.ledger.items()},
        "bytes_up": up,
        "bytes_down": down,
        "seconds": round(fit.seconds, 3),
        **({} if fit.deployment is None else {"deployment": fit.deployment}),
    }


def history_of(fit: Fit) -> list[dict[str, Any]]:
    """What each round showed; null where nobody looked, or where it was not finite."""
    lines = []
    for record, (up, down) in zip(fit.records, fit.traffic, strict=True):
        line = record._asdict() | {"bytes_up": up, "bytes_down": down}
        lines.append({name: value if np.isfinite(value) else None for name, value in line.items()})
    return lines


def read(folder: Path) -> Saved:
    """What the files of a finished run tell."""
    path = folder / HISTORY
    model, manifest = read_json(folder / MODEL), read_json(folder / MANIFEST)
    if not manifest["finished"]:
        raise InputError(f"{folder}: the run is not finished; go on with it by train --resume.")
    try:
        history = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError):
        raise InputError(f"{path}: this cannot be read as a history; check the folder.") from None
    return Saved(model, manifest, history)


def read_model(path: Path) -> tuple[Model, dict[str, Any]]:
    """The model in a folder, or in a model.json, and all that the file tells about it."""
    held = read_json(path / MODEL if path.is_dir() else path, FORMATS[MODEL])
    return Model.from_dict(held), held


def read_json(path: Path, expected: str = "") -> dict[str, Any]:
    expected = expected or FORMATS[path.name]
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such file; name the folder of a result.") from None
    except (OSError, ValueError):
        raise InputError(f"{path}: this cannot be read as JSON; check the file.") from None
    if not isinstance(held, dict) or held.get("format") != expected:
        raise InputError(f"{path}: this is no {expected!r}; name the folder of a result.")
    return held


def read_spec(folder: Path) -> tuple[Spec, dict[str, Any]]:
    """What an unfinished run was saved, its paths made whole, and its manifest."""
    held = read_json(folder / MANIFEST)
    spec = Spec.from_dict(held["config"])
    sites = tuple(str(Path(held["working_folder"], site)) for site in spec.sites)
    return spec.replace(sites=sites), held
