"""A report: one HTML file with everything in it, for a phone, a screen and paper."""

import base64
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2
from matplotlib.figure import Figure

from proxfl.console.words import lines, printable
from proxfl.drawing.plots import drawn
from proxfl.storage.files import write_text

WIDEST = 500  # characters of a cell
MOST_ROWS = 500  # of a table; the files of a result have the rest
TONES = {"holds": "good", "does not hold": "bad", "holds in part": "fair"}
TONES |= {"exact": "good", "stalled": "fair", "diverged": "bad"}


class Page:
    """Sections in the order they were added; figures are inlined.

    Texts may hold words from outside: they are made printable here, and escaped by the template.
    """

    def __init__(self, title: str, lead: str = ""):
        self.title, self.lead = printable(title), printable(lead)
        self.sections: list[dict[str, Any]] = []

    def section(self, heading: str) -> None:
        self.sections.append({"heading": heading, "blocks": []})

    def add(self, kind: str, **content: Any) -> None:
        self.sections[-1]["blocks"].append({"kind": kind, **content})

    def text(self, text: str) -> None:
        self.add("text", text=printable(text))

    def code(self, text: str) -> None:
        self.add("code", text=lines(text))

    def facts(self, facts: Mapping[str, Any]) -> None:
        """Names and values, side by side."""
        self.add("facts", facts=[(printable(k), printable(v)) for k, v in facts.items()])

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[Any]], caption="") -> None:
        """Numbers are set right; a row's last cell may be a verdict, which gets its colour."""
        cells = [[cell(value) for value in row] for row in rows]
        numbers = [all(row[j]["number"] for row in cells) for j in range(len(columns))]
        named = zip(columns, numbers, strict=True)
        heads = [{"text": printable(name, WIDEST), "number": number} for name, number in named]
        self.add("table", heads=heads, rows=cells, caption=caption)

    def figure(self, figure: Figure, caption: str) -> None:
        width = round(96 * figure.get_figwidth())  # 96 of a browser's pixels are an inch
        self.add("figure", image=inline(figure), caption=caption, width=width)

    def render(self) -> str:
        source = resources.files("proxfl.report").joinpath("page.html.j2").read_text()
        environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
        return environment.from_string(source).render(vars(self))

    def write(self, path: Path) -> Path:
        write_text(path, self.render())
        return path


def cell(value: Any) -> dict[str, Any]:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    text = f"{value:.4g}" if isinstance(value, float) else printable(value, WIDEST)
    return {"text": text, "number": number, "tone": TONES.get(text, "")}


def inline(figure: Figure) -> str:
    """The figure as a data address; PNG, since a curve of many points is smaller so."""
    return "data:image/png;base64," + base64.b64encode(drawn(figure, "png", 160)).decode()
