"""Real processes are killed at their own writes, again and again: the model is the same.

Each life of a site, and of the server's program, ends as by `kill -9` before an operation on the
disk that is drawn from the seed, until each has had its share of deaths; then it goes on to its
end. So where they die depends on no machine's speed. Every other seed is under masks, where no
site says two things to one request. Minutes long, so it runs under `make soak`.
"""

import os
from collections import Counter
from pathlib import Path

import pytest

from tests.deploy.field import NAMES, Field
from tests.deploy.processes import Deployment, commands
from tests.deploy.test_soak import PROBLEM
from tests.deploy.test_sums_deployed import meet
from tests.outcomes import soak

STRIKES = Path(__file__).parent / "strikes"
LIVES = 5  # of each site and of the program that end so


def struck(folder: Path, seed: int) -> Counter[str]:
    """How many processes died at a write, of a run that ended with the right model after all."""
    print("seed", seed)
    masked, deaths = seed % 2 == 0, folder / "deaths"
    field = Field(folder / "twin", masked=masked, **PROBLEM)
    deaths.mkdir(parents=True)
    path = os.pathsep.join(filter(None, [str(STRIKES), os.environ.get("PYTHONPATH")]))
    under = ("env", f"PYTHONPATH={path}", f"PROXFL_STRIKES={deaths}:{seed}:{LIVES}")
    with commands(folder) as start:
        there = Deployment(folder, start, field.files, masked=masked, **PROBLEM)
        there.serve(inside=under)
        joined = {}
        for name in NAMES:
            joined[name] = there.join(name, inside=under)
            there.let_in(name)
            there.server.wait_for(f"Site {name} is let in.", 900)
        meet(there)
        field.confirm()
        run, words = start("run", there.home.folder), "Not converged after 8 rounds"
        run.ended(900)
        while words not in run.said:
            assert "Traceback" not in run.said, run.said
            for name, command in joined.items():
                if command.process.poll() is not None:  # it had not been connected yet
                    assert "The site ended; its log ends with" in command.said, command.said
                    joined[name] = there.join(name, inside=under)
            run = start("resume" if there.home.status.exists() else "run", there.home.folder)
            run.ended(900)
    field.run("straight")
    wanted = (folder / "twin" / "straight" / "model.json").read_bytes()
    assert (there.home.folder / "results" / "model.json").read_bytes() == wanted
    for name in NAMES if masked else ():
        said = {tuple(line.split()) for line in (deaths / f"{name}.said").read_text().splitlines()}
        assert len(said) == len({request for request, _ in said}) > 8
    died = [path for path in deaths.glob("*.[0-9]*") if path.read_text()]
    kind = "masked" if masked else "in the clear"
    sites = sum(not path.name.startswith("program") for path in died)
    return Counter(
        {
            f"runs with the same model, {kind}": 1,
            f"sites killed at a write, {kind}": sites,
            f"programs killed at a write, {kind}": len(died) - sites,
        }
    )


@pytest.mark.soak
@pytest.mark.filterwarnings("ignore:Not converged")
def test_whoever_is_killed_at_whichever_write_the_model_is_that_of_an_undisturbed_run(tmp_path):
    soak("strikes_deployed", range(20), 1, lambda seeds: struck(tmp_path / str(seeds[0]), seeds[0]))
