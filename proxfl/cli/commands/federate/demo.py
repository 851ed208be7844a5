"""`proxfl federate demo`: a server and its sites on this machine, and the same model at the end."""

import argparse
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from proxfl.cli.commands.federate import init, join, serve
from proxfl.cli.commands.federate import run as running
from proxfl.cli.commands.federate.watching import supervised
from proxfl.cli.shared.arguments import count
from proxfl.console.table import show
from proxfl.deploy.ops.home import Home
from proxfl.errors import DONE, FAILED, InputError
from proxfl.storage.files import refuse_full
from proxfl.train.spec import Spec

MOST_SITES = 20  # each is a process of its own
FEATURES, SEED = 12, 1
PROBLEM: dict[str, Any] = {"target": "y", "loss": "logistic", "l1": 0.02, "tol": 1e-6}
EQUAL = 1e-6  # of the largest coefficient: both are as near to the optimum as the tolerance asks


def arguments(parser: argparse.ArgumentParser) -> None:
    most = f"(default: 3, at most {MOST_SITES})"
    parser.add_argument("--sites", type=count, default=3, metavar="N", help=most)
    out = Path("out/federate-demo")
    parser.add_argument("--out", type=Path, default=out, metavar="DIR", help="result folder")


def main(args: argparse.Namespace) -> int:
    if args.sites > MOST_SITES:
        raise InputError(f"--sites must be at most {MOST_SITES}, got {args.sites}.")
    folder = args.out.resolve()
    refuse_full(args.out)
    files = write_data(folder / "data", args.sites)
    home = Home(folder / "federation")
    init.write(home.folder, "demo", [file.stem for file in files], Spec(**PROBLEM))
    say(f"{args.sites} sites, each with its own rows and its own process, in {args.out}.")
    return deployed(home, files) or compare(home.folder / "results", files)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def write_data(folder: Path, sites: int) -> list[Path]:
    """One file per site: sparse logistic models whose rows and coefficients differ between them."""
    import pandas as pd

    from proxfl.data import Design, logistic
    from proxfl.storage.files import write_text

    rows = [150 + 50 * (i % 3) for i in range(sites)]
    design = Design(sites, rows, FEATURES, 0.3, feature_shift=0.5, coef_shift=0.5)
    files = [folder / f"site{i}.csv" for i in range(1, sites + 1)]
    drawn = logistic(design, nonzeros=4, seed=SEED).sites
    for file, (A, y) in zip(files, drawn, strict=True):
        frame = pd.DataFrame(A).rename(columns=lambda j: f"x{j + 1}").assign(y=y.astype(int))
        write_text(file, frame.to_csv(index=False, lineterminator="\n"))
    return files


def deployed(home: Home, files: list[Path]) -> int:
    """Server, sites and a run; all processes end with it, however it ends."""
    from proxfl.deploy.ops.keys import make_site_keys
    from proxfl.deploy.ops.permissions import private_folder
    from proxfl.deploy.ops.stopping import stoppable
    from proxfl.deploy.site.policy_file import write_policy
    from proxfl.deploy.transport.flower import launch
    from proxfl.storage.files import write_text

    port = launch.free_port()
    introduce(home, [file.stem for file in files])
    for site in (file.stem for file in files):
        public = make_site_keys(home.site(site) / "keys", site).public
        write_text(home.public_keys / public.name, public.read_text())
    supervisors: list[Any] = []
    with stoppable(), supervised(supervisors) as look:
        supervisors.append(serve.start(home, "127.0.0.1", port, secure=True))
        say(f"The server is up at 127.0.0.1:{port}, with TLS.")
        with ThreadPoolExecutor(len(files)) as pool:

            def enter(file: Path) -> None:
                write_policy(private_folder(home.site(file.stem)), sites=min(3, len(files)))
                launch.register(home.server, home.public_keys / f"{file.stem}.pub", file.stem)
                supervisors.append(join.start(home, file.stem, file, f"127.0.0.1:{port}", True))

            list(pool.map(enter, files))
        say(f"{len(files)} sites have joined, each with a process of its own.")
        parser = argparse.ArgumentParser()
        running.shared_arguments(parser)
        given = parser.parse_args([])
        out = home.folder / "results"
        return running.carry_out(home, out, given, look, before={"study": "demo"})


def introduce(home: Home, sites: list[str]) -> None:
    """What people at the sites do by telephone; here one machine has all of their keys."""
    from proxfl.deploy.masking.members import FEWEST, Members
    from proxfl.deploy.site.office import Office

    if len(sites) < FEWEST:
        return
    offices = {site: Office(home.site(site)) for site in sites}
    key = lambda office: office.signer.public_key().public_bytes_raw()
    members = Members.of({site: key(office) for site, office in offices.items()})
    for site, office in offices.items():
        office.confirmed.confirm(members, site, [other for other in sites if other != site])


def compare(results: Path, files: list[Path]) -> int:
    """The same files in one process, and how far apart the two models are."""
    import numpy as np

    from proxfl.train.folder import read_model
    from proxfl.train.train import train

    there, held = read_model(results)
    here = train(Spec(sites=[str(file) for file in files], **PROBLEM))
    certificate, solution = held["certificate"], here.solution
    rows = [
        ["rounds", str(certificate["rounds"]), str(len(solution.records))],
        ["objective", f"{certificate['objective']:.15g}", f"{solution.objective:.15g}"],
        ["coefficients not zero", len(held["nonzeros"]), len(here.model.nonzeros())],
        ["optimality", f"{certificate['optimality']:.3g}", f"{solution.optimality:.3g}"],
    ]
    show("", ["", "real sites", "proxfl train"], rows)
    away = np.abs(there.coef - here.model.coef).max()
    equal = away <= EQUAL * np.abs(here.model.coef).max()
    print(f"Largest difference between coefficients: {away:.2g}.")
    print("The models are the same." if equal else "The models differ.")
    return DONE if equal else FAILED
