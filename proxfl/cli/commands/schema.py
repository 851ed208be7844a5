"""`proxfl schema FILES... [--out schema.toml]`: what the columns are, drafted for a person."""

import argparse
import sys
from pathlib import Path

from proxfl.errors import InputError


def arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("sites", type=Path, nargs="+", metavar="FILE", help="data files, or folders of them")
    add("--out", type=Path, metavar="FILE.toml", help="write there, not to stdout")
    parser.epilog = (
        "The draft says of each column whether it is a number, a count, a boolean, a category, "
        "ordered, a date, or an identifier to leave out, and marks with '?' what a person should "
        "look at. Edit it, and give it to train, path or federate init with --schema."
    )


def main(args: argparse.Namespace) -> int:
    from proxfl.console.table import show
    from proxfl.console.words import count, printable
    from proxfl.storage.files import write_text
    from proxfl.tables.files import files_in, refuse_without_names
    from proxfl.tables.propose import as_toml, draft, to_look_at

    if args.out is not None and args.out.exists():
        raise InputError(f"{args.out}: there is such a file already; choose another name.")
    files = files_in(args.sites)
    for file in files:
        refuse_without_names(file)
    drafts = draft(files)
    text = as_toml(drafts, f"{count(files, 'file')}")
    if args.out is None:
        sys.stdout.write(text)
        return 0
    write_text(args.out, text)
    show("", ["column", "kind", "to look at"], to_look_at(drafts))
    print(f"Schema: {printable(args.out)}")
    return 0
