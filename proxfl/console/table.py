"""Tables on a terminal."""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from proxfl.console.words import printable

WIDE = 120
BETWEEN = 3  # characters from one cell to the next
LONG = 30  # cells that are longer are broken into lines anyway


def fitting(columns: Sequence[str], rows: Sequence[Sequence[Any]], least: int) -> int:
    """How many of the first columns fit beside one another, and at least so many."""
    from rich.console import Console

    console = Console()
    room = (console.width if console.is_terminal else WIDE) - 1
    each = zip(columns, *rows, strict=True)
    widths = accumulate(BETWEEN + min(LONG, max(map(len, map(str, cells)))) for cells in each)
    return max(least, sum(width <= room for width in widths))


def show(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text  # of which rich reads no markup

    table = Table(title=Text(printable(title)), title_justify="left")
    for i, (head, first) in enumerate(zip(columns, rows[0] if rows else columns, strict=True)):
        side: Any = "right" if isinstance(first, int | float) else "left"
        table.add_column(Text(printable(head, WIDE)), justify=side, no_wrap=i == 0)
    for row in rows:
        cells = (f"{v:.3g}" if isinstance(v, float) else printable(v, WIDE) for v in row)
        table.add_row(*map(Text, cells))
    console = Console()
    if not console.is_terminal:
        console.width = WIDE  # a file or a pipe has no width of its own
    console.print(table)
