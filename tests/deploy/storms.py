"""Runs through faults by seed: whatever befalls them, they end as an undisturbed one, bit for bit.

`python -m tests.deploy.storms FIRST LAST` goes through many seeds, and prints how they ended; it
does without the checks of types that the tests have, which take longer than the runs.
"""

import json
import logging
import os
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import proxfl as px
from proxfl.deploy.server.inquiry import Patience
from proxfl.train.federation import Call
from tests import cases
from tests.deploy.faults import Faults, until_the_end
from tests.deploy.world import World, drive

ROUNDS, SITES = 3, 3
PATIENCE = Patience(pause=1.0, poll=5.0)  # virtual seconds
METHODS = {
    "decoupled": (px.Decoupled, {}),
    "partial": (px.DecoupledPartial, {}),
    "cohort": (px.DecoupledPartial, {"cohort": 2}),
}


class Checkpoint(NamedTuple):
    """What a server has on its disk after a round."""

    server: Any
    standing: dict[str, int]
    round: int


class Storm:
    """A small world, where it ends undisturbed, and a way through faults."""

    def __init__(self, name: str, folder: Path):
        kind, self.options = METHODS[name]
        self.algorithm, self.folder = kind(0.05, 1.5, 2), folder
        self.world = World(folder / "quiet", self.algorithm, cases.problem(), cases.sites(SITES))
        self.problem = jax.tree.map(jnp.asarray, self.world.problem)
        self.straight = drive(self.federation(), self.algorithm, self.problem, ROUNDS)

    def federation(self, transport=None, **more):
        return self.world.federation(transport, PATIENCE, **more, **self.options)

    def live(self, transport, epoch: int, disk: list[Checkpoint]) -> None:
        """One life of a server, from the checkpoint on the `disk` to the end or to its own."""
        federation = self.federation(transport, epoch=epoch, standing=disk[-1].standing)
        server = disk[-1].server
        for r in range(disk[-1].round, ROUNDS):
            answers = federation.visit(self.algorithm, Call(r, r - 1, r, 0), server)
            server = self.algorithm.server(self.problem.g, server, answers.received)
            disk.append(Checkpoint(server, federation.standing_after(r), r + 1))

    def run(self, seed: int) -> str:
        """How the run of a seed ended; that it did otherwise than undisturbed is an error."""
        faults = Faults(seed)
        print(faults)
        with tempfile.TemporaryDirectory(dir=self.folder) as made:
            self.world.move_to(Path(made))
            transport = self.world.network()
            disk = [Checkpoint(self.algorithm.init(self.problem.g, self.problem.x0)[0], {}, 0)]
            life = lambda epoch: self.live(transport, epoch, disk)
            stopped = until_the_end(faults, transport, Path(made), life)
        found, wanted = jax.tree.leaves(disk[-1].server), jax.tree.leaves(self.straight)
        assert all(map(np.array_equal, found, wanted)), f"Another model: {faults}"
        return "the same, after a documented stop" if stopped else "the same"


def main(first: int, last: int) -> dict[str, int]:
    """Each seed with a method of its own."""
    logging.disable(logging.CRITICAL)
    jax.config.update("jax_enable_x64", True)
    os.fsync = lambda handle: None  # what it is for is tested by what the disk forgets
    with tempfile.TemporaryDirectory() as made:
        storms = [Storm(name, Path(made, name)) for name in METHODS]
        return dict(Counter(storms[seed % 3].run(seed) for seed in range(first, last + 1)))


if __name__ == "__main__":
    said, sys.stdout = sys.stdout, sys.stderr
    print(json.dumps(main(*map(int, sys.argv[1:]))), file=said)
