"""Run targets, write what they show, and judge the paper's claims by it."""

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from proxfl.console.progress import progress
from proxfl.drawing.plots import Frame, save_figures
from proxfl.engine.compiled import forget_if_many
from proxfl.report.page import Page
from proxfl.research.reproduce import claims as claims_table
from proxfl.research.reproduce.claims import Claim
from proxfl.storage.files import whole

# Each target is a module with draw(frame), claims(frame), and compute(quick, folder), which tells
# how many parts its table has and makes them one by one; a long one keeps them in the folder.
TARGETS = {
    "fig1": "proxfl.research.reproduce.fig1",
    "fig2": "proxfl.research.reproduce.fig2",
    "fig3": "proxfl.research.reproduce.network",
    "theory": "proxfl.research.reproduce.bounds",
    "ablation": "proxfl.research.reproduce.ablation",
}


def reproduce(names: Sequence[str], out: Path, quick: bool, command: str) -> list[Claim]:
    """Every target's data, figures and claims under `out`, and one report over all of them.

    A target whose data are there already is not computed again, so an interrupted run goes on
    where it stopped.
    """
    page = Page("The paper's experiments, run again", f"Made by: {command}")
    found: list[Claim] = []
    for name in names:
        module: Any = importlib.import_module(TARGETS[name])
        frame = table(module, name, out / name, quick)
        forget_if_many()
        figures = module.draw(frame)
        save_figures(figures, out / name)
        judged = module.claims(frame)
        found += judged
        page.section(f"{name}: {(module.__doc__ or '').strip().splitlines()[0]}")
        for key, figure in figures.items():
            page.figure(figure, f"{key}: median over draws, band from first to ninth decile.")
        page.table(
            ["claim", "measured", "verdict"], [[c.name, c.measured, c.verdict] for c in judged]
        )
        for paragraph in (module.__doc__ or "").strip().split("\n\n")[1:]:
            page.text(" ".join(paragraph.split()))
    claims_table.write(found, out, command)
    page.section("How to reproduce")
    page.code(command)
    page.write(out / "report.html")
    return found


def table(module: Any, name: str, folder: Path, quick: bool) -> Frame:
    """The target's data: read if they are complete, else computed and written whole."""
    path = folder / ("data-quick.csv" if quick else "data.csv")
    if not path.exists():
        frames = []
        with progress(name, 1) as report:
            total, parts = module.compute(quick, folder)
            for frame in parts:
                frames.append(frame)
                report(len(frames), total=total)
        with whole(path) as file:
            pd.concat(frames, ignore_index=True).to_csv(file, index=False, float_format="%.6g")
    # Read back in either case: verdicts must come from what is on disk.
    frame = pd.read_csv(
        path, keep_default_na=False, na_values=["nan", "NaN", ""], dtype={"theorem": str}
    )
    return frame.fillna({"variant": ""})
