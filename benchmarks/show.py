"""`python -m benchmarks.show`: the table and figures over results/bench/*.json."""

import json
from pathlib import Path
from typing import Any

from benchmarks.run import OUT
from proxfl.drawing import plots
from proxfl.storage.files import write_text

UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"))


def duration(seconds: float) -> str:
    scale, unit = next((u for u in UNITS if seconds >= u[0]), UNITS[-1])
    return f"{seconds / scale:.3g} {unit}"


def lines(found: dict[str, Any]) -> list[str]:
    """A table of who took how long, then whatever else was measured."""
    about = found["machine"]
    told = [
        f"## {found['what']}",
        "",
        f"`{found['command']}` on {about['processor']}, {about['cores']} cores; "
        f"{about['device']}; JAX {about['jax']}.",
        "",
    ]
    for key in ("times", "a thousand clients"):
        if key not in found:
            continue
        told += [f"| {key} | median | quartiles | times ours |", "|---|---:|---:|---:|"]
        for name, row in found[key].items():
            if "failed" in row:
                told.append(f"| {name} | {row['failed']} | | |")
                continue
            low, high = map(duration, row["quartiles"])
            told.append(
                f"| {name} | {duration(row['seconds'])} | {low} to {high} "
                f"| {row['times_ours']:.3g} |"
            )
        told.append("")
    hidden = {"what", "command", "machine", "times", "a thousand clients"}
    tables = {key: rows for key, rows in found.items() if isinstance(rows, list)}
    hidden |= set(tables)
    told += [f"- {key}: {plain(value)}" for key, value in found.items() if key not in hidden]
    for rows in tables.values():
        names = list(rows[0])
        told += ["", "| " + " | ".join(names) + " |", "|---" * len(names) + "|"]
        cells = [[plain(row.get(name, "")) for name in names] for row in rows]
        told += ["| " + " | ".join(row) + " |" for row in cells]
    return [*told, ""]


def plain(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {plain(one)}" for key, one in value.items())
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def curve(points: list[dict[str, float]]) -> Any:
    figure, (ax,) = plots.panels(1, width=5.0)
    clients, seconds = ([p[key] for p in points] for key in ("clients", "seconds"))
    ax.plot(clients, seconds, "o-", color=plots.COLOURS[0], label="measured")
    ideal = [seconds[-1] * n / clients[-1] for n in clients]
    ax.plot(clients, ideal, "--", color=plots.COLOURS[1], label="in proportion to clients")
    plots.label(ax, "A round, by number of clients", "clients", "seconds", log="xy")
    return figure


def peers(everything: dict[str, dict[str, Any]]) -> Any:
    """How many times longer than ours each peer took, over all comparisons."""
    rows = [
        (f"{stem}{size}: {peer}", row["times_ours"])
        for stem, found in everything.items()
        for key, size in (("times", ""), ("a thousand clients", ", 1,000 clients"))
        for peer, row in list(found.get(key, {}).items())[1:]  # the first is ours
        if "times_ours" in row
    ]
    figure, (ax,) = plots.panels(1, width=8.0, height=0.6 + 0.28 * len(rows))
    names, values = zip(*reversed(rows), strict=True)
    ax.barh(names, [v - 1 for v in values], left=1.0, color=plots.COLOURS[1])
    plots.label(ax, "The same work by others", "times our seconds", "", log="x", legend=False)
    ax.axvline(1.0, color=plots.COLOURS[0])
    return figure


def main(folder: Path = OUT) -> None:
    told = ["# Benchmarks", "", "Made by `make bench` (and `make bench-gpu`).", ""]
    everything = {p.stem: json.loads(p.read_text()) for p in sorted(folder.glob("*.json"))}
    figures = {"peers": peers(everything)}
    for stem, found in everything.items():
        told += lines(found)
        if "points" in found:
            figures[stem] = curve(found["points"])
    plots.save_figures(figures, folder)
    write_text(folder / "table.md", "\n".join(told))
    print(f"Table: {folder / 'table.md'}")


if __name__ == "__main__":
    main()
