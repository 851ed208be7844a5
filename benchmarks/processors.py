"""`python -m benchmarks.processors`: whether this processor follows masked runs of another one.

`python -m benchmarks.processors make` runs studies by sums over sites in one process, which masks
change no bit of; what was asked at each step, and its sum, goes to `results/processors/`. Without
`make` their programs are followed from these sums alone, as a member of the study follows them.
Told is how many questions are those that were asked, by the rule of a member, and by how many
roundings the numbers of the two machines differ at most: by 2^-52 of the largest number of a
question, before it is put on the grid. The test vectors of the protocol are computed anew, and
compared bit for bit. Written to `results/processors/followed.json`.
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.side import machine
from proxfl.deploy.masking.answering import MaskedSite
from proxfl.deploy.masking.replica import Question
from proxfl.deploy.masking.training import MaskedTraining
from proxfl.deploy.ops.permissions import private_folder
from proxfl.engine.masked import total
from proxfl.storage.files import write_text
from proxfl.train.spec import Spec
from proxfl.train.train import read_tables
from tests.deploy.masking import test_vectors
from tests.deploy.masking.world import NAMES

FOLDER = Path("results/processors")
FEATURES = tuple("abcdefgh")
CLASSES = {"kind": "category", "levels": ["no", "yes"]}
SCHEMA = {name: {"kind": "number"} for name in (*FEATURES, "y", "n", "t")} | {"k": CLASSES}
STUDIES: dict[str, dict[str, Any]] = {
    "squared, newton": {"target": "y", "loss": "squared", "l1": 0.05, "tol": 1e-9},
    "logistic, newton": {"target": "k", "loss": "logistic", "l1": 0.01, "tol": 1e-9},
    "logistic, standardised": {"target": "k", "loss": "logistic", "l2": 0.1, "standardise": True},
    "poisson, newton": {"target": "n", "loss": "poisson", "l1": 0.01},
    "cox, newton": {"time": "t", "event": "k", "loss": "cox", "l1": 0.02},
    "logistic, decoupled": {"target": "k", "loss": "logistic", "l1": 0.01}
    | {"algorithm": "decoupled"},
    "huber, decoupled": {"target": "y", "loss": "huber", "l2": 0.1, "algorithm": "decoupled"},
    "squared, three local steps": {"target": "y", "loss": "squared", "l1": 0.1}
    | {"algorithm": "decoupled", "local_steps": 3},
}


def spec_of(name: str, **more: Any) -> Spec:
    return Spec(features=FEATURES, schema=SCHEMA, **STUDIES[name], **more)


def write_files(folder: Path) -> list[str]:
    rng, made = np.random.default_rng(0), []
    for i, name in enumerate(NAMES):
        A = rng.normal(size=(80 + 20 * i, len(FEATURES))) @ rng.normal(size=(8, 8)) + i
        z = (A @ rng.normal(size=8)) / 8
        frame = pd.DataFrame(A * np.geomspace(0.1, 10, 8), columns=list(FEATURES)).assign(
            y=z + rng.normal(size=len(A)),
            k=np.where(z + rng.logistic(size=len(A)) > 0, "yes", "no"),
            n=rng.poisson(np.exp(np.clip(z / 2, -3, 3))),
            t=rng.exponential(np.exp(-np.clip(z / 2, -3, 3))).round(1) + 0.1,
        )
        made.append(str(folder / f"{name}.csv"))
        frame.to_csv(made[-1], index=False)
    return made


def make() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in STUDIES:
        with tempfile.TemporaryDirectory() as folder:
            spec = spec_of(name, sites=write_files(Path(folder)))
            run = MaskedTraining(spec.read_files(), len(NAMES), FEATURES)
            each = zip(NAMES, read_tables(spec), strict=True)
            sites = [MaskedSite(run, table, private_folder(Path(folder, n))) for n, table in each]
            asked = transcript(run, sites)
        held = {f"{i} sum": told for i, (_, told) in enumerate(asked)}
        for i, (question, _) in enumerate(asked):
            held |= {f"{i} number {k}": value for k, value in question.numbers.items()}
        kinds, lengths = zip(*((one.kind, one.length) for one, _ in asked), strict=True)
        np.savez_compressed(file_of(name), kinds=kinds, lengths=lengths, **held)
        print(name, len(asked), "steps", flush=True)
    write_text(FOLDER / "made.json", json.dumps({"machine": machine()}, indent=1) + "\n")


def transcript(run: MaskedTraining, sites: list[MaskedSite]) -> list[tuple[Question, np.ndarray]]:
    asked: list[tuple[Question, np.ndarray]] = []

    def ask(question: Question) -> np.ndarray:
        told = total([site(question.rounded())[0] for site in sites])
        asked.append((question, told))
        return told

    run(ask)
    return asked


def file_of(name: str) -> Path:
    return FOLDER / f"{name.replace(', ', '-').replace(' ', '-')}.npz"


def question_of(held: Any, step: int) -> Question:
    start = f"{step} number "
    numbers = {k.removeprefix(start): held[k] for k in held.files if k.startswith(start)}
    return Question(str(held["kinds"][step]), numbers, int(held["lengths"][step]))


def apart(one: Question, other: Question) -> float:
    """In roundings of the largest number of a question."""
    pairs = [(a, other.numbers[name]) for name, a in one.numbers.items() if a.dtype.kind == "f"]
    size = max((float(np.abs(a).max(initial=0.0)) for a, _ in pairs), default=0.0)
    most = max((float(np.abs(a - b).max(initial=0.0)) for a, b in pairs), default=0.0)
    return most / (2.0**-52 * size) if size else 0.0


def followed(name: str) -> dict[str, Any]:
    held = np.load(file_of(name))
    asked = [question_of(held, i) for i in range(len(held["kinds"]))]
    own: list[Question] = []
    alike: list[bool] = []

    def ask(question: Question) -> np.ndarray:
        step = len(own)
        own.append(question)
        alike.append(step < len(asked) and asked[step].rounded().agrees(question))
        if not alike[-1]:
            raise StopIteration
        return held[f"{step} sum"]

    try:
        MaskedTraining(spec_of(name).read_files(), len(NAMES), FEATURES)(ask)
    except StopIteration:
        pass
    same = [a.rounded().content == b.rounded().content for a, b in zip(asked, own, strict=False)]
    return {
        "steps": len(asked),
        "followed": sum(alike),
        "of them to the last bit": sum(same),
        "roundings apart": max(apart(a, b) for a, b in zip(asked, own, strict=False)),
    }


def main() -> None:
    if sys.argv[1:] == ["make"]:
        return make()
    made = json.loads((FOLDER / "made.json").read_text())["machine"]
    vectors = json.loads(test_vectors.FILE.read_text())["results"]
    found = {
        "command": "python -m benchmarks.processors",
        "made on": made,
        "followed on": machine(),
        "test vectors alike bit for bit": test_vectors.by_the_package() == vectors,
        "studies": {},
    }
    for name in STUDIES:
        found["studies"][name] = followed(name)
        print(name, found["studies"][name], flush=True)
    write_text(FOLDER / "followed.json", json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
