"""What a survival model says at each site: curves, and how well it orders the rows."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from proxfl.drawing import plots
from proxfl.report.page import Page
from proxfl.train.saved import Saved
from proxfl.train.survival import concordance, hazard_of

MOST_CURVES = 12  # beyond them no colour tells sites apart


def survival(made: Page, saved: Saved) -> None:
    held = saved.model["survival"]
    note = f" The first {MOST_CURVES} sites." if len(held["sites"]) > MOST_CURVES else ""
    made.figure(
        curves(held),
        "The share of rows without an event, by Breslow's estimate at each site, for a row with "
        "the mean features; a curve ends where fewer than five rows are under observation." + note,
    )
    rows = [[site, *concordance([told])] for site, told in held["sites"].items()]
    rows.append(["all", *concordance(held["sites"].values())])
    made.table(
        ["site", "concordance", "pairs"],
        [[name, "none" if share is None else share, pairs] for name, share, pairs in rows],
        "Of the pairs of rows of a site of which one is known to have its event first, how many "
        "have it at the higher score; a tie counts half. On the rows trained on.",
    )


def curves(held: dict[str, Any]) -> Figure:
    figure, (axes,) = plots.panels(1, width=4.7, height=2.9)
    for i, (site, told) in enumerate(list(held["sites"].items())[:MOST_CURVES]):
        times, hazard = hazard_of(told)
        colour, dash = plots.COLOURS[i % 8], "-" if i < 8 else "--"
        axes.step(
            times,
            np.exp(-hazard),
            where="post",
            color=colour,
            linestyle=dash,
            label=plots.words(site),
        )
    axes.set_ylim(0, 1.02)
    plots.label(axes, "", "time", "without event", log="", legend=False)
    plots.legend_below(figure, [axes])
    return figure
