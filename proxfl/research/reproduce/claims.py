"""Claims of the paper, what was measured, and a verdict that code derives from the data."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from proxfl.storage.files import write_text

HOLDS, IN_PART, FAILS = "holds", "holds in part", "does not hold"


class Claim(NamedTuple):
    """One statement of the paper, where it stands, and what became of it."""

    name: str
    place: str
    says: str
    measured: str
    verdict: str


def verdict(holds: Any, in_part: Any = False) -> str:
    return HOLDS if holds else IN_PART if in_part else FAILS


def write(claims: Sequence[Claim], folder: Path, command: str) -> None:
    """claims.json and claims.md, the same content twice."""
    rows = [claim._asdict() for claim in claims]
    write_text(folder / "claims.json", json.dumps(rows, indent=2) + "\n")
    lines = ["# The paper's claims, measured", "", f"Made by `{command}`.", ""]
    for claim in claims:
        lines += [
            f"## {claim.name}: {claim.verdict}",
            "",
            f"- **Where:** {claim.place}",
            f"- **The paper:** {claim.says}",
            f"- **Measured:** {claim.measured}",
            "",
        ]
    write_text(folder / "claims.md", "\n".join(lines))
