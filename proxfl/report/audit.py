"""A site's audit log as a page for people: what was asked, decided and answered."""

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

from proxfl.console.words import called, count
from proxfl.report.page import Page

HEADS = ["study", "digest", "asks", "the site", "answers", "numbers that left", "last"]
MOST_LINES = 5000  # on a page


def moment(told: Mapping[str, Any]) -> str:
    at = datetime.datetime.fromtimestamp(told["time"], datetime.UTC)
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"


def by_study(lines: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[list[Any]]]:
    """One row for each study: the last decision, and what was answered."""
    rows: dict[str, list[Any]] = {}
    for told in lines:
        if "study" not in told:
            continue
        row = rows.setdefault(told["study"], ["", told["study"][:16], "", "", 0, 0, ""])
        row[0], row[2] = called(told.get("name", row[0])), told.get("ask", row[2])
        row[3] = told.get("decision", "approved by a person" if "by" in told else row[3])
        row[4] += told["what"] == "answer"
        row[5] += told.get("numbers", 0)
        row[6] = moment(told)
    return HEADS, list(rows.values())


def page(site: str, lines: Sequence[Mapping[str, Any]], head: str, wrong: Sequence[str]) -> Page:
    state = f"It is not whole: {wrong[0]}." if wrong else "It is whole: every line fits the next."
    made = Page(f"What left site {called(site)}", f"{count(len(lines), 'line')}. {state}")
    made.section("Studies")
    made.table(*by_study(lines), "Numbers that left are counted before each answer is sent.")
    made.section("Every line")
    shown = [told for told in lines if told][-MOST_LINES:]
    rows = [[told["line"], moment(told), told["what"], *about(told)] for told in shown]
    made.table(
        ["line", "time", "what", "study", "about"], rows, f"The last {MOST_LINES:,} at most."
    )
    made.section("The head")
    made.text("Copied to another place, it shows later whether this log was cut or rewritten.")
    made.code(head)
    return made


def about(told: Mapping[str, Any]) -> list[str]:
    own = ("line", "before", "time", "what", "study", "request")
    rest = ", ".join(f"{key} {called(value)}" for key, value in told.items() if key not in own)
    return [told["study"][:16], rest]
