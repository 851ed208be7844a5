"""Play a league: tune every entrant on draws of its own, then run it on others."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from proxfl.drawing.plots import Frame
from proxfl.engine.compiled import forget_if_many
from proxfl.engine.sweep import sweep
from proxfl.points import as_point, dtype
from proxfl.precision import precision
from proxfl.research.league.draws import Draw, draw_of
from proxfl.research.league.driven import driven, may_drive
from proxfl.research.league.entrants import Driven, Entrant
from proxfl.research.league.tuning import tune
from proxfl.research.league.work import work
from proxfl.research.shipped import Shipped
from proxfl.research.statistics import median_interval
from proxfl.storage.files import write_text

LEVELS = (1e-3, 1e-6, 1e-9)
EXACT = 1e-9  # optimality that only a method without bias reaches, where numbers can be as small
ROUNDING = 100  # units in the last place that a gradient's sum over hundreds of rows may be off
FALLS = 0.85  # what falls like one over the root of the exchanges falls by 0.82 in a third of a run
TUNING = 3  # draws that only tuning sees


class Entry(NamedTuple):
    """What an entrant did: per draw and exchange its optimality, and what it spent so far.

    Whatever gives such a table can take part, be it a method tuned and simulated here or a driver
    that decides for itself when to talk.
    """

    name: str
    table: Frame  # seed, exchange, optimality, nonzeros, bytes_up, bytes_down, gradients
    tuned: str = ""
    edge: str = ""


def play(
    entrants: Sequence[Entrant | Driven],
    problem: Callable[[int], Shipped],
    folder: Path,
    *,
    tau: int,
    rounds: int,
    seeds: int,
    report: Callable[..., None],
) -> list[dict[str, Any]]:
    """Tune on the first draws, then run the following ones with the tuned point.

    What an entrant showed is kept in the folder as soon as it is known, and not played again.
    """
    draws = [draw_of(problem(seed)) for seed in range(TUNING + seeds)]
    rounds = min(rounds, draws[0].most_rounds or rounds)
    able = [one for one in entrants if may_enter(one, draws[0], tau)]
    shown = []
    for done, entrant in enumerate(able):
        path = folder / f"{done}.json"
        if not path.exists():
            entry = played(entrant, draws[:TUNING], draws[TUNING:], tau, rounds)
            least = exact(dtype(as_point(draws[0].problem.x0)))
            kept = {"row": summary(entry, least), "curve": curve(entry).to_dict("list")}
            write_text(path, json.dumps(kept))
            forget_if_many()
        shown.append(json.loads(path.read_text()))
        report(done + 1, total=len(able), note=entrant.name)
    return shown


def played(
    entrant: Entrant | Driven, tuning: Sequence[Draw], draws: Sequence[Draw], tau: int, rounds: int
) -> Entry:
    if isinstance(entrant, Driven):
        return Entry(entrant.name, driven(entrant, draws, rounds))
    return simulated(entrant, tuning, draws, tau, rounds)


def may_enter(entrant: Entrant | Driven, draw: Draw, tau: int) -> bool:
    """Whether it solves this problem, and can do without clients that sit out."""
    if isinstance(entrant, Driven):
        return may_drive(entrant, draw)
    first = {axis.name: axis.values[0] for axis in entrant.grid}
    with precision(dtype(as_point(draw.problem.x0))):
        smooth = float(draw.problem.g.bound(draw.problem.x0)) == 0
    absent = draw.cohort is not None and entrant.make(first, draw.unit(tau)).needs_everyone
    return (entrant.uses_g or smooth) and not absent


def simulated(
    entrant: Entrant, tuning: Sequence[Draw], draws: Sequence[Draw], tau: int, rounds: int
) -> Entry:
    found = tune(entrant, tuning, tau, rounds)
    made = [entrant.make(found.point, draw.unit(tau)) for draw in draws]
    seen = sweep(
        made,
        [draw.problem for draw in draws],
        [draw.shards for draw in draws],
        rounds=rounds,
        every=1,
        observe=[draw.observe for draw in draws],
        seeds=list(range(len(draws))),
        cohort=draws[0].cohort,
        progress=False,
    )
    with precision(dtype(as_point(draws[0].problem.x0))):
        cost = work(made[0], draws[0].problem, draws[0].shards)
    told = ", ".join(f"{name} = {value:.3g}" for name, value in found.point.items())
    return Entry(entrant.name, spent(seen.history, cost), told, ", ".join(found.edge))


def spent(history: dict[str, Any], cost: Any) -> Frame:
    """A row per draw and round, with what a client had spent by then."""
    frames = []
    for seed, (residual, nonzeros) in enumerate(
        zip(history["optimality"], history["nonzeros"], strict=True)
    ):
        rounds = np.arange(len(residual))
        frames.append(
            pd.DataFrame(
                {
                    "seed": seed,
                    "exchange": rounds * cost.exchanges,
                    "optimality": np.nan_to_num(residual, nan=np.inf, posinf=np.inf),
                    "nonzeros": nonzeros,
                    "bytes_up": rounds * cost.bytes_up,
                    "bytes_down": rounds * cost.bytes_down,
                    "gradients": rounds * cost.gradients,
                }
            )
        )
    return pd.concat(frames, ignore_index=True)


COSTS = {"exchanges": "exchange", "bytes up": "bytes_up", "bytes down": "bytes_down"}
COSTS |= {"gradients": "gradients"}


def exact(kind: Any) -> float:
    """What optimality says that a method is exact, in numbers of this type."""
    return max(EXACT, ROUNDING * float(np.finfo(kind).eps))


def summary(entry: Entry, least: float) -> dict[str, Any]:
    """The line as it is printed: medians over draws, with intervals where they rank."""
    table = entry.table
    last = table.groupby("seed").last()
    middle, low, high = median_interval(plateau(table))
    row: dict[str, Any] = {"method": entry.name, "verdict": judge(middle, least, curve(entry))}
    row |= {"exact below": least}
    row |= {"final optimality": middle, "final low": low, "final high": high}
    for level in LEVELS:
        there = table[table["optimality"] <= level].groupby("seed").first()
        there = there.reindex(last.index).fillna(np.inf)
        for words, column in COSTS.items():
            middle, low, high = median_interval(there[column])
            row[f"{words} to {level:.0e}"] = middle
            if column == "exchange":
                row[f"low to {level:.0e}"], row[f"high to {level:.0e}"] = low, high
    row["nonzeros"] = float(last["nonzeros"].median())
    return row | {"tuned": entry.tuned, "at grid edge": entry.edge}


def plateau(table: Frame) -> Frame:
    """Each draw's root mean square optimality in the last tenth of its exchanges."""
    late = table[table["exchange"] >= 0.9 * table["exchange"].max()]
    return (late["optimality"] ** 2).groupby(late["seed"]).mean() ** 0.5


def judge(end: float, least: float, seen: Frame) -> str:
    """exact, slow (still falling), stalled above the level of exactness, or diverged."""
    if not np.isfinite(end) or end > 2:
        return "diverged"
    if end <= least:
        return "exact"
    share = seen["exchange"] / seen["exchange"].max()
    mean = lambda rows: np.exp(np.log(seen["median"][rows]).mean())
    late, before = mean(share >= 0.8), mean(share.between(0.5, 0.7))
    return "slow" if late < FALLS * before else "stalled"


def curve(entry: Entry, points: int = 80) -> Frame:
    """For the figure: median and deciles over draws, at exchanges evenly spaced in logarithm."""
    table = entry.table.pivot_table(index="exchange", columns="seed", values="optimality")
    places = np.unique(np.geomspace(1, len(table), points).astype(int)) - 1
    shown = table.iloc[places]
    with np.errstate(invalid="ignore"):  # between two draws that diverged
        columns = {"low": shown.quantile(0.1, axis=1), "median": shown.median(axis=1)}
        columns["high"] = shown.quantile(0.9, axis=1)
    return pd.DataFrame({"method": entry.name, "exchange": shown.index} | columns)
