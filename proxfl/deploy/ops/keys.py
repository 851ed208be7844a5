"""Who may connect: a private authority for the server's certificate, and one key for each site.

The authority's certificate is given to every site, which thereby knows the server. A site's key is
best made at the site; its public half is given to the server, which thereby knows the site. Private
keys are readable by their owner only and never leave the folder they are made in.
"""

import datetime
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
    authority = ec.generate_private_key(ec.SECP384R1())
    root = authority_certificate(authority)
    key = ec.generate_private_key(ec.SECP384R1())
    certificate = server_certificate(key, root, authority, (*HERE, *hosts))
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


def public_key(path: Path) -> bytes:
    """A registered key in the form in which Flower reports it."""
    key = serialization.load_ssh_public_key(path.read_bytes())
    forms = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_bytes(*forms)


def public_keys(folder: Path) -> dict[str, bytes]:
    """The keys of all sites whose public key file is in a folder, by the file's name."""
    return {path.stem: public_key(path) for path in sorted(folder.glob("*.pub"))}


def authority_certificate(key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "ProxFL private authority")])
    usage = x509.KeyUsage(
        digital_signature=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )
    return (
        unsigned(name, name, key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA384())
    )


def server_certificate(
    key: ec.EllipticCurvePrivateKey,
    root: x509.Certificate,
    authority: ec.EllipticCurvePrivateKey,
    hosts: Sequence[str],
) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "ProxFL server")])
    names = x509.SubjectAlternativeName([alternative(host) for host in dict.fromkeys(hosts)])
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key())
    return (
        unsigned(name, root.subject, key.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(names, critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(issuer, critical=False)
        .sign(authority, hashes.SHA384())
    )


def unsigned(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))  # clocks differ
        .not_valid_after(now + datetime.timedelta(days=DAYS))
    )


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
