"""Tables on a terminal."""

from collections.abc import Sequence
from typing import Any


def show(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for name, first in zip(columns, rows[0] if rows else columns, strict=True):
        number = isinstance(first, int | float)
        table.add_column(name, justify="right" if number else "left")
    for row in rows:
        table.add_row(*(f"{v:.3g}" if isinstance(v, float) else str(v) for v in row))
    Console().print(table)
