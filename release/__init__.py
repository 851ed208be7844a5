"""What a release needs: locks, an audit, a bill of materials, and a wheel that was tried."""

from pathlib import Path

LOCKS = Path("requirements")
# What each lock is for, by its file; `dev` comes first, and the others keep to its versions.
EXTRAS = {
    "dev": ("dev",),
    "base": (),
    "deploy": ("flower",),
    "docs": ("dev", "docs"),
    "release": ("dev", "release"),
    "torch": ("torch",),
}
FIRST = "dev"
# Of PyTorch only the build for CPUs is locked: the usual one brings gigabytes for GPUs.
BUILDS = {"torch": "torch==2.13.0+cpu"}


def lock(name: str) -> Path:
    return LOCKS / f"{name}.txt"
