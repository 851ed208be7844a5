"""A result in a cell of a notebook: sentences and small tables, in the notebook's own style.

Names may be from anywhere: they are made printable here, and escaped by the template.
"""

from collections.abc import Sequence
from typing import Any

import jinja2

from proxfl.console.words import printable
from proxfl.report.page import cell
from proxfl.report.training import lead, remarks, title
from proxfl.train.saved import Saved
from proxfl.train.spec import in_words
from proxfl.train.terms import intercept, table_of

MOST_ROWS = 20
TEMPLATE = """
<div>
<p><strong>{{ title }}</strong></p>
{% for text in texts %}
<p>{{ text }}</p>
{% endfor %}
{% for table in tables %}
<table>
<thead><tr>{% for head in table.heads %}<th>{{ head }}</th>{% endfor %}</tr></thead>
<tbody>
{% for row in table.rows %}
<tr>{% for value in row %}<td>{{ value.text }}</td>{% endfor %}</tr>
{% endfor %}
</tbody>
</table>
{% if table.more %}
<p>{{ table.more }} more are in <code>{{ table.whole }}</code>.</p>
{% endif %}
{% endfor %}
</div>
"""


def html(saved: Saved) -> str:
    """What was fitted, its certificate, the largest coefficients, and how much each site weighs."""
    texts = [in_words(saved.spec), lead(saved), *remarks(saved.model), intercept(saved.model)]
    sites = [[site[key] for key in ("name", "rows", "weight")] for site in saved.manifest["sites"]]
    tables = [
        table(*table_of(saved.model), whole="coef"),
        table(["site", "rows", "weight"], sites, whole="sites"),
    ]
    shown = [text for text in texts if text is not None]
    return block(title(saved), shown, [table for table in tables if table["rows"]])


def block(title: str, texts: Sequence[str], tables: Sequence[dict[str, Any]]) -> str:
    """What a cell shows."""
    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(TEMPLATE.strip()).render(
        title=printable(title), texts=[printable(text) for text in texts], tables=tables
    )


def table(heads: Sequence[str], rows: Sequence[Sequence[Any]], whole: str) -> dict[str, Any]:
    """Its first rows; `whole` has all of them."""
    shown = [[cell(value) for value in row] for row in rows[:MOST_ROWS]]
    return {"heads": heads, "rows": shown, "more": max(0, len(rows) - MOST_ROWS), "whole": whole}
