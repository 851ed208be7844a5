"""What real sites add to a result: who took part, what crossed the network, what went wrong."""

from collections.abc import Mapping
from typing import Any

from proxfl.deploy.masking.training import SETUP as MASKED_SETUP
from proxfl.deploy.protocol.study import Study
from proxfl.deploy.server.ledger import Ledger
from proxfl.train.local import Traffic
from proxfl.train.tasks import TASKS

STUDY = "study.toml"  # in the folder of results: what was asked
SETUP = ("propose", "summary", "agree", "enter", "meet", "sign", *MASKED_SETUP)


def by_kind(ledger: Ledger) -> dict[str, Traffic]:
    """The books as a run in one process keeps them: payload, all sites together."""
    kinds = {"agreement": SETUP, "round": ("round",)} | {task: (task,) for task in TASKS}
    total = lambda way, names: sum(ledger.total(way, kind=name).payload for name in names)
    return {
        kind: Traffic(
            sum(ledger.exchanges[name] for name in names), total("up", names), total("down", names)
        )
        for kind, names in kinds.items()
    }


def deployed(
    ledger: Ledger,
    study: Study,
    rounds: Mapping[str, int],
    *,
    quorum: int,
    resumed: int,
    secure: bool,
) -> dict[str, Any]:
    """By site, in how many `rounds` it was and what it sent and got; and of the whole run."""
    ways = lambda site: {way: ledger.total(way, site)._asdict() for way in ("up", "down")}
    return {
        "sites": {site: {"rounds": rounds[site], **ways(site)} for site in study.sites},
        "traffic": ways(None),
        "faults": [fault._asdict() for fault in ledger.faults],
        "study": {"name": study.name, "digest": study.id},
        "quorum": quorum or len(study.sites),
        "resumed": resumed,
        "secure": secure,
    }
