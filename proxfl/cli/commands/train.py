"""`proxfl train SITES... --target COLUMN --loss LOSS`: a model with a certificate, and a report."""

import argparse
import shlex
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from proxfl.cli.shared import options
from proxfl.cli.shared.arguments import add_config, add_json, unused
from proxfl.cli.shared.arguments import folder as to_folder
from proxfl.console import sinks
from proxfl.console.progress import progress
from proxfl.console.words import printable
from proxfl.deploy.ops.stopping import in_main_thread
from proxfl.errors import DONE, INTERRUPTED, NOT_CONVERGED, DiskError, InputError
from proxfl.storage.files import refuse_full
from proxfl.train import folder as results
from proxfl.train import train as fitting
from proxfl.train.spec import Spec, outcome_of

EPILOG = """
A TOML file given with --config holds the same options, spelt with underscores (local_steps = 5);
those on the command line win over it.

Results go to a folder: model.json, model.safetensors, history.jsonl, manifest.json, report.html.
An interrupted run (Ctrl-C, SIGTERM) keeps a checkpoint there, and --resume goes on from it.
Exit codes: 0 converged, 2 bad input (nothing written), 3 not converged (the model is written, and
says so), 4 the disk is full or read-only (--resume goes on once it is not), 130 interrupted.
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    options.add(parser)
    add_config(parser)
    resume = "go on with the run in this folder; only --rounds and --tol may be given anew"
    parser.add_argument("--resume", type=Path, metavar="DIR", help=resume)
    add_json(parser)
    events = "send the rounds to TensorBoard files"
    parser.add_argument("--tensorboard", type=to_folder, metavar="DIR", help=events)
    parser.add_argument("--mlflow", metavar="URI", help="send the rounds to an MLflow server")
    parser.epilog = options.conventions() + "\n" + EPILOG


class Errand(NamedTuple):
    """What to run and where to; a resumed run has the fingerprints of the data it began with."""

    spec: Spec
    folder: Path
    command: str
    fingerprints: dict[str, str] | None = None
    finished: bool = False


def main(args: argparse.Namespace) -> int:
    errand = fresh(args) if args.resume is None else resumed(args)
    if not errand.finished and not carry_out(errand, args.tensorboard, args.mlflow):
        return INTERRUPTED
    return conclude(errand.folder, args.json, resumption(errand.folder))


def conclude(folder: Path, json: bool, resumption: str) -> int:
    """Show the result in a folder; the exit code says whether its certificate is met."""
    from proxfl.cli.shared.results import as_json, summary

    told = results.read(folder)
    if json:
        print(as_json(told))
        print(f"Results: {printable(folder)}", file=sys.stderr)
    else:
        summary(told, folder)
    if told.model["certificate"]["converged"] or "privacy" in told.model:
        return DONE
    if told.model["certificate"].get("obstacle"):
        return NOT_CONVERGED  # and more rounds would not change that, as was said
    more = f"{resumption} --rounds {2 * told.spec.rounds}"
    print(f"The certificate is not met; for more rounds: {printable(more)}", file=sys.stderr)
    return NOT_CONVERGED


def resumption(folder: Path) -> str:
    return f"proxfl train --resume {shlex.quote(str(folder))}"


def fresh(args: argparse.Namespace) -> Errand:
    given = options.given(args)
    spec = options.spec_of(args, given)
    folder = unused("train", outcome_of(spec)) if spec.out is None else Path(spec.out)
    resume = "go on with a run that was interrupted there by --resume"
    refuse_full(folder, f"choose another with --out, or {resume}")
    return Errand(spec, folder, options.typed("train", args, given))


def resumed(args: argparse.Namespace) -> Errand:
    given, folder = options.given(args), args.resume
    other = sorted(given.keys() - {"rounds", "tol"})
    if other or args.config is not None:
        what = options.flag(other[0]) if other and other[0] != "sites" else "files and --config"
        raise InputError(
            f"--resume takes the options from {folder}, so {what} cannot be given; only --rounds "
            "and --tol may."
        )
    spec, manifest = results.read_spec(folder)
    if given and spec.dp_clip is not None:
        raise InputError(
            f"the noise of the run in {folder} is for {spec.rounds} rounds, so "
            f"{options.flag(next(iter(given)))} cannot be given anew; start a new run with it."
        )
    if is_finished(folder, manifest, given):
        return Errand(spec, folder, manifest["command"], finished=True)
    if manifest["versions"] != results.versions():
        print("The run began with other versions; its last bits may differ.", file=sys.stderr)
    command = f"{manifest['command']} {options.spelt(given)}".strip()
    return Errand(spec.replace(**given), folder, command, manifest["fingerprints"])


def is_finished(folder: Path, manifest: Mapping[str, Any], given: Mapping[str, Any]) -> bool:
    """Whether a run has converged: it then has no state to go on from, and says so."""
    if not manifest["finished"] or (folder / results.CHECKPOINT).exists():
        return False
    model = results.read(folder).model
    if not (model["certificate"]["converged"] or "privacy" in model):
        raise InputError(f"{folder / results.CHECKPOINT}: there is no such file; train anew.")
    if given:
        raise InputError(
            f"the run in {folder} has converged and keeps no state to go on from, so "
            f"{options.flag(next(iter(given)))} comes too late; start a new run with it."
        )
    print(f"The run in {printable(folder)} is finished.", file=sys.stderr)
    return True


def carry_out(errand: Errand, tensorboard: Path | None = None, mlflow: str | None = None) -> bool:
    """Train and write the folder; whether that came to an end."""
    done, label = 0, fitting.heading(errand.spec)
    try:
        with on_sigterm(), progress(label, None) as report, ExitStack() as stack:
            job = fitting.begin(errand.spec)
            refuse_other_data(errand, job.fingerprints)
            send: sinks.Write = lambda row: None  # nothing is there before the first round is

            def watch(record: Any) -> None:
                nonlocal done, send
                if not done:
                    results.begin(errand.folder, job.spec, job.fingerprints, errand.command)
                    where = sinks.opened(tensorboard, mlflow, errand.spec.to_dict())
                    send = stack.enter_context(where)
                done = record.round
                report(done, note=fitting.standing(record, errand.spec))
                send(record._asdict())

            train_and_save(job, errand, watch)
    except KeyboardInterrupt:
        if not (errand.folder / results.MANIFEST).exists():
            print("Interrupted before the first round; nothing was written.", file=sys.stderr)
        else:
            after = f" after round {done}" if done else ""
            again = printable(resumption(errand.folder))
            print(f"Interrupted{after}; go on with: {again}", file=sys.stderr)
        return False
    return True


def train_and_save(job: Any, errand: Errand, watch: Callable[[Any], None]) -> None:
    """A run that cannot be carried out leaves nothing behind; with a full disk, what it can."""
    from proxfl.report.training import save

    folder, fresh = errand.folder, errand.fingerprints is None
    missing = [part for part in (folder, *folder.parents) if not part.exists()]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", fitting.ConvergenceWarning)  # the summary says it
            fit = fitting.run(job, folder / results.CHECKPOINT, watch)
        save(folder, fit, errand.command)
    except ValueError:
        if fresh:
            results.discard(folder, missing)
        raise
    except DiskError as error:
        if (folder / results.MANIFEST).exists():
            error.add_note(f"What there is stays; go on with: {resumption(folder)}")
        elif fresh:
            results.discard(folder, missing)
        raise


def refuse_other_data(errand: Errand, found: dict[str, str]) -> None:
    if errand.fingerprints in (None, found):
        return
    began = errand.fingerprints or {}
    site = next(name for name in {**began, **found} if began.get(name) != found.get(name))
    raise InputError(
        f"site {site!r} does not hold the data that the run in {errand.folder} began with; restore "
        "them, or train anew."
    )


@contextmanager
def on_sigterm() -> Iterator[None]:
    """Being told to terminate is an interruption, as Ctrl-C is."""
    if not in_main_thread():
        yield  # only the main thread may choose
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
