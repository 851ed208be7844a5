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
from proxfl.research.reproduce.claims import JudgedClaim, found, in_words, judge, together, write
from proxfl.research.reproduce.settings import keep
from proxfl.storage.files import whole

# Each target is a module with draw(table), CLAIMS, FINDINGS, CAPTIONS of its figures,
# settings(quick) and compute(quick, folder), which tells how many parts its table has and makes
# them one by one; a long one keeps them in the folder.
TARGETS = {
    "fig1": "proxfl.research.reproduce.fig1",
    "fig2": "proxfl.research.reproduce.fig2",
    "fig3": "proxfl.research.reproduce.network",
    "theory": "proxfl.research.reproduce.exactness",
    "bounds": "proxfl.research.reproduce.bounds",
    "ablation": "proxfl.research.reproduce.ablation",
    "local-steps": "proxfl.research.reproduce.local_steps",
    "noise": "proxfl.research.reproduce.noise",
    "remarks": "proxfl.research.reproduce.remarks",
    "sites": "proxfl.research.real.prediction",
}

SUPERIORITY = (
    "the method is superior",
    "Abstract",
    "In the numerical experiments, we demonstrate the superiority of our algorithm over "
    "state-of-the-art methods on both synthetic and real datasets.",
)
COMPARISONS = (
    "tau = 10: FedDA only gets near",
    "tau = 10: the others are worse than FedDA",
    "stochastic gradients: the others are worse",
    "MNIST: higher accuracy with fewer rounds",
)


def reproduce(names: Sequence[str], out: Path, quick: bool, command: str) -> list[JudgedClaim]:
    """Every target's data, figures and claims under `out`, and one report over all of them.

    A target whose data are there already is not computed again, so an interrupted run goes on
    where it stopped; data of other settings are refused.
    """
    title = "The paper's experiments, run again" if set(names) != {"sites"} else "Real sites"
    page = Page(title, f"Made by: {command}")
    claims: list[JudgedClaim] = []
    besides: dict[str, Any] = {}
    for name in names:
        module: Any = importlib.import_module(TARGETS[name])
        frame = table(module, name, out / name, quick)
        forget_if_many()
        figures = module.draw(frame)
        save_figures(figures, out / name)
        judged = [judge(claim, frame) for claim in module.CLAIMS]
        more = found(module.FINDINGS, frame)
        section(page, name, module, figures, judged, more)
        claims, besides = claims + judged, besides | more
    if claims and len(names) > 1:
        by_name = {claim.name: claim for claim in claims}
        parts = {name: by_name.get(name) for name in COMPARISONS}
        claims.append(together(*SUPERIORITY, parts))
    write(claims, besides, out, command)
    page.section("How to reproduce")
    page.code(command)
    page.write(out / "report.html")
    return claims


def section(page: Page, name: str, module: Any, figures: Any, claims: Any, more: Any) -> None:
    """What one target shows, for the report."""
    about, *details = (module.__doc__ or "").strip().split("\n\n")
    page.section(f"{name}: {' '.join(about.split())}")
    for key, figure in figures.items():
        page.figure(figure, f"{key}. {module.CAPTIONS[key]}")
    rows = [[c.name, c.quote, c.rule, in_words(c.measured), c.verdict] for c in claims]
    if rows:
        page.table(["claim", "the paper", "rule", "measured", "verdict"], rows)
    if more:
        rows = [[key, in_words(one["measured"]), one["note"]] for key, one in more.items()]
        page.table(["found besides", "measured", "note"], rows)
    for paragraph in details:
        page.text(" ".join(paragraph.split()))


def table(module: Any, name: str, folder: Path, quick: bool) -> Frame:
    """The target's data: read if they are complete, else computed and written whole."""
    form = "-quick" if quick else ""
    path = folder / f"data{form}.csv"
    keep(folder / f"settings{form}.json", module.settings(quick), made=path.exists())
    if not path.exists():
        frames = []
        with progress(name, 1) as report:
            total, parts = module.compute(quick, folder)
            for frame in parts:
                frames.append(frame)
                report(len(frames), total=total)
        with whole(path) as file:
            pd.concat(frames, ignore_index=True).to_csv(file, index=False, float_format="%.4g")
    # Read back in either case: verdicts must come from what is on disk.
    frame = pd.read_csv(
        path, keep_default_na=False, na_values=["nan", "NaN", ""], dtype={"theorem": str}
    )
    return frame.fillna({"variant": ""})
