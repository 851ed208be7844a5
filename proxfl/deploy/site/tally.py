"""What a site's audit log comes to, by study and by kind of answer, added up as the log grows."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from proxfl.console.words import called, moment
from proxfl.deploy.site.audit import ANSWER, FILE, parsed

STUDIES = ["study", "digest", "asks", "the site", "answers", "numbers that left", "last"]
KINDS = ["what", "times", "numbers that left", "under masks"]


class Tally:
    """Lines are added once each; a log that is shorter than before is counted anew."""

    def __init__(self, folder: Path):
        self.path, self.lines, self.answers, self.read = folder / FILE, 0, 0, 0
        self.by_study: dict[str, list[Any]] = {}
        self.by_kind: dict[tuple[str, bool], list[int]] = {}

    def catch_up(self) -> "Tally":
        """Add what was written since the last time."""
        size = self.path.stat().st_size if self.path.exists() else 0
        if size < self.read:
            self.__init__(self.path.parent)
        if size > self.read:
            with self.path.open("rb") as file:
                file.seek(self.read)
                *lines, _ = file.read().split(b"\n")  # the last is not whole yet, or empty
            for line in lines:
                self.read += len(line) + 1
                self.add(parsed(line))
        return self

    def add(self, told: Mapping[str, Any]) -> None:
        self.lines += 1
        if "study" not in told:  # a line that was cut short
            return
        self.answers += told["what"] == ANSWER
        row = self.by_study.setdefault(told["study"], ["", told["study"][:16], "", "", 0, 0, ""])
        row[0], row[2] = called(told.get("name", row[0])), told.get("ask", row[2])
        row[3] = told.get("decision", "approved by a person" if "by" in told else row[3])
        row[4] += told["what"] == ANSWER
        row[5] += told.get("numbers", 0)
        row[6] = moment(told["time"])
        if "question" in told:
            what = told["question"].partition(" ")[0]  # without the names of its arrays
            kind = self.by_kind.setdefault((what, told.get("masked", False)), [0, 0])
            kind[0] += 1
            kind[1] += told.get("numbers", 0)

    @property
    def studies(self) -> list[list[Any]]:
        return list(self.by_study.values())

    @property
    def kinds(self) -> list[list[Any]]:
        """Setting up a study tells names and keys, no numbers, and has no masks to be under."""
        masks = lambda masked, numbers: "yes" if masked else "no" if numbers else ""
        return [
            [called(what), times, numbers, masks(masked, numbers)]
            for (what, masked), (times, numbers) in self.by_kind.items()
        ]
