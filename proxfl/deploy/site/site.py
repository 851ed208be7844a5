"""One site: its table, read here, and what it agrees to tell of it.

Before the first round the server asks for a summary of the table and then says what all sites'
summaries come to; from that the site prepares its rows, once, and keeps the agreement for when it
is restarted.
"""

import json
import logging
from pathlib import Path
from typing import Any

import jax
import numpy as np

from proxfl.core import Algorithm
from proxfl.deploy.protocol.experiment import Experiment
from proxfl.deploy.protocol.plan import Plan
from proxfl.deploy.protocol.wire import BadMessage, Value
from proxfl.deploy.site.worker import Worker
from proxfl.errors import InputError
from proxfl.precision import precision
from proxfl.problem import shards_of
from proxfl.storage.files import write_text
from proxfl.tables import Table
from proxfl.tables.sites import arranged
from proxfl.train.agreement import Agreement, prepare, problem_of, summarise
from proxfl.train.drivers import fixed
from proxfl.train.drivers.adaptive import algorithm_for
from proxfl.train.spec import Spec
from proxfl.train.train import settings_of

log = logging.getLogger("proxfl.deploy")

AGREEMENT = "agreement.json"


def method_of(spec: Spec) -> Algorithm:
    """The method a spec asks for; its steps are the server's to choose, round by round."""
    settings = settings_of(spec)
    if fixed.applies(spec):
        return fixed.method(spec.algorithm, settings, 1.0, 1.0)
    return algorithm_for(settings, 1.0, 1.0)


class Site:
    """A table, and the experiment it takes part in once the sites have agreed."""

    def __init__(self, plan: Plan, name: str, table: Table, folder: Path):
        self.plan, self.name, self.table = plan, name, table
        self.path = folder / AGREEMENT
        self.folder = folder
        self.made: Experiment | None = None

    def worker(self) -> Worker:
        """What answers the server's messages for this site."""
        setup = {"summary": self.summary, "agree": self.agree}
        where = (self.plan.id, self.plan.sites, self.name, self.folder)
        return Worker(*where, self.experiment, setup=setup)

    def summary(self, question: dict[str, Any]) -> dict[str, Value]:
        """What a site tells before anything else; see `proxfl.train.agreement.summarise`."""
        return {"summary": json.dumps(summarise(self.table, self.plan.spec))}

    def agree(self, question: dict[str, Any]) -> dict[str, Value]:
        """Take what the server made of all summaries, and keep it."""
        try:
            agreement = Agreement.from_dict(json.loads(str(question.get("agreement"))))
        except (ValueError, TypeError, AttributeError) as error:
            raise BadMessage("The agreement cannot be read.") from error
        self.made = self.prepared(agreement)
        held = {"fingerprint": self.table.fingerprint, "agreement": agreement.to_dict()}
        write_text(self.path, json.dumps(held))
        return {}

    def experiment(self) -> Experiment:
        """What was agreed on, by this process or by one before it."""
        if self.made is None:
            if not self.path.exists():
                raise BadMessage(f"Site {self.name} has not agreed to anything yet.")
            held = json.loads(self.path.read_text(encoding="utf-8"))
            if held["fingerprint"] != self.table.fingerprint:
                raise BadMessage(
                    f"Site {self.name} holds other data than when it agreed; restore them, or "
                    "start a new run."
                )
            self.made = self.prepared(Agreement.from_dict(held["agreement"]))
        return self.made

    def prepared(self, agreement: Agreement) -> Experiment:
        spec, sites = self.plan.spec, self.plan.sites
        try:
            self.check(agreement)
            with precision(np.float64):
                table = arranged(self.table, agreement.features)
                shards = shards_of([prepare(table, spec, agreement)])
                shard = jax.tree.map(lambda a: a[0], shards)
                parts = (method_of(spec), problem_of(spec, agreement), spec.seed, sites, shard)
                return Experiment(self.plan.id, *parts)
        except (ValueError, TypeError) as error:
            # The server learns that, not why: the reason may tell of a row.
            log.warning("Site %s cannot use the agreement: %s", self.name, error)
            raise BadMessage(
                f"The agreement does not fit the table of site {self.name}; its log says why."
            ) from error

    def check(self, agreement: Agreement) -> None:
        """Refuse what does not fit this site's own file and table."""
        if agreement.sites != self.plan.sites:
            raise InputError(f"It is between {agreement.sites}, not {self.plan.sites}.")
        if agreement.rows[self.plan.sites.index(self.name)] != self.table.rows:
            raise InputError(f"It gives this site other than {self.table.rows} rows.")
        if sorted(agreement.features) != sorted(self.table.features):
            raise InputError("It names other features than this table has.")
        for name in ("centre", "scale", "unit", "fill"):
            numbers = np.array(getattr(agreement, name), float)
            sound = numbers.shape == (len(agreement.features),) and np.isfinite(numbers).all()
            if not sound or (name in ("scale", "unit") and not (numbers > 0).all()):
                raise InputError(f"Its {name} is not one sound number for each feature.")
