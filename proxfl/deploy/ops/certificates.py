"""Certificates: a private authority that lives for years, and a server's, which lives for months.

The authority's certificate is what sites hold, so it must outlast the federation; its key is used
only to sign, and may be kept elsewhere. The server's certificate is on a machine that the network
reaches, so it is short-lived, and renewed without anything to do at sites.
"""

import datetime
import inspect
import ipaddress
import re
from collections.abc import Sequence
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from proxfl.errors import InputError

AUTHORITY_DAYS = 3653  # ten years
SERVER_DAYS = 90
WARNING_DAYS = 30
AUTHORITY = "ProxFL private authority"
LABEL = re.compile(r"(?!-)[A-Za-z0-9-]{1,63}(?<!-)")
LONGEST_NAME = 253


def now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def authority_certificate(key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    flags = inspect.signature(x509.KeyUsage).parameters
    usage = x509.KeyUsage(**{flag: flag in ("key_cert_sign", "crl_sign") for flag in flags})
    known = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    critical = x509.BasicConstraints(ca=True, path_length=0), usage
    return signed(AUTHORITY, key.public_key(), key, AUTHORITY_DAYS, critical, (known,))


def server_certificate(
    key: ec.EllipticCurvePublicKey,
    authority: ec.EllipticCurvePrivateKey,
    names: Sequence[x509.GeneralName],
    days: int = SERVER_DAYS,
) -> x509.Certificate:
    others = (
        x509.SubjectAlternativeName(list(dict.fromkeys(names))),
        x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]),
        x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key()),
    )
    critical = x509.BasicConstraints(ca=False, path_length=None)
    return signed("ProxFL server", key, authority, days, (critical,), others)


def signed(
    subject: str,
    key: ec.EllipticCurvePublicKey,
    authority: ec.EllipticCurvePrivateKey,
    days: int,
    critical: Sequence[x509.ExtensionType],
    others: Sequence[x509.ExtensionType],
) -> x509.Certificate:
    """A certificate by our authority; who does not know a critical extension must refuse it."""
    named = lambda name: x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(named(subject))
        .issuer_name(named(AUTHORITY))
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now() - datetime.timedelta(days=1))  # clocks differ
        .not_valid_after(now() + datetime.timedelta(days=days))
    )
    for extension in (*critical, *others):
        certificate = certificate.add_extension(extension, critical=extension in critical)
    return certificate.sign(authority, hashes.SHA384())


def name_of(host: str) -> x509.GeneralName:
    """What a certificate calls a host: an address, or a name as DNS has it."""
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        pass
    labels = host.split(".")
    sound = host.isascii() and len(host) <= LONGEST_NAME and all(map(LABEL.fullmatch, labels))
    if not sound or labels[-1].isdigit():  # 999.1.1.1 is neither an address nor a name
        raise InputError(
            f"--host must be a name such as fed.example.org or an address such as 10.1.2.3, got "
            f"{host!r}; write a name with other letters in its form for DNS, which begins xn--."
        )
    return x509.DNSName(host)


def names_in(certificate: x509.Certificate) -> list[x509.GeneralName]:
    return list(certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)


class Life(NamedTuple):
    """When a certificate ends, and how many whole days that is from now: negative, if it has."""

    end: datetime.datetime
    days: int

    def __str__(self) -> str:
        date = f"{self.end:%Y-%m-%d}"
        return (
            f"until {date}, which is past" if self.days < 0 else f"until {date}, {self.days} days"
        )


def life_of(certificate: x509.Certificate) -> Life:
    end = certificate.not_valid_after_utc
    return Life(end, (end - now()) // datetime.timedelta(days=1))
