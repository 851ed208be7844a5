"""`proxfl federate keys ACTION DIR ...`: who the server is, and which sites it lets in."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from proxfl.cli.shared.arguments import add_commands, add_folder
from proxfl.console.table import show
from proxfl.deploy.ops.home import Home
from proxfl.errors import InputError


class Action(NamedTuple):
    """One of what can be done with keys; `arguments` are those after the folder."""

    line: str
    main: Callable[[Home, argparse.Namespace], None]
    more: Callable[[argparse.ArgumentParser], None]

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        add_folder(parser)
        self.more(parser)


def arguments(parser: argparse.ArgumentParser) -> None:
    lines = {name: action.line for name, action in ACTIONS.items()}
    add_commands(parser, "what", lines, ACTIONS.__getitem__)


def main(args: argparse.Namespace) -> int:
    ACTIONS[args.what].main(Home(args.folder.resolve()), args)
    return 0


def named(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("site", metavar="NAME", help="the site")


def named_with_file(parser: argparse.ArgumentParser) -> None:
    named(parser)
    parser.add_argument("file", type=Path, metavar="FILE", help="its public key, NAME.pub")


def renewal(parser: argparse.ArgumentParser) -> None:
    hosts = "the names by which sites call the server (default: those it had)"
    parser.add_argument("--host", nargs="+", default=[], help=hosts)
    where = "the authority's key, if it is kept elsewhere (default: server/keys/ca.key)"
    parser.add_argument("--authority-key", type=Path, metavar="FILE", help=where)


def site_in(home: Home, args: argparse.Namespace) -> str:
    from proxfl.deploy.protocol.membership import known, read_membership

    return known(read_membership(home.folder), args.site)


def make(home: Home, args: argparse.Namespace) -> None:
    from proxfl.deploy.ops.keys import make_site_keys

    site = site_in(home, args)
    tell_site(make_site_keys(home.site(site) / "keys", site))


def rotate(home: Home, args: argparse.Namespace) -> None:
    from proxfl.deploy.ops.keys import rotate_site_keys

    site = site_in(home, args)
    tell_site(rotate_site_keys(home.site(site) / "keys", site))
    print("A process that runs goes on with the old key until the server has the new one.")


def tell_site(keys) -> None:
    print(f"Private key: {keys.private}; it stays here.")
    print(f"Public key: {keys.public}; give it to the server: proxfl federate keys add.")


def add(home: Home, args: argparse.Namespace) -> None:
    from proxfl.deploy.ops.keyring import KeyRing, as_sent
    from proxfl.storage.files import write_text

    site, key = site_in(home, args), as_sent(args.file)
    others = [name for name, held in KeyRing(home.public_keys).keys().items() if held == key]
    if others and others != [site]:
        raise InputError(f"{args.file} is the key of site {others[0]}; every site has its own.")
    write_text(home.public_keys / f"{site}.pub", args.file.read_text())
    print(f"Site {site} is let in by this key; one it had before is refused from now on.")


def remove(home: Home, args: argparse.Namespace) -> None:
    path = home.public_keys / f"{args.site}.pub"
    if path.parent != home.public_keys or not path.exists():
        raise InputError(f"{home.public_keys} has no key of a site {args.site!r}.")
    shut_out(home, args.site)


def shut_out(home: Home, site: str) -> None:
    """Take away the key of a site, which is there."""
    from proxfl.storage import files

    path = home.public_keys / f"{site}.pub"
    files.remove(path)
    files.sync_folder(path.parent)
    print(f"Site {site} is not let in any more; a server that runs ends its connections.")


def renew(home: Home, args: argparse.Namespace) -> None:
    from proxfl.deploy.ops import keys

    secret = args.authority_key or keys.authority_key(home.server_keys)
    if not secret.exists():
        raise InputError(
            f"{secret}: there is no such file; if the authority's key is kept elsewhere, give it "
            "with --authority-key FILE."
        )
    made = keys.renew(home.server_keys, args.host, secret)
    print(f"The server's certificate is valid {keys.life(made.pair)}.")
    print("A server that runs takes it at once; sites have nothing to do.")


def list_all(home: Home, args: argparse.Namespace) -> None:
    from proxfl.deploy.ops import keys
    from proxfl.deploy.ops.certificates import names_in
    from proxfl.deploy.ops.keyring import KeyRing, fingerprint
    from proxfl.deploy.protocol.membership import read_membership

    sites, files = read_membership(home.folder).sites, keys.server_keys(home.server_keys)
    names = ", ".join(str(name.value) for name in names_in(keys.certificate(files.pair)))
    rows = [["authority", keys.life(files.authority), home.authority.name]]
    rows += [["server", keys.life(files.pair), names]]
    show("", ["certificate", "valid", "of"], rows)
    held = KeyRing(home.public_keys).keys()
    rows = [[site, fingerprint(held[site]) if site in held else "none"] for site in sites]
    show("", ["site", "key"], rows)


ACTIONS = {
    "list": Action("server: show certificates and keys, and until when", list_all, lambda _: None),
    "add": Action("server: let a site in by its public key, or by another", add, named_with_file),
    "remove": Action("server: let a site in no more", remove, named),
    "renew": Action("server: make a new certificate of the server", renew, renewal),
    "make": Action("site: make its key, as join does the first time", make, named),
    "rotate": Action("site: make another key in place of the old one", rotate, named),
}
