"""The server's program: a study, from its proposal to a folder of results."""

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from proxfl.deploy.ops.home import Home
from proxfl.deploy.ops.permissions import lock, private_folder
from proxfl.deploy.protocol.membership import Membership
from proxfl.deploy.protocol.study import Study
from proxfl.deploy.protocol.transport import Transport
from proxfl.deploy.server import description, evaluation, path, training
from proxfl.deploy.server.checkpoint import books_at
from proxfl.deploy.server.deployed import STUDY
from proxfl.deploy.server.epoch import next_epoch
from proxfl.deploy.server.federation import RemoteFederation
from proxfl.deploy.server.options import RunOptions, refuse_options
from proxfl.deploy.server.proposal import propose
from proxfl.deploy.server.run import StudyRun
from proxfl.deploy.server.status import Status
from proxfl.train.folder import CHECKPOINT

RUN_LOCK = "run.lock"


class Way(NamedTuple):
    """What a study comes to, in the clear and under masks, and how that is put into a folder."""

    in_the_clear: Callable[[StudyRun], Any]
    masked: Callable[[StudyRun], Any]
    save: Callable[[StudyRun, Any], None]


# By what is asked; as in `ASKS` of `proxfl.deploy.protocol.asks`.
WAYS = {
    "train": Way(training.in_the_clear, training.masked, training.save),
    "path": Way(path.in_the_clear, path.masked, path.save),
    "evaluate": Way(evaluation.in_the_clear, evaluation.masked, evaluation.save),
    "describe": Way(description.in_the_clear, description.masked, description.save),
}


def result_of(run: StudyRun) -> Any:
    """What the study of a run comes to."""
    way = WAYS[run.study.ask]
    return way.masked(run) if run.study.masked else way.in_the_clear(run)


def carry_out(
    membership: Membership, study: Study, options: RunOptions, transport: Transport, number: str
) -> None:
    """A run, from its checkpoint if there is one, to a folder of results."""
    home, out = Home(Path(options.folder)), Path(options.out)
    lock(private_folder(home.server), RUN_LOCK)  # until the process ends: one run at a time
    books = books_at(out / CHECKPOINT, study.sites)
    epoch = next_epoch(home.epoch, books.standing.values())
    common = {"patience": options.patience, "ledger": books.ledger, "epoch": epoch}
    channel = RemoteFederation(transport, membership.channel, study.sites, **common)
    common |= {"standing": books.standing, "cohort": study.spec.cohort}
    federation = RemoteFederation(transport, study.id, study.sites, **common)
    about = {"run": number, "pid": os.getpid(), "out": str(out), "sites": study.sites}
    about |= {"options": dataclasses.asdict(options)}
    present = lambda: list(federation.attendance.present or channel.attendance.present)
    with Status(home.status, present, **about) as status:
        refuse_options(study, options)
        propose(channel, study)
        run = StudyRun(study, options, federation, status, books)
        WAYS[study.ask].save(run, result_of(run))
    study.write(out / STUDY)
