"""What a federation is asked: a small TOML text, which the server sends and each site judges.

    name = "sparse"
    federation = "heart"
    sites = ["north", "south", "west"]     # who takes part, in the order in which sums are taken
    ask = "train"
    version = "2.0"                        # of the package that wrote it

    unmasked = true                        # if each site is to answer in the clear

    [problem]                              # the options of `proxfl train`, spelt as in its TOML
    target = "diagnosis"
    loss = "logistic"
    l1 = 0.01
    features = ["age", "bmi"]              # if left out: all columns but the target

A study of a path has, beside a problem without the weight that is swept, a table `choice` with the
options of `proxfl path`: sweep, points, ratio, by, folds, rule. A study that evaluates has, in
place of a problem, `model`, the text of a model.json, and a table `how`: threshold, draws and seed.
One that describes has `schema`, a table of columns, and `smallest`, the rows behind what is told.

Nothing in it is private. It names no file: what options read from files is in it. Its name on the
wire is the SHA-256 of its bytes, all of it, so that nothing about a study changes once it began.
"""

import hashlib
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import tomli_w

from proxfl import __version__
from proxfl.deploy.protocol.asks import OWN, parts_of
from proxfl.deploy.protocol.membership import check_distinct, check_names
from proxfl.errors import InputError
from proxfl.storage.files import write_bytes
from proxfl.storage.toml import parsed
from proxfl.storage.typed import misfit
from proxfl.tables import Schema, Table, read_site
from proxfl.train.applied import Applied
from proxfl.train.choice import Choice
from proxfl.train.evaluate import How
from proxfl.train.folder import parsed_model
from proxfl.train.folds import names_of
from proxfl.train.privacy import Noise, noise_of
from proxfl.train.spec import Spec, columns_of, describe, wanted_of
from proxfl.train.train import refuse_empty

SUFFIX = ".toml"
LONGEST = 2**24  # characters: a schema and a model of some hundred thousand coefficients
LOOSE = ("rounds", "tol")  # what the server may change on its own, unless it is masked
FEWEST_MASKED = 3  # sites: a sum of two tells each the other's part
TAKES_PART, WAITS, DECLINES = "takes part", "waits", "declines"  # what a site may decide


class StudyFile(TypedDict):
    """The text's content."""

    name: str
    federation: str
    sites: list[str]
    ask: str
    version: str
    unmasked: NotRequired[bool]
    problem: NotRequired[dict[str, Any]]
    choice: NotRequired[dict[str, Any]]
    model: NotRequired[str]
    how: NotRequired[How]
    schema: NotRequired[dict[str, Any]]
    smallest: NotRequired[int]


