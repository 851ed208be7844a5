"""One colour, one marker and one line for each method, in every figure."""

from collections.abc import Iterable
from typing import Any

from proxfl.drawing.plots import COLOURS, MARKERS

BLACK, BLUE, RED, GREEN, PINK, ORANGE, SKY, GREY = COLOURS

# Methods of one family share a colour and differ in marker and line.
STYLES: dict[str, tuple[str, str, str]] = {
    "Algorithm 1": (BLACK, "o", "-"),
    "FedDA": (BLUE, "s", "-"),
    "FedMid": (RED, "^", "-"),
    "FedMid, no server prox": (RED, "v", "--"),
    "Fast-FedDA": (GREEN, "D", "-"),
    "Fast-FedDA, corrected": (GREEN, "d", "--"),
    "Algorithm 1, Anderson": (BLACK, "v", "--"),
    "Algorithm 1, Nesterov": (BLACK, "^", ":"),
    "Algorithm 1, top d/4 (EF21)": (GREY, "o", "-"),
    "Algorithm 1, 4 bits (EF21)": (GREY, "s", "--"),
    "proximal gradient": (SKY, "o", "-"),
    "accelerated proximal gradient, Anderson": (SKY, "v", "--"),
    "accelerated proximal gradient, Nesterov": (SKY, "^", ":"),
    "adaptive proximal gradient": (SKY, "P", "-."),
    "ProxSkip": (ORANGE, "X", "-"),
    "ProxSkip, random steps": (ORANGE, "*", ":"),
    "ProxSkip, Anderson": (ORANGE, "v", "--"),
    "FedDR (FedADMM, FedSplit)": (PINK, "s", "-"),
    "FedDR, top d/4 (EF21)": (PINK, "o", ":"),
    "FedDR": (PINK, "P", "-"),
    "FedADMM": (PINK, "v", "--"),
    "Mime + local prox": (BLUE, "*", "--"),
    "Mime + local prox, Anderson": (BLUE, "v", ":"),
    "FedMSPP": (RED, "X", ":"),
    "FedAvg": (GREEN, "s", ":"),
    "FedProx (FedExProx)": (GREEN, "P", "-."),
    "proximal Newton": (BLACK, "*", "-."),
    "proximal Newton on sets": (BLACK, "*", ":"),
    "Scaffold": (GREY, "D", ":"),
    "MimeLite, momentum 0.9": (GREY, "*", "-."),
}


# Variants of Algorithm 1, such as its settings, are shades of its black.
SHADES = (BLACK, "#6B6B6B", "#A8A8A8")

# What is no method, bounds on what is measured, has colours that no method has.
INDIGO, WINE = "#332288", "#882255"
BOUNDS: dict[str, dict[str, Any]] = {
    "our bound": {"color": INDIGO, "linestyle": "-"},
    "the paper's bound, as printed": {"color": WINE, "linestyle": "--"},
    "the paper's, noise redone": {"color": WINE, "linestyle": ":"},
}


def style(name: str) -> dict[str, Any]:
    """What a line of this method is drawn with."""
    colour, marker, line = STYLES[name]
    return {"color": colour, "marker": marker, "linestyle": line}


def styles(names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """The same of several methods, by name."""
    return {name: style(name) for name in names}


def variant(index: int) -> dict[str, Any]:
    """What a line of a variant of Algorithm 1 is drawn with."""
    line = ("-", "--")[index // len(SHADES) % 2]
    return {"color": SHADES[index % len(SHADES)], "marker": MARKERS[index], "linestyle": line}
