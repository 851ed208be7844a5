"""Tables on a terminal."""

from collections.abc import Sequence
from typing import Any

WIDE = 120


def show(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for i, (name, first) in enumerate(zip(columns, rows[0] if rows else columns, strict=True)):
        number = isinstance(first, int | float)
        table.add_column(name, justify="right" if number else "left", no_wrap=i == 0)
    for row in rows:
        table.add_row(*(f"{v:.3g}" if isinstance(v, float) else str(v) for v in row))
    console = Console()
    if not console.is_terminal:
        console.width = WIDE  # a file or a pipe has no width of its own
    console.print(table)
