"""Draw a round of Algorithm 1 into docs/figures/algorithm.svg."""

from pathlib import Path

import matplotlib
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from proxfl.drawing.plots import COLOURS, STYLE


def box(ax, x, y, width, height, title, lines, colour):
    patch = FancyBboxPatch(
        (x, y), width, height, boxstyle="round,pad=0.02", facecolor="white", edgecolor=colour
    )
    ax.add_patch(patch)
    ax.text(x + 0.02, y + height - 0.02, title, va="top", weight="bold", color=colour)
    ax.text(x + 0.02, y + height - 0.16, "\n".join(lines), va="top", linespacing=1.75)


def arrow(ax, start, end, text, place, colour):
    style = dict(arrowstyle="-|>", mutation_scale=14, linewidth=1.6, color=colour)
    ax.add_patch(FancyArrowPatch(start, end, **style))
    ax.text(*place, text, color=colour, ha="center")


def draw() -> Figure:
    figure = Figure(figsize=(8.2, 3.0))
    ax = figure.subplots()
    ax.set_axis_off()
    ax.set(xlim=(0, 1.6), ylim=(0, 1))
    server = [
        r"keeps $x$, the model before the prox",
        r"$p = P(x, R)$ is the model it reports",
        r"$x \leftarrow p + \eta_g \, \mathrm{mean}_i\, u_i$",
    ]
    client = [
        r"remembers where it started and its mean gradient",
        r"$c_i = (\mathrm{start} - x)/R - \mathrm{mean\ gradient}$",
        r"start at $p = P(x, R)$; then $\tau$ times, with two models:",
        r"   $\hat z \leftarrow \hat z - \eta\,(\nabla f_i(z) + c_i)$    before the prox",
        r"   $z \leftarrow P(\hat z,\ (t+1)\,\eta)$    after it",
        r"$u_i = -\eta \sum_t \nabla f_i(z_t)$",
    ]
    box(ax, 0.03, 0.27, 0.52, 0.5, "Server", server, COLOURS[1])
    box(ax, 0.83, 0.07, 0.74, 0.86, "Client i   (its data stay here)", client, COLOURS[3])
    arrow(ax, (0.58, 0.62), (0.81, 0.62), r"$x$", (0.695, 0.65), COLOURS[1])
    arrow(ax, (0.81, 0.4), (0.58, 0.4), r"$u_i$", (0.695, 0.43), COLOURS[3])
    ax.text(0.695, 0.51, "one vector\neach way", ha="center", va="center", color="0.35")
    ax.text(
        0.03, 0.06, r"$R = \eta\,\eta_g\,\tau$,   $P(x, s)$: the proximal step of $g$", color="0.35"
    )
    return figure


if __name__ == "__main__":
    path = Path(__file__).parent.parent / "figures" / "algorithm.svg"
    path.parent.mkdir(exist_ok=True)
    with matplotlib.rc_context(STYLE | {"svg.fonttype": "path"}):
        figure = draw()
        figure.savefig(path, metadata={"Date": None}, bbox_inches="tight")
