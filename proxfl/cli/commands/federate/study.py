"""`proxfl federate study DIR NAME --target COLUMN --loss LOSS`: something else to ask the sites."""

import argparse
import shlex
from typing import Any

from proxfl.cli.shared import options
from proxfl.cli.shared.arguments import add_config, add_folder
from proxfl.deploy.ops.home import Home
from proxfl.errors import InputError
from proxfl.train.spec import Spec, describe


def arguments(parser: argparse.ArgumentParser) -> None:
    add_folder(parser)
    parser.add_argument("name", metavar="NAME", help="what to call the study")
    add_config(parser)
    add_unmasked(parser)
    options.add(parser, without=("sites", "out"))


def add_name(parser: argparse.ArgumentParser) -> None:
    """A federation, and a study in it that is to be written."""
    add_folder(parser)
    parser.add_argument("study", metavar="NAME", help="what to call the study")


def add_unmasked(parser: argparse.ArgumentParser) -> None:
    told = "have each site answer in the clear, which its policy must allow (default: sums only)"
    parser.add_argument("--unmasked", action="store_true", help=told)


def main(args: argparse.Namespace) -> int:
    from proxfl.deploy.protocol.membership import read_membership

    home = Home(args.folder.resolve())
    spec = options.spec_of(args, options.given(args))
    study = write(home, read_membership(home.folder), args.name, spec, args.unmasked)
    print(describe(study.spec))
    print(f"Study {study.name} is {home.study(study.name)}; its digest is {study.id}. Ask it with:")
    print(f"  proxfl federate run {shlex.quote(str(args.folder))} {study.name}")
    return 0


def write(
    home: Home, membership: Any, name: str, spec: Spec, unmasked: bool, choice: Any = None
) -> Any:
    """A study between all members, of a path if there is a choice; its name stays its own."""
    from proxfl.deploy.masking.path import refuse_path
    from proxfl.deploy.masking.training import refuse_unmaskable
    from proxfl.deploy.protocol.study import make_study
    from proxfl.train.drivers import fixed

    if fixed.applies(spec):
        fixed.refuse_method(spec)
    about = (name, membership.name, membership.sites, spec)
    made = make_study(*about, unmasked=unmasked, choice=choice)
    if made.choice is not None:
        refuse_path(made.spec, made.choice, len(made.sites), made.masked)
    elif made.masked:
        refuse_unmaskable(made.spec)
    return keep(home, made)


def keep(home: Home, study: Any) -> Any:
    """Put a study among the others, under a name that none has."""
    path = home.study(study.name)
    if path.exists():
        raise InputError(f"{path}: there is such a study; choose another name.")
    study.write(path)
    return study


def chosen(home: Home, name: str | None) -> Any:
    """The study of that name; without one, the only study there is."""
    from proxfl.deploy.protocol.study import SUFFIX, read_study_at

    names = sorted(path.stem for path in home.studies.glob(f"*{SUFFIX}"))
    if not names:
        raise InputError(f"{home.folder} has no study yet; write one with proxfl federate study.")
    if name is None and len(names) > 1:
        raise InputError(f"{home.folder} has the studies {', '.join(names)}; name one of them.")
    if name is not None and name not in names:
        raise InputError(f"{name!r} is no study of {home.folder}; it has {', '.join(names)}.")
    return read_study_at(home.study(name or names[0]))
