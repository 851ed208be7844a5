"""Who may connect: a private authority for the server's certificate, and one key for each site.

The authority's certificate is given to every site, which thereby knows the server. A site's key is
best made at the site; its public half is given to the server, which thereby knows the site. Private
keys are readable by their owner only and never leave the folder they are made in.
"""

import datetime
import inspect
import ipaddress
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from proxfl.deploy.ops.permissions import private_folder, write_new

DAYS = 825  # the longest life of a server certificate that common TLS stacks accept
AUTHORITY = "ProxFL private authority"
HERE = ("localhost", "127.0.0.1")


class ServerKeys(NamedTuple):
    """Files: the authority's certificate, for everyone, and the server's own pair."""

    authority: Path
    certificate: Path
    key: Path


class SiteKeys(NamedTuple):
    """Files: a site's private key, and the public one to be registered at the server."""

    private: Path
    public: Path


def make_server_keys(folder: Path, hosts: Sequence[str] = ()) -> ServerKeys:
    """An authority and a server certificate for `hosts` and this machine; old ones are kept."""
    made = ServerKeys(folder / "ca.pem", folder / "server.pem", folder / "server.key")
    if made.certificate.exists():
        return made
    private_folder(folder)
    authority, key = (ec.generate_private_key(ec.SECP384R1()) for _ in range(2))
    root = authority_certificate(authority)
    certificate = server_certificate(key.public_key(), authority, (*HERE, *hosts))
    write_new(folder / "ca.key", pem(authority), 0o600)
    write_new(made.authority, root.public_bytes(serialization.Encoding.PEM), 0o644)
    write_new(made.key, pem(key), 0o600)
    write_new(made.certificate, certificate.public_bytes(serialization.Encoding.PEM), 0o644)
    return made


def make_site_keys(folder: Path, site: str) -> SiteKeys:
    """A key pair by which the server will know a site; an old one is kept."""
    made = SiteKeys(folder / f"{site}.key", folder / f"{site}.pub")
    if made.public.exists():
        return made
    private_folder(folder)
    key = ec.generate_private_key(ec.SECP384R1())
    write_new(made.private, pem(key, serialization.PrivateFormat.OpenSSH), 0o600)
    forms = serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    write_new(made.public, key.public_key().public_bytes(*forms) + b"\n", 0o644)
    return made


def public_keys(folder: Path) -> dict[str, bytes]:
    """The keys of all sites whose public key is in a folder, in the form Flower reports them in."""
    forms = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    read = lambda path: serialization.load_ssh_public_key(path.read_bytes())
    return {path.stem: read(path).public_bytes(*forms) for path in sorted(folder.glob("*.pub"))}


def authority_certificate(key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    flags = inspect.signature(x509.KeyUsage).parameters
    usage = x509.KeyUsage(**{flag: flag in ("key_cert_sign", "crl_sign") for flag in flags})
    known = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    critical = x509.BasicConstraints(ca=True, path_length=0), usage
    return signed(AUTHORITY, key.public_key(), key, critical, (known,))


def server_certificate(
    key: ec.EllipticCurvePublicKey, authority: ec.EllipticCurvePrivateKey, hosts: Sequence[str]
) -> x509.Certificate:
    others = (
        x509.SubjectAlternativeName([alternative(host) for host in dict.fromkeys(hosts)]),
        x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]),
        x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key()),
    )
    critical = x509.BasicConstraints(ca=False, path_length=None)
    return signed("ProxFL server", key, authority, (critical,), others)


def signed(
    subject: str,
    key: ec.EllipticCurvePublicKey,
    authority: ec.EllipticCurvePrivateKey,
    critical: Sequence[x509.ExtensionType],
    others: Sequence[x509.ExtensionType],
) -> x509.Certificate:
    """A certificate by our authority; who does not know a critical extension must refuse it."""
    named = lambda name: x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(named(subject))
        .issuer_name(named(AUTHORITY))
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))  # clocks differ
        .not_valid_after(now + datetime.timedelta(days=DAYS))
    )
    for extension in (*critical, *others):
        certificate = certificate.add_extension(extension, critical=extension in critical)
    return certificate.sign(authority, hashes.SHA384())


def alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def pem(
    key: ec.EllipticCurvePrivateKey,
    form: serialization.PrivateFormat = serialization.PrivateFormat.PKCS8,
) -> bytes:
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
