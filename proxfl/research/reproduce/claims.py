"""Claims of the paper as records, and the one way in which data become a verdict.

A claim is judged draw by draw. `measure` takes the experiment's table to one row of quantities per
draw, methods of one draw side by side, so that every comparison is paired; `parts` says for each
draw whether what the paper states is true of it, part by part. A part holds where the 95 % interval
(Clopper and Pearson) of the share of draws lies above MOST, and does not where it lies below. A
claim holds if all its parts do, does not if none does, and holds in part otherwise: also where the
interval contains MOST, so that the draws do not decide.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from proxfl.drawing.plots import Frame
from proxfl.research.statistics import share_interval, with_interval
from proxfl.storage.files import write_text

BANDS = "Medians over draws, bands from the first to the ninth decile."  # as captions say it

HOLDS, IN_PART, FAILS = "holds", "holds in part", "does not hold"
UNTESTED = "not testable here"
# The largest simple fraction that ten draws, the fewest here, can show: of ten true in ten the
# interval begins at 0.69. An even chance, which says nothing, stays far below it.
MOST = 2 / 3
# Machine precision of what is summed over 20,000 rounds, as dual averaging does.
PRECISE = 20_000 * 2.0**-52
# Rounding of a mean over the 3,000 rows of the largest problem is of the order of their number's
# root, and that of a run's 20,000 gradients adds up at worst: 2.4e-10, to the next power of ten.
EXACT = 10.0 ** np.ceil(np.log10(20_000 * 3_000**0.5 * 2.0**-52))


class Claim(NamedTuple):
    """One statement of the paper, in its own words, and the rule it is judged by."""

    name: str
    place: str
    quote: str
    quantity: str
    rule: str
    measure: Callable[[Any], Any]  # the experiment's table -> one row of quantities per draw
    parts: Callable[[Any], Mapping[str, Any]]  # those -> for each part, is it true of each draw?
    note: str = ""
    certain: bool = False  # nothing is random, so that what is true once is true


class Finding(NamedTuple):
    """Something the paper does not say, seen in the same data."""

    name: str
    quantity: str
    measure: Callable[[Any], Any]
    note: str = ""


class Part(NamedTuple):
    what: str
    true: int
    draws: int
    low: float
    high: float


class JudgedClaim(NamedTuple):
    """A claim with what became of it."""

    name: str
    verdict: str
    place: str
    quote: str
    quantity: str
    rule: str
    measured: dict[str, str]
    parts: list[Part]
    note: str


def judge(claim: Claim, table: Frame) -> JudgedClaim:
    """The verdict on one claim, by the table of its experiment."""
    draws = claim.measure(table)
    parts = [part(what, true, claim.certain) for what, true in claim.parts(draws).items()]
    return JudgedClaim(
        claim.name,
        verdict(parts),
        claim.place,
        claim.quote,
        claim.quantity,
        claim.rule,
        medians(draws),
        parts,
        claim.note,
    )


def part(what: str, true: Any, certain: bool = False) -> Part:
    """How many draws it is true of, with the interval of the share."""
    each = np.atleast_1d(np.asarray(true)).astype(bool)
    count, draws = int(each.sum()), each.size
    if certain:
        return Part(what, count, draws, count / draws, count / draws)
    return Part(what, count, draws, *share_interval(count, draws))


def verdict(parts: Sequence[Part]) -> str:
    """A claim without parts is one that its data cannot decide."""
    if not parts:
        return UNTESTED
    if all(part.low > MOST for part in parts):
        return HOLDS
    return FAILS if all(part.high < MOST for part in parts) else IN_PART


def medians(draws: Frame) -> dict[str, str]:
    """Each quantity's median over draws, with its interval."""
    return {str(name): with_interval(draws[name]) for name in draws}


def together(
    name: str, place: str, quote: str, judged: Mapping[str, JudgedClaim | None]
) -> JudgedClaim:
    """A claim that other claims add up to: it holds if all do, and does not if none does."""
    known = {key: found.verdict for key, found in judged.items() if found is not None}
    if len(known) < len(judged):
        outcome = UNTESTED
    elif set(known.values()) == {HOLDS}:
        outcome = HOLDS
    else:
        outcome = FAILS if set(known.values()) == {FAILS} else IN_PART
    rule = "Holds if all the claims it sums up hold, does not if none does."
    return JudgedClaim(name, outcome, place, quote, "the verdicts named", rule, known, [], "")


def write(
    claims: Sequence[JudgedClaim], findings: Mapping[str, Any], folder: Path, command: str
) -> None:
    """claims.json and claims.md, the same content twice."""
    rows = [claim._asdict() | {"parts": [p._asdict() for p in claim.parts]} for claim in claims]
    found = {"claims": rows, "found besides": findings}
    write_text(folder / "claims.json", json.dumps(found, indent=1) + "\n")
    write_text(folder / "claims.md", "\n".join(as_markdown(claims, findings, command)))


def as_markdown(
    claims: Sequence[JudgedClaim], findings: Mapping[str, Any], command: str
) -> list[str]:
    made = [f"Made by `{command}`.", ""]
    if not claims:
        about = (
            "Numbers are medians over draws of the data, or over sites, with their 95 % interval."
        )
        return ["# What was found", "", *made, about, "", *told(findings)]
    lines = ["# The paper's claims, measured", "", *made]
    lines += [
        "Numbers are medians over draws of the data with their 95 % interval. A part of a claim "
        "holds if the 95 % interval of the share of draws in which it is true lies above two "
        "thirds, and does not if it lies below; a claim holds if all parts do, does not if none "
        "does, and holds in part otherwise, also where the interval contains two thirds.",
        "",
        "| claim | verdict |",
        "| --- | --- |",
        *(f"| {c.name} | {c.verdict} |" for c in claims),
        "",
    ]
    for claim in claims:
        lines += [f"## {claim.name}: {claim.verdict}", "", f"> {claim.quote}", ""]
        lines += [f"- **Where:** {claim.place}", f"- **Quantity:** {claim.quantity}"]
        lines += [f"- **Rule:** {claim.rule}", f"- **Measured:** {in_words(claim.measured)}"]
        if claim.parts:
            shares = (
                f"{p.what}: {p.true} of {p.draws} ({p.low:.2f} to {p.high:.2f})"
                for p in claim.parts
            )
            lines += ["- **True in draws:** " + "; ".join(shares)]
        lines += [f"- **Note:** {claim.note}"] if claim.note else []
        lines += [""]
    lines += ["# What we found besides", "", "None of this is claimed by the paper.", ""]
    return lines + told(findings)


def told(findings: Mapping[str, Any]) -> list[str]:
    lines: list[str] = []
    for name, finding in findings.items():
        lines += [f"## {name}", "", f"- **Quantity:** {finding['quantity']}"]
        lines += [f"- **Measured:** {in_words(finding['measured'])}"]
        lines += [f"- **Note:** {finding['note']}"] if finding["note"] else []
        lines += [""]
    return lines


def in_words(measured: Mapping[str, str]) -> str:
    return "; ".join(f"{name} {value}" for name, value in measured.items())


def found(findings: Sequence[Finding], table: Frame) -> dict[str, Any]:
    """What the findings of an experiment show in its table."""
    return {
        one.name: {
            "quantity": one.quantity,
            "measured": medians(one.measure(table)),
            "note": one.note,
        }
        for one in findings
    }
