"""Sites with files in one process, and a server over them that can be started again and again."""

import json

import numpy as np
import pandas as pd

from proxfl.deploy.masking.members import Members
from proxfl.deploy.protocol.membership import Membership
from proxfl.deploy.protocol.study import make_study, read_table
from proxfl.deploy.server.checkpoint import books_at
from proxfl.deploy.server.federation import RemoteFederation
from proxfl.deploy.server.options import RunOptions
from proxfl.deploy.server.program import WAYS, result_of
from proxfl.deploy.server.proposal import propose
from proxfl.deploy.server.run import StudyRun
from proxfl.deploy.server.status import Status
from proxfl.deploy.site.office import Office
from proxfl.deploy.site.policy import Policy
from proxfl.deploy.site.reception import Reception
from proxfl.deploy.site.training import TrainingSite
from proxfl.deploy.transport.memory import MemorySite, MemoryTransport
from proxfl.train.spec import Spec
from proxfl.train.train import train
from tests.deploy.world import PATIENCE

NAMES = ("north", "south", "west")
LOOSE = Policy(
    rows=1, sites=1, count=0, parameters_per_row=10.0, share=0.0, questions_per_row=1e5, kinks=True,
    unmasked=True,
)  # fmt: skip


def write_data(folder, classes=2):
    """Three sites that differ; one of them has its columns in another order."""
    rng, made = np.random.default_rng(0), {}
    for i, name in enumerate(NAMES):
        A = rng.normal(size=(30 + 10 * (i % 2), 5)) * np.arange(1, 6) + rng.normal(size=5)
        z = A @ rng.normal(size=(5, classes)) + rng.gumbel(size=(len(A), classes))
        table = pd.DataFrame(A, columns=list("abcde")).assign(y=z.argmax(axis=1))
        if name == "west":
            table = table[["c", "y", "a", "e", "b", "d"]]
        made[name] = table
    return write_frames(folder, made)


def write_frames(folder, made):
    """A file for each site's frame."""
    folder.mkdir(parents=True)
    files = []
    for name, frame in made.items():
        files.append(folder / f"{name}.csv")
        frame.to_csv(files[-1], index=False)
    return files


class Field:
    """Sites in one process, and a server that can be started again and again."""

    def __init__(self, folder, classes=2, policy=LOOSE, masked=False, **options):
        self.policy, self.masked = policy, masked
        self.folder, self.files = folder, write_data(folder / "data", classes)
        self.membership = Membership("field", NAMES)
        self.ask(**{"target": "y", "loss": "logistic"} | options)
        self.sites = {
            site: MemorySite(lambda i=i: self.reception(i)) for i, site in enumerate(NAMES)
        }
        self.transport = MemoryTransport(self.sites)
        self.lives = 0

    def ask(self, choice=None, **options):
        """Another study, in place of the one before; with a choice, of a path."""
        how = {"unmasked": not self.masked, "choice": choice}
        self.study = make_study("field", "field", NAMES, Spec(**options), **how)

    @property
    def spec(self):
        return self.study.spec

    def office(self, i):
        return Office(self.folder / NAMES[i], self.policy)

    def confirm(self):
        """A person at each site has compared the members' words with all others'."""
        names = self.study.sites
        offices = {name: self.office(NAMES.index(name)) for name in names}
        key = lambda office: office.signer.public_key().public_bytes_raw()
        members = Members.of({name: key(office) for name, office in offices.items()})
        for name, office in offices.items():
            office.confirmed.confirm(members, name, [n for n in names if n != name])

    def reception(self, i):
        return Reception(self.membership, NAMES[i], self.files[i], self.office(i))

    def site(self, i):
        """A site as it is once it takes part."""
        return TrainingSite(
            self.study, NAMES[i], read_table(self.spec, self.files[i]), self.office(i)
        )

    def reach(self, name, patience=PATIENCE, **more):
        return RemoteFederation(
            self.transport, name, self.study.sites, patience=patience, epoch=self.lives, **more
        )

    def propose(self, ledger=None):
        propose(self.reach(self.membership.channel, ledger=ledger), self.study)

    def life(self, out="results", patience=PATIENCE, **options):
        """One life of the server, with all of its parts."""
        self.lives += 1
        out = self.folder / out
        books = books_at(out / "checkpoint.npz", self.study.sites)
        kept = {"ledger": books.ledger, "standing": books.standing, "cohort": self.spec.cohort}
        federation = self.reach(self.study.id, patience, **kept)
        status = Status(self.folder / "status.json", lambda: NAMES, run="1", sites=NAMES)
        where = {"folder": str(self.folder), "out": str(out)}
        given = RunOptions(**where, command="proxfl federate run", **options)
        return StudyRun(self.study, given, federation, status, books)

    def run(self, out="results", spoil=lambda federation: None, **options):
        life = self.life(out, **options)
        spoil(life.federation)
        with life.status:
            self.propose(life.federation.ledger)
            result = result_of(life)
            WAYS[self.study.ask].save(life, result)
        return result

    def trained(self):
        """The same files in one process."""
        options = self.spec.replace(sites=[str(file) for file in self.files])
        return train(options)

    def status(self):
        return json.loads((self.folder / "status.json").read_text())
