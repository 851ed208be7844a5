"""`python -m benchmarks.red_team_alone`: what a server alone gets through to masked sites.

It has every message in its hands and no member on its side. Before each step of a masked study it
asks each of three sites about the models of `isolate`, by which it takes most rows of a site in the
clear, in every way of `tests/deploy/masking/red_team.py`. No rule of the sites is in the way but
masks. Counted is how often it asked, and how many answers it got; written to
`results/security/red_team_alone.json`.
"""

import json
import logging
import os
import tempfile
from pathlib import Path

import numpy as np

from proxfl.storage.files import write_text
from tests.deploy.field import LOOSE, NAMES, Field
from tests.deploy.masking.red_team import WAYS, Alone

OUT = Path("results/security/red_team_alone.json")
ALGORITHMS, LENGTH, THRESHOLDS = ("newton", "decoupled"), 1e7, (-10.0, 0.3, 10.0)


def counted(algorithm):
    with tempfile.TemporaryDirectory() as folder:
        about = {"masked": True, "policy": LOOSE.replace(unmasked=False), "l1": 0.02}
        field = Field(Path(folder, "field"), **about, algorithm=algorithm, rounds=3)
        field.confirm()
        server = Alone({name: field.reception(i) for i, name in enumerate(NAMES)}, field.study)

        def deviate(call):
            if call.request.step == 1:  # the count of rows, before there is a model
                return
            for w in LENGTH * np.eye(len(server.charter.features)):
                for threshold in THRESHOLDS:
                    for name in NAMES:
                        server.ask_about(name, call, w, -LENGTH * threshold)

        server.run(deviate)
    tried = {way.__name__: server.tried[way.__name__] for way in WAYS}
    return {"steps": len(server.asked), "asked": tried, "answered": server.answered.total()}


def main() -> None:
    logging.disable(logging.CRITICAL)
    os.fsync = lambda handle: None  # nothing here is about power loss
    found = {algorithm: counted(algorithm) for algorithm in ALGORITHMS}
    about = {"command": "python -m benchmarks.red_team_alone", "length": LENGTH}
    write_text(OUT, json.dumps(about | {"studies": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
