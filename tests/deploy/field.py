"""Sites with files in one process, and a server over them that can be started again and again."""

import dataclasses
import json

import numpy as np
import pandas as pd

from proxfl.deploy.local import LocalGrid, LocalNode, inside_flower
from proxfl.deploy.protocol.plan import Plan, read_table
from proxfl.deploy.server.federation import FlowerFederation
from proxfl.deploy.site.site import Site
from proxfl.deploy.server.status import Status
from proxfl.deploy.server.training import Order, Training, books_of
from proxfl.deploy.site.worker import Worker
from proxfl.train import folder as results
from proxfl.train.train import train
from proxfl.spec import Spec
from tests.deploy.world import FAST

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
        self.nodes = [self.node(i) for i in range(len(NAMES))]
        self.lives = 0

    def node(self, i):
        plan, name, home = self.plan, NAMES[i], self.folder / NAMES[i]
        site = Site(plan, name, read_table(plan, self.files[i]), home)
        setup = {"summary": site.summary, "agree": site.agree}
        worker = Worker(plan.id, plan.sites, name, home, site.experiment, setup=setup)
        return LocalNode(10 + i, name, worker)

    def life(self, out="results", patience=FAST, **order):
        """One life of the server, with all of its parts."""
        self.lives += 1
        out = self.folder / out
        books = books_of(self.plan, out)
        federation = FlowerFederation(
            LocalGrid(self.nodes),
            self.plan.id,
            NAMES,
            patience=patience,
            ledger=books.ledger,
            standing=books.standing,
            cohort=self.plan.spec.cohort,
            epoch=self.lives,
        )
        status = Status(self.folder / "status.json", lambda: NAMES, run="1", sites=NAMES)
        return Training(self.plan, Order(out=str(out), **order), federation, books, status)

    def run(self, out="results", spoil=lambda federation: None, **options):
        training = self.life(out, **options)
        spoil(training.federation)
        with inside_flower(), training.status:
            fit = training.run()
            results.write(self.folder / out, fit, "proxfl federate run")
        return fit

    def trained(self):
        """The same files in one process."""
        options = dataclasses.replace(self.plan.spec, sites=[str(file) for file in self.files])
        return train(options)

    def status(self):
        return json.loads((self.folder / "status.json").read_text())
