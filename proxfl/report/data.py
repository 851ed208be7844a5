"""The data in the report of a run: its sites, its columns, and what was done to their values."""

from collections.abc import Collection

from proxfl.console.words import called
from proxfl.report.page import MOST_ROWS, Page
from proxfl.tables import Schema
from proxfl.train.saved import Saved
from proxfl.train.spec import columns_of
from proxfl.train.terms import schema_of


def site_table(made: Page, saved: Saved) -> None:
    sites = saved.manifest["sites"]
    counts = [key for key in ("dropped", "filled") if any(site.get(key) for site in sites)]
    losses = ["loss"] if all(site["loss"] is not None for site in sites) else []
    keys = ["name", "rows", *counts, "weight", *losses]
    outcomes = list(dict.fromkeys(key for site in sites for key in site.get("outcome", ())))
    several = isinstance(saved.spec.target, tuple)
    of_target = [key if several else f"{saved.model['target']}: {key}" for key in outcomes]
    rest = lambda site: [site.get("outcome", {}).get(key, 0) for key in outcomes]
    made.table(
        [{"name": "site", "filled": "values filled in"}.get(key, key) for key in keys] + of_target,
        [[site[key] for key in keys] + rest(site) for site in sites],
        "The loss is the mean over a site's rows, without the penalty." if losses else "",
    )


def data(made: Page, saved: Saved) -> None:
    agreement, spec = saved.manifest["agreement"], saved.spec
    facts = {"rows": f"{sum(agreement['rows']):,}", "features": len(agreement["features"])}
    if agreement["classes"]:
        facts["classes"] = ", ".join(map(called, agreement["classes"]))
    facts["missing values"] = {
        "refuse": "none",
        "drop": "their rows were dropped",
        "mean": "filled with the mean over all sites",
    }[spec.missing]
    if (schema := schema_of(saved.model)) is not None:
        facts["missing values"] += ", unless the schema says otherwise"
    made.facts(facts)
    if schema is not None:
        used = set(agreement["features"])
        made.table(
            ["column", "kind", "features", "what the numbers mean", "missing"],
            [
                [
                    name,
                    column.name,
                    uses(schema, name, used, saved),
                    column.words,
                    column.missing or spec.missing,
                ]
                for name, column in schema.columns.items()
            ],
            "The columns, as the schema has them.",
        )
    if any(agreement["centre"]):
        columns = zip(*(agreement[key] for key in ("features", "centre", "scale")), strict=True)
        made.table(
            ["feature", "mean", "standard deviation"],
            [list(row) for row in columns][:MOST_ROWS],
            "Over all sites, from each site's counts, means and sums of squares.",
        )
    made.text("No row of data is in this report, nor did any leave its site.")


def uses(schema: Schema, name: str, used: Collection[str], saved: Saved) -> str:
    """What a column gives to the model."""
    if name in columns_of(saved.spec):
        return "the target"
    found = [feature for feature in schema.made_of(name) if feature in used]
    return ", ".join(found) or "none"
