"""Figure 3: a convolutional network on MNIST, Algorithm 1 against FedDA.

The settings and what the paper leaves open are in `fig3.py`, which computes the runs;
here are its figures and the claims judged by them. The second figure is an addition: the same at
larger theta, where the penalty removes most of the network.
"""

from pathlib import Path

from matplotlib.figure import Figure

from proxfl.drawing.plots import Frame
from proxfl.research.reproduce import fig3, fig3_figures
from proxfl.research.reproduce.claims import Claim, verdict
from proxfl.research.reproduce.traces import spread


def compute(quick: bool, report, folder: Path) -> Frame:
    """One row per run and observed round; finished runs are kept in the folder."""
    files, total = [], 4 if quick else 48
    for path in fig3.plan(folder / ("runs-quick" if quick else "runs"), quick=quick):
        files.append(path)
        report(len(files), total)
    return fig3.collect(files)


def draw(frame: Frame) -> dict[str, Figure]:
    return {"fig3": fig3_figures.draw(frame), "fig3-sparsity": fig3_figures.draw_sparsity(frame)}


def late(frame: Frame, column: str) -> Frame:
    """Each seed's median over the last tenth of the rounds: accuracy flickers with the batches."""
    part = frame[frame["round"] >= 0.9 * frame["round"].max()]
    return part.groupby("seed")[column].median()


def reached(frame: Frame, level: float) -> Frame:
    """Each seed's first round at or above an accuracy; infinite where it never got there."""
    first = frame[frame["accuracy"] >= level].groupby("seed")["round"].min()
    return first.reindex(sorted(frame["seed"].unique())).fillna(float("inf"))


def claims(frame: Frame) -> list[Claim]:
    paper = frame[frame["theta"] == fig3.PAPER_THETA]
    higher, sooner, words = [], [], []
    for tau, part in paper.groupby("tau"):
        ours, dual = (part[part["method"] == m] for m in fig3.METHODS)
        a, b = late(ours, "accuracy"), late(dual, "accuracy")
        level = float(b.median())
        first = [reached(rows, level) for rows in (ours, dual)]
        higher.append((a > b).mean())
        sooner.append((first[0] < first[1]).mean())
        words.append(
            f"tau = {tau}: {spread(a, '.4f')} against {spread(b, '.4f')}; first round at FedDA's "
            f"level: {spread(first[0], '.0f')} against {spread(first[1], '.0f')}"
        )
    least, most = min(higher + sooner), max(higher + sooner)
    parameters = round((frame["nonzeros"] / frame["density"]).iloc[0])
    sparse = frame[frame["round"] == frame["round"].max()]
    table = sparse.groupby(["method", "theta"])[["nonzeros", "accuracy"]].median()
    at = "; ".join(
        f"{method} at theta = {theta:g}: {row.nonzeros:.0f} and accuracy {row.accuracy:.3f}"
        for (method, theta), row in table.iterrows()
    )
    sparser = table.loc["FedDA"]["nonzeros"] < table.loc["Algorithm 1"]["nonzeros"]
    return [
        Claim(
            "MNIST: higher accuracy in fewer rounds",
            "Section 4.2",
            "At tau = 5 and tau = 10 the proposed algorithm achieves higher accuracy with fewer "
            "rounds than FedDA.",
            "test accuracy over the last tenth of the rounds, Algorithm 1 against FedDA; "
            + "; ".join(words),
            verdict(least == 1.0, most > 0.5),
        ),
        Claim(
            "MNIST: the l1 penalty gives a sparse network",
            "Section 4.2 (theta = 1e-4, reported here with larger weights beside it)",
            "The loss is regularised by theta |x|_1.",
            f"non-zeros at the end, of {parameters}, medians over tau and seeds: {at}. FedDA's "
            f"model is the sparser one at {int(sparser.sum())} of {len(sparser)} weights",
            verdict(bool(table["nonzeros"].min() < 0.5 * parameters), True),
        ),
    ]
