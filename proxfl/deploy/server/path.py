"""`proxfl path` over real sites: a program over sums, which are masked or told site by site.

Every sum is on the disk before the next question, in the folder of results, `exchanges/`: a run
that is resumed goes through its program again, and asks for what is not there yet.
"""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from proxfl.deploy.masking.digests import digest
from proxfl.deploy.masking.messages import Charter, as_bytes, question_payload
from proxfl.deploy.masking.path import LEFT_OUT, MODELS, PathOfSums
from proxfl.deploy.masking.replica import Question
from proxfl.deploy.protocol.study import Study
from proxfl.deploy.server.deployed import STUDY
from proxfl.deploy.server.federation import RemoteFederation
from proxfl.deploy.server.masked import MaskedRun, charter_of, with_parts
from proxfl.deploy.server.run import StudyRun
from proxfl.deploy.server.status import TRAINING, so_far
from proxfl.deploy.server.training import fit_of
from proxfl.errors import InputError
from proxfl.report import path as report
from proxfl.report.path import FoundPath
from proxfl.storage.sealed import SUFFIX, read_arrays, write_arrays
from proxfl.train.local import Traffic


class KeptSums:
    """The sums of one path in one folder; each is the answer to one question about some tables."""

    def __init__(self, folder: Path, tables: str):
        self.folder, self.tables, self.step = folder, tables, 0

    def place(self, question: Question) -> tuple[Path, bytes]:
        """Where the next sum lies, and what it is the sum of."""
        self.step += 1
        name = digest("kept", self.tables.encode(), question.content)
        return self.folder / f"{self.step:08d}{SUFFIX}", name

    def sum_at(self, path: Path, name: bytes) -> np.ndarray | None:
        if not path.exists():
            return None
        held = read_arrays(path)
        if held["of"].tobytes() != name:
            raise InputError(
                f"{path}: the run it is of had other data at a site, other options or another "
                "version; restore them, or start a new run."
            )
        return held["sum"]

    def keep(self, path: Path, name: bytes, total: np.ndarray) -> None:
        write_arrays(path, {"sum": total, "of": as_bytes(name)})


def in_the_clear(run: StudyRun) -> FoundPath:
    resumed, sites = run.exchanges.exists(), run.study.sites
    told = with_parts(run.federation.ask("enter", {}), "charter", "fingerprint")
    fingerprints = {site: str(told[site]["fingerprint"]) for site in sites}
    charter = charter_of(run.study, told)
    program = program_of(run, charter)
    kept = KeptSums(run.exchanges, json.dumps(fingerprints))
    program(ClearSums(program, charter, run.study, run.federation, kept).ask)
    return found_of(run, program, fingerprints, resumed)


def masked(run: StudyRun) -> FoundPath:
    resumed, members = run.exchanges.exists(), MaskedRun(run)
    program, masking = members.in_results(lambda charter: program_of(run, charter))
    return found_of(run, program, members.fingerprints, resumed, masking=masking)


def save(run: StudyRun, found: FoundPath) -> None:
    report.fill(run.out, found, run.options.command)


def program_of(run: StudyRun, charter: Charter) -> PathOfSums:
    tell = lambda done: run.status.tell(models=done, **so_far(run.federation.ledger))
    made = PathOfSums(run.study, charter, run.watch, tell)
    run.status.tell(state=TRAINING, models_in_all=made.choice.points * made.sets_in_all)
    return made


def found_of(
    run: StudyRun, program: PathOfSums, fingerprints: dict[str, str], resumed: bool, **more: Any
) -> FoundPath:
    """What a program came to, and what its exchanges cost."""
    ledger = run.federation.ledger

    def sent(kind: str) -> Traffic:
        ways = (ledger.total(way, kind=kind).payload for way in ("up", "down"))
        return Traffic(ledger.exchanges[kind], *ways)

    fit = fit_of(run, program, fingerprints, resumed, **more)
    if program.path is None or program.validation is None:
        raise RuntimeError("A path that has ended has found something.")
    walked = replace(program.path, traffic=sent(MODELS))
    return FoundPath(walked, replace(program.validation, traffic=sent(LEFT_OUT)), fit)


@dataclass
class ClearSums:
    """Sums of what sites tell one by one."""

    program: PathOfSums
    charter: Charter
    study: Study
    federation: RemoteFederation
    kept: KeptSums
    agreed: bool = False

    def ask(self, question: Question) -> np.ndarray:
        """The sum of all sites' answers, from the disk if it is there."""
        path, name = self.kept.place(question)
        known = self.kept.sum_at(path, name)
        if known is not None:
            return known
        self.agree()
        asked = question_payload(question) | {"charter": self.charter.text}
        answers = self.federation.ask("sums", asked, booked=question.kind.split()[0])
        each = [sums_in(site, answers[site], question) for site in self.study.sites]
        found = np.sum(each, axis=0)
        if self.kept.step == 1:
            self.study.write(self.kept.folder.parent / STUDY)  # of which the sums are
        self.kept.keep(path, name, found)
        return found

    def agree(self) -> None:
        """Tell all sites what their sums come to, once that is known."""
        if self.agreed or not self.program.agreements:
            return
        told = json.dumps([agreement.to_dict() for agreement in self.program.agreements])
        self.federation.ask("agree", {"charter": self.charter.text, "agreements": told})
        self.agreed = True


def sums_in(site: str, answer: Any, question: Question) -> np.ndarray:
    """What a site sent, or InputError if no site of ours would send it."""
    found = answer.get("sums")
    sound = isinstance(found, np.ndarray) and found.dtype == np.float64
    if not sound or found.shape != (question.length,):
        raise InputError(f"Site {site} sent no sums of this path; check its version of proxfl.")
    return found
