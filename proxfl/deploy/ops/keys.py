"""Who may connect: a private authority for the server's certificate, and one key for each site.

The authority's certificate is given to every site, which thereby knows the server. A site's key is
best made at the site; its public half is given to the server, which thereby knows the site. Private
keys are readable by their owner only and never leave the folder they are made in.

A pair is never half there: the server's key and certificate are one file, and a site's public key
is made anew from its private one wherever the two do not fit.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from proxfl.deploy.ops.certificates import (
    AUTHORITY_DAYS,
    WARNING_DAYS,
    Life,
    authority_certificate,
    life_of,
    name_of,
    names_in,
    server_certificate,
)
from proxfl.deploy.ops.permissions import private_folder
from proxfl.errors import InputError
from proxfl.storage.files import write_bytes

PEM, OPENSSH = serialization.Encoding.PEM, serialization.Encoding.OpenSSH
HERE = ("localhost", "127.0.0.1")
NO_AUTHORITY = "make a new federation, whose ca.pem every site gets"
LARGEST = 2**16  # bytes of a file that may be a key

Read = TypeVar("Read")


class ServerKeys(NamedTuple):
    """Files: the authority's certificate, for everyone, and the server's own with its key."""

    authority: Path
    pair: Path


class SiteKeys(NamedTuple):
    """Files: a site's private key, and the public one to be registered at the server."""

    private: Path
    public: Path


def server_keys(folder: Path) -> ServerKeys:
    return ServerKeys(folder / "ca.pem", folder / "server.pem")


def authority_key(folder: Path) -> Path:
    """Where the authority's key is made; it may be moved away and given to `renew`."""
    return folder / "ca.key"


def make_server_keys(folder: Path, hosts: Sequence[str] = ()) -> ServerKeys:
    """An authority and a server certificate for `hosts` and this machine; old ones are kept."""
    made, names = server_keys(folder), [name_of(host) for host in (*HERE, *hosts)]
    private_folder(folder)
    secret = authority_key(folder)
    if not made.authority.exists():
        if not secret.exists():
            write_bytes(secret, pem(new_key()), private=True)
        root = authority_certificate(private_key(secret))
        write_bytes(made.authority, root.public_bytes(PEM))
    if not made.pair.exists():
        sign(made, secret, names)
    return made


def renew(folder: Path, hosts: Sequence[str], secret: Path) -> ServerKeys:
    """A new server certificate, for `hosts` or those of the last, by the authority's key."""
    made, names = server_keys(folder), [name_of(host) for host in hosts]
    if not made.authority.exists():
        raise InputError(f"{made.authority}: there is no such file; proxfl federate init makes it.")
    if not names:
        try:
            names = names_in(certificate(made.pair))
        except InputError:
            raise InputError(f"{made.pair} names no host; give them with --host.") from None
    sign(made, secret, [*map(name_of, HERE), *names])
    return made


def sign(made: ServerKeys, secret: Path, names: Sequence[x509.GeneralName]) -> None:
    authority, root = private_key(secret), certificate(made.authority)
    if authority.public_key() != root.public_key():
        raise InputError(f"{secret} is not the key of {made.authority}; give that with its path.")
    refuse_ended(life_of(root), made.authority, NO_AUTHORITY)
    write_pair(made.pair, authority, names)


def write_pair(
    path: Path, authority: ec.EllipticCurvePrivateKey, names: Sequence[x509.GeneralName], *days: int
) -> None:
    key = new_key()
    own = server_certificate(key.public_key(), authority, names, *days)
    write_bytes(path, pem(key) + own.public_bytes(PEM), private=True)


def make_inner_keys(folder: Path) -> ServerKeys:
    """For processes of this machine among themselves: an authority whose key nobody keeps."""
    made = ServerKeys(private_folder(folder) / "inner-ca.pem", folder / "inner.pem")
    authority = new_key()
    write_pair(made.pair, authority, [name_of(host) for host in HERE], AUTHORITY_DAYS)
    write_bytes(made.authority, authority_certificate(authority).public_bytes(PEM))
    return made


def life(path: Path) -> Life:
    """How long the certificate in a file is valid."""
    return life_of(certificate(path))


def warning(folder: Path, remedy: str) -> str:
    """What to say of certificates that have ended or will within a month; nothing of others."""
    made = server_keys(folder)
    for path, what in ((made.authority, NO_AUTHORITY), (made.pair, remedy)):
        if path.exists() and (found := life(path)).days < WARNING_DAYS:
            return f"The certificate {path.name} is valid {found}; {what}."
    return ""


def refuse_ended(found: Life, path: Path, remedy: str) -> None:
    if found.days < 0:
        raise InputError(f"The certificate {path} ended on {found.end:%Y-%m-%d}; {remedy}.")


def site_keys(folder: Path, site: str) -> SiteKeys:
    return SiteKeys(folder / f"{site}.key", folder / f"{site}.pub")


def make_site_keys(folder: Path, site: str) -> SiteKeys:
    """A key pair by which the server will know a site; an old private key is kept."""
    made = site_keys(private_folder(folder), site)
    if not made.private.exists():
        write_bytes(made.private, pem(new_key(), serialization.PrivateFormat.OpenSSH), private=True)
    public = public_text(private_key(made.private))
    if not made.public.exists() or made.public.read_bytes() != public:
        write_bytes(made.public, public)
    return made


def rotate_site_keys(folder: Path, site: str) -> SiteKeys:
    """Another key pair in place of the old one."""
    made = site_keys(private_folder(folder), site)
    write_bytes(made.private, pem(new_key(), serialization.PrivateFormat.OpenSSH), private=True)
    return make_site_keys(folder, site)


def new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP384R1())


def pem(
    key: ec.EllipticCurvePrivateKey,
    form: serialization.PrivateFormat = serialization.PrivateFormat.PKCS8,
) -> bytes:
    return key.private_bytes(PEM, form, serialization.NoEncryption())


def public_text(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.public_key().public_bytes(OPENSSH, serialization.PublicFormat.OpenSSH) + b"\n"


def private_key(path: Path) -> ec.EllipticCurvePrivateKey:
    """The private key in a file, in the form of OpenSSH or not."""

    def load(data: bytes) -> Any:
        ssh = b"OPENSSH" in data.partition(b"\n")[0]
        kind = serialization.load_ssh_private_key if ssh else serialization.load_pem_private_key
        return kind(data, None)

    return read(path, load, ec.EllipticCurvePrivateKey, "private key")


def public_key(path: Path) -> ec.EllipticCurvePublicKey:
    """A site's public key, as `make_site_keys` writes it."""
    load: Any = serialization.load_ssh_public_key
    return read(path, load, ec.EllipticCurvePublicKey, "public key of a site")


def certificate(path: Path) -> x509.Certificate:
    return read(path, x509.load_pem_x509_certificate, x509.Certificate, "certificate")


def read(path: Path, load: Callable[[bytes], Any], kind: type[Read], what: str) -> Read:
    try:
        with path.open("rb") as file:
            found = load(file.read(LARGEST))
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or 'it cannot be read'}.") from None
    except (ValueError, TypeError, NotImplementedError, UnsupportedAlgorithm):
        found = None
    if not isinstance(found, kind):
        raise InputError(f"{path}: this is no {what}; restore the file, or make it anew.")
    return found