@dataclass(frozen=True)
class Study:
    """A text, and what it says; made by `read_study` alone, so that the two agree."""

    text: str
    name: str = field(compare=False)
    federation: str = field(compare=False)
    sites: tuple[str, ...] = field(compare=False)
    ask: str = field(compare=False)
    spec: Spec = field(compare=False)  # the problem, or that of which the model is the solution
    model: str = field(compare=False, default="")
    how: How = field(compare=False, default=How())
    unmasked: bool = field(compare=False, default=False)
    choice: Choice | None = field(compare=False, default=None)  # of a path
    schema: Schema = field(compare=False, default=Schema({}))  # what is described
    smallest: int = field(compare=False, default=1)

    @property
    def words(self) -> str:
        """What it asks, for a person to read who decides about it."""
        if self.ask == "describe":
            columns = ", ".join(self.schema.columns)
            return f"describe    counts, means, spreads and quantiles of {columns}"
        lead = ""
        if self.choice is not None:
            about = f"{self.choice.points} weights of {self.choice.sweep}, written as 1 below"
            lead = f"path        {about}, each also without one of {len(self.folds)} folds\n"
        if self.ask == "evaluate":
            model, draws = applied(self).model, f"and those of {self.how.draws} draws of rows"
            lead = (
                "evaluate    the model below, as it is: sums over rows of how far it is off, "
                f"{draws};\n            of classes also the rows in narrow cells of their scores\n"
                f"columns     {', '.join((*columns_of(self.spec), *model.features))}\n"
            )
        return lead + describe(self.spec)

    @property
    def folds(self) -> tuple[str, ...]:
        """What the folds of a path are called."""
        return () if self.choice is None else names_of(self.choice, self.sites)

    @property
    def questions(self) -> int:
        """The fewest that a path asks: of each set, at each weight, and how it does on its fold."""
        return 0 if self.choice is None else self.choice.points * (2 * len(self.folds) + 1)

    @property
    def noise(self) -> Noise | None:
        """What is added to the answers of its rounds."""
        return noise_of(self.spec) if self.ask == "train" else None

    @property
    def maskable(self) -> bool:
        """Whether what it asks can be had from sums over enough sites."""
        return len(self.sites) >= FEWEST_MASKED

    @property
    def masked(self) -> bool:
        """Whether sites answer under masks, and follow the run."""
        return self.maskable and not self.unmasked

    @property
    def id(self) -> str:
        """The name on the wire: the digest of the text, in full."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    def write(self, path: Path, private: bool = False) -> None:
        write_bytes(path, self.text.encode(), private)


def study_text(name: str, federation: str, sites: Sequence[str], ask: str, **parts: Any) -> str:
    """The text of a study; of a `problem`, what differs from its defaults."""
    held = {"name": name, "federation": federation, "sites": list(sites), "ask": ask}
    return tomli_w.dumps(held | {"version": __version__} | parts)


def make_study(
    name: str,
    federation: str,
    sites: Sequence[str],
    spec: Spec,
    unmasked: bool = False,
    choice: Choice | None = None,
) -> Study:
    """A study of a problem, with the content of the files that the problem names, or of a path."""
    changed = spec.read_files().changed()
    problem = {key: value for key, value in changed.items() if key not in OWN}
    more = in_the_clear(unmasked)
    if choice is None:
        return read_study(study_text(name, federation, sites, "train", **more, problem=problem))
    problem.pop(choice.sweep, None)
    more |= {"problem": problem, "choice": choice.to_dict()}
    return read_study(study_text(name, federation, sites, "path", **more))


def read_study(text: str) -> Study:
    """What a text says, wherever it came from; InputError if it is no study."""
    if len(text) > LONGEST:
        raise InputError(f"The study has {len(text)} characters, more than the {LONGEST} allowed.")
    try:
        held = parsed(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"The study is not TOML: {str(error)[:200]}.") from None
    wrong = misfit(held, StudyFile)
    odd = sorted(held.keys() - StudyFile.__annotations__.keys())
    if wrong or odd:
        raise InputError(f"The study cannot be read: {wrong or f'it has a key {odd[0]!r}'}.")
    check_names(held["name"], held["federation"], *held["sites"])
    sites = tuple(held["sites"])
    check_distinct(sites)
    parts = parts_of(held) | {"unmasked": held.get("unmasked", False)}
    study = Study(text, held["name"], held["federation"], sites, held["ask"], **parts)
    if study.ask == "train":
        check_noise(study)
    return study


def check_noise(study: Study) -> None:
    """Refuse noise that is too little by what a study says itself."""
    honest = study.spec.dp_honest or 1
    if honest > len(study.sites):
        raise InputError(f"dp_honest must be at most the {len(study.sites)} sites, got {honest}.")
    if honest > 1 and not study.masked:
        raise InputError(
            "the server sees the answer of each site in a study that is not masked, so that each "
            "must add all of its noise; leave dp_honest out."
        )


def make_evaluation(
    name: str, federation: str, sites: Sequence[str], model: str, how: How, unmasked: bool = False
) -> Study:
    """A study of how good a model is; `model` is the text of a model.json."""
    parts = in_the_clear(unmasked) | {"model": model, "how": how._asdict()}
    return read_study(study_text(name, federation, sites, "evaluate", **parts))


def make_description(
    name: str,
    federation: str,
    sites: Sequence[str],
    schema: Schema,
    smallest: int,
    unmasked: bool = False,
) -> Study:
    """A study of what the columns hold."""
    parts = in_the_clear(unmasked) | {"schema": schema.to_dict(), "smallest": smallest}
    return read_study(study_text(name, federation, sites, "describe", **parts))


def in_the_clear(unmasked: bool) -> dict[str, Any]:
    """What the text says of it: nothing, if it is masked."""
    return {"unmasked": True} if unmasked else {}


def applied(study: Study) -> Applied:
    """The model of a study that evaluates, which reads files as it was trained on them."""
    return Applied.of(*parsed_model(study.model, "The model of the study"))


def read_study_at(path: Path) -> Study:
    try:
        return read_study(path.read_text(encoding="utf-8"))
    except OSError:
        raise InputError(f"{path}: there is no such study; write it with federate study.") from None
    except (InputError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: {error}") from None


def read_table(spec: Spec, data: Path) -> Table:
    """A site's file, as a problem wants it read."""
    table = read_site(data, columns_of(spec), spec.missing, wanted_of(spec))
    refuse_empty(table, spec)
    return table
