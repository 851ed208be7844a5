"""Noise that only the site can draw again.

Everyone knows the seed of a run, so noise drawn from it could be subtracted by whoever receives it.
A method that adds noise at the client therefore gets a key made from 32 random bytes that never
leave the site's folder, and from all that the client is about to use: its state, the message down,
the settings, the place. The same question gets the same answer, also after a crash, which gives
nothing new away; any other question gets noise of its own. Were the key one of the place alone, two
questions about one round would carry the same noise, and their difference none. A site draws its
batches by such keys, too.

The generator is JAX's: its keys have 64 bits, and it is made for simulation, not for cryptography.
"""

import hashlib
import secrets
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from proxfl.core import Algorithm
from proxfl.deploy.ops.permissions import locked, private_folder
from proxfl.deploy.protocol.wire import BadMessage
from proxfl.storage.checkpoint import content_of
from proxfl.storage.files import write_bytes
from proxfl.storage.sealed import read_sealed, sealed

FILE, LOCK = "noise.secret", "secret.lock"
BYTES = 32


def keep_noise(given: Algorithm, own: Algorithm) -> None:
    """Refuse a server's numbers that would change the noise a site is set up with."""
    theirs = given.client_noise
    for name, held in own.client_noise.items():
        asked = float(theirs.get(name, 0.0))
        if asked != float(held):
            raise BadMessage(
                f"The server asks for {name} = {asked:g} where this site is set up with "
                f"{float(held):g}; what protects a site is not the server's to change."
            )


def secret(path: Path) -> bytes:
    """Random bytes of the site's own, made when first asked for: whole or not at all, and once."""
    if not path.exists():
        with locked(private_folder(path.parent) / LOCK):
            if not path.exists():  # another process may have made them meanwhile
                write_bytes(path, sealed(secrets.token_bytes(BYTES)), private=True)
    return read_sealed(path)


def secret_key(folder: Path, place: tuple[int, ...], used: Any) -> PRNGKeyArray:
    """The key for a place and everything that the client uses there."""
    digest = hashlib.blake2b(repr(place).encode(), key=secret(folder / FILE), digest_size=8)
    digest.update(content_of(used))
    words = np.frombuffer(digest.digest(), np.uint32)
    return jax.random.wrap_key_data(jnp.asarray(words))
