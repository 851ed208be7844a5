"""Compiled programs, which a long command must not pile up.

Each takes some of the memory mappings that a process on Linux may have, by default 65,530; beyond
that XLA crashes.
"""

from pathlib import Path

import jax

PLENTY = 20_000


def mappings() -> int:
    about = Path("/proc/self/maps")
    return about.read_bytes().count(b"\n") if about.exists() else 0


def forget_if_many() -> None:
    """For where the programs so far will hardly be needed again; one that is gets compiled anew."""
    if mappings() > PLENTY:
        jax.clear_caches()
