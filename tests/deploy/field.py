"""Sites with files in one process, and a server over them that can be started again and again."""

import json

import numpy as np
import pandas as pd

from proxfl.deploy.protocol.plan import Plan, read_table
from proxfl.deploy.server.checkpoint import books_at
from proxfl.deploy.server.federation import RemoteFederation
from proxfl.deploy.server.status import Status
from proxfl.deploy.server.training import RunOptions, Training
from proxfl.deploy.site.site import Site
from proxfl.deploy.transport.memory import MemorySite, MemoryTransport
from proxfl.report import training as report
from proxfl.train.spec import Spec
from proxfl.train.train import train
from tests.deploy.world import PATIENCE

NAMES = ("north", "south", "west")


def write_data(folder, classes=2):
    """Three sites that differ; one of them has its columns in another order."""
    rng, files = np.random.default_rng(0), []
    folder.mkdir(parents=True)
    for i, name in enumerate(NAMES):
        A = rng.normal(size=(30 + 10 * (i % 2), 5)) * np.arange(1, 6) + rng.normal(size=5)
        z = A @ rng.normal(size=(5, classes)) + rng.gumbel(size=(len(A), classes))
        table = pd.DataFrame(A, columns=list("abcde")).assign(y=z.argmax(axis=1))
        if name == "west":
            table = table[["c", "y", "a", "e", "b", "d"]]
        files.append(folder / f"{name}.csv")
        table.to_csv(files[-1], index=False)
    return files


class Field:
    """Sites in one process, and a server that can be started again and again."""

    def __init__(self, folder, classes=2, **options):
        self.folder, self.files = folder, write_data(folder / "data", classes)
        self.plan = Plan("field", NAMES, Spec(**{"target": "y", "loss": "logistic"} | options))
        self.sites = {site: MemorySite(lambda i=i: self.worker(i)) for i, site in enumerate(NAMES)}
        self.transport = MemoryTransport(self.sites)
        self.lives = 0

    def worker(self, i):
        table = read_table(self.plan, self.files[i])
        return Site(self.plan, NAMES[i], table, self.folder / NAMES[i]).worker()

    def life(self, out="results", patience=PATIENCE, **options):
        """One life of the server, with all of its parts."""
        self.lives += 1
        out = self.folder / out
        books = books_at(out / "checkpoint.npz", NAMES)
        federation = RemoteFederation(
            self.transport,
            self.plan.id,
            NAMES,
            patience=patience,
            ledger=books.ledger,
            standing=books.standing,
            cohort=self.plan.spec.cohort,
            epoch=self.lives,
        )
        status = Status(self.folder / "status.json", lambda: NAMES, run="1", sites=NAMES)
        given = RunOptions(out=str(out), **options)
        return Training(self.plan, given, federation, books, status)

    def run(self, out="results", spoil=lambda federation: None, **options):
        training = self.life(out, **options)
        spoil(training.federation)
        with training.status:
            fit = training.run()
            report.save(self.folder / out, fit, "proxfl federate run")
        return fit

    def trained(self):
        """The same files in one process."""
        options = self.plan.spec.replace(sites=[str(file) for file in self.files])
        return train(options)

    def status(self):
        return json.loads((self.folder / "status.json").read_text())
