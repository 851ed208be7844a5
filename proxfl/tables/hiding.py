"""Which counts of a table are hidden so that no small one is told or follows from what is shown.

Lines of the table are the parts that rows of a site are counted by; columns are the sites, and all
of them together. The rows of each column are shown. So a hidden count is safe if it is a corner of
a rectangle of hidden counts, two lines crossing two columns, that may be one more and one less in
turn, and none of them below 0: then no total changes, and each of the four may be another number.
Each small count gets the rectangle in which the least is hidden that need not be. There always is
one, if zeros and the counts of all sites may be in it.
"""

from collections.abc import Mapping, Sequence

import numpy as np

OVERALL = "overall"

Counts = dict[str, int | None]  # None: hidden


def hidden(
    counts: Mapping[str, Mapping[str, int]], smallest: int, parts: Sequence[str]
) -> dict[str, Counts]:
    """The counts of all sites together and of each, without those below `smallest` but above 0.

    Those of `rows` are the totals. What the parts leave of them is known with the parts: of
    numbers, of which only the missing are counted, how many there are.
    """
    rows = np.array([held["rows"] for held in counts.values()])
    table = np.array([[held[part] for held in counts.values()] for part in parts])
    if len(parts) == 1:
        table = np.vstack([table, rows - table[0]])
    table = np.column_stack([table.sum(axis=1), table])
    total = [rows.sum(), *rows]
    secret = among_others(table, (table > 0) & (table < smallest))
    secret[: len(parts)] |= secret[len(parts) :].any(axis=0)
    return {
        site: {"rows": int(total[j])}
        | {p: None if secret[i, j] else int(table[i, j]) for i, p in enumerate(parts)}
        for j, site in enumerate([OVERALL, *counts])
    }


def among_others(table: np.ndarray, small: np.ndarray) -> np.ndarray:
    """Where counts are hidden: the small ones, and with each the other corners of a rectangle.

    The first column has the sums of the others: there, one more counts as one less in a total.
    """
    is_sum = np.arange(table.shape[1]) == 0
    may = {sign: (is_sum == (sign < 0)) | (table > 0) for sign in (1, -1)}
    # Few and small ones; others rather than zeros, and anything rather than what is overall.
    price = 1.0 + table / (1 + table.max()) + 4.0 * (table == 0) + 16.0 * is_sum
    price[small] = 0.0
    secret, safe = small.copy(), np.zeros_like(small)
    for i, j in np.argwhere(small):
        if safe[i, j]:
            continue
        paid = price[i] + price[:, [j]] + price
        paid[i], paid[:, j] = np.inf, np.inf
        fits = lambda s, i=i, j=j: may[s][i, j] & may[-s][i] & may[-s][:, [j]] & may[s]
        paid[~(fits(1) | fits(-1))] = np.inf
        line, column = np.unravel_index(paid.argmin(), paid.shape)
        corners = np.ix_([i, line], [j, column])
        secret[corners], safe[corners], price[corners] = True, True, 0.0
    return secret
