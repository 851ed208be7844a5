"""Who has signed a request: one of the keys that are let in, or nobody."""

from base64 import b64decode
from collections.abc import Mapping

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from proxfl.deploy.ops.keyring import KeyRing
from proxfl.deploy.transport.flower.private_names import (
    FLEET_HTTP_PUBLIC_KEY_HEADER,
    FLEET_HTTP_SIGNATURE_HEADER,
    TIMESTAMP_HEADER,
)

EVERYONE = b""  # who signs in a deployment without keys


class Signatures:
    """By the keys of a ring as they were at the last `look`; None is a deployment without."""

    def __init__(self, ring: KeyRing | None):
        self.ring = ring
        self.look()

    def look(self) -> None:
        self.let_in = {EVERYONE} if self.ring is None else set(self.ring.keys().values())

    def signer(self, headers: Mapping[bytes, bytes]) -> bytes | None:
        """The key that has signed a request's time; whether that is now, the SuperLink checks."""
        if self.ring is None:
            return EVERYONE
        try:
            key, signature = (
                b64decode(headers[name.encode()], validate=True)
                for name in (FLEET_HTTP_PUBLIC_KEY_HEADER, FLEET_HTTP_SIGNATURE_HEADER)
            )
            public = load_pem_public_key(key) if key in self.let_in else None
            if not isinstance(public, ec.EllipticCurvePublicKey):
                return None
            public.verify(signature, headers[TIMESTAMP_HEADER.encode()], ec.ECDSA(hashes.SHA256()))
        except (KeyError, ValueError, InvalidSignature):
            return None
        return key
