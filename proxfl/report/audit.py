"""A site's audit log as a page for people: what was asked, decided and answered."""

from collections.abc import Mapping, Sequence
from typing import Any

from proxfl.console.words import called, count, moment
from proxfl.report.page import Page

MOST_LINES = 5000  # on a page


def page(
    site: str,
    studies: tuple[Sequence[str], Sequence[Sequence[Any]]],
    lines: Sequence[Mapping[str, Any]],
    head: str,
    wrong: Sequence[str],
    spent: str | None = None,
) -> Page:
    """Of the lines of a log, of what they come to by study, and of what noise has spent."""
    state = f"It is not whole: {wrong[0]}." if wrong else "It is whole: every line fits the next."
    made = Page(f"What left site {called(site)}", f"{count(len(lines), 'line')}. {state}")
    made.section("Studies")
    made.table(*studies, "Numbers that left are counted before each answer is sent.")
    if spent is not None:
        made.text(spent)
    made.section("Every line")
    shown = [told for told in lines if told][-MOST_LINES:]
    rows = [[told["line"], moment(told["time"]), told["what"], *about(told)] for told in shown]
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
