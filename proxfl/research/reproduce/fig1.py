"""Figure 1: sparse logistic regression with full gradients, tau = 1 and tau = 10.

The paper gives n = 30, d = 20, m_i = 100, theta = 0.003, (alpha, beta) = (50, 50) and the steps,
but not how features were scaled, which label rule was used, for how many rounds, or which seeds.
Two forms stand in for it.

The form "paper" has its own numbers. Rows have length one and are then scaled so that the mean
loss has smoothness L; L is the smallest of a fixed grid at which more than half of 20 draws have a
solution other than zero (|grad f(0)|_inf > theta). Draws whose solution is zero are left out and
counted.

The form "calibrated" has the same data in units that scaling cannot change: theta is half the
smallest weight that makes the solution zero, and eta_round is 0.2 / L at tau = 1, so 2 / L at
tau = 10 with the same eta, as in the paper; all 20 draws. Claims are judged by this form.

Optimality is the norm of the proximal gradient relative to that at the start, both with step 1 / L
for every method, where the paper takes each method's own eta_round.

Fast-FedDA comes in two forms. As its authors' code has it, the sum of models holds more terms than
the formula counts, which biases its limit; "corrected" counts as the formula does.
"""

import pandas as pd
from matplotlib.figure import Figure

from proxfl.drawing import plots
from proxfl.drawing.plots import Frame
from proxfl.research.reproduce.claims import BANDS, EXACT, PRECISE, Claim, Finding
from proxfl.research.reproduce.fig1_runs import FAST, METHODS, ROUNDS, D, drawn, main_variants
from proxfl.research.reproduce.fig1_runs import compute as compute
from proxfl.research.reproduce.fig1_runs import settings as settings
from proxfl.research.runs import best_variant, curves, final, rounds_to, where
from proxfl.research.styles import styles

PANELS = ("panel", "tau")
ABOUT = (
    f"{BANDS} Fast-FedDA as its authors' code has it, and corrected; each at the best of three μ."
)
CAPTIONS = {
    "fig1-paper": f"With the paper's own numbers. {ABOUT}",
    "fig1-calibrated": f"ϑ and steps in units that scaling cannot change. {ABOUT}",
}


def draw(frame: Frame) -> dict[str, Figure]:
    # Other rows are of single draws, and a median over draws needs all of them.
    figures, shown = {}, main_variants(frame[drawn(frame)], PANELS)
    for panel in ("paper", "calibrated"):
        figure, axes = plots.panels(2, height=3.6)
        for ax, tau in zip(axes, ROUNDS, strict=True):
            part = where(shown, panel=panel, tau=tau)
            title = f"Full gradients, $\\tau$ = {tau} ({part.seed.nunique()} draws)"
            curves(ax, part, styles(METHODS), title)
        plots.legend_below(figure, axes, 5)
        figures[f"fig1-{panel}"] = figure
    return figures


def ends(frame: Frame, tau: int, method: str, variant: str | None = None) -> Frame:
    """Final optimality by draw in the calibrated form; Fast-FedDA at its best mu."""
    part = where(frame, panel="calibrated", tau=tau, method=method)
    if method in FAST:
        return final(best_variant(part))
    return final(where(part, variant=variant or ""))


def at_the_end(tau: int, *names: str):
    """Quantities of a claim: the final optimality of each method."""
    return lambda frame: pd.DataFrame({name: ends(frame, tau, name) for name in names})


def same_curve(frame: Frame) -> Frame:
    """FedDA against Algorithm 1 at tau = 1: the largest difference, and the ratio of rounds."""
    one = where(frame, panel="calibrated", tau=1, variant="")
    ours, dual = where(one, method="Algorithm 1"), where(one, method="FedDA")
    tables = [
        rows.pivot_table(index="round", columns="seed", values="optimality")
        for rows in (ours, dual)
    ]
    gap = (tables[0] - tables[1]).abs() / tables[0].clip(lower=EXACT)
    return pd.DataFrame(
        {
            "largest relative difference of the curves": gap.max(),
            "rounds to 1e-3, FedDA over Algorithm 1": rounds_to(dual, 1e-3) / rounds_to(ours, 1e-3),
        }
    )


def by_tau(frame: Frame) -> Frame:
    """Algorithm 1's rounds at tau = 1 over those at tau = 10, at the same eta."""
    part = where(frame, panel="calibrated", method="Algorithm 1", variant="")
    one, ten = (rounds_to(where(part, tau=tau), 1e-2) for tau in ROUNDS)
    shown = where(main_variants(frame, PANELS), panel="calibrated", tau=10)
    others = [rounds_to(where(shown, method=name), 1e-2) for name in METHODS[1:]]
    best = pd.concat(others, axis=1).min(axis=1)
    return pd.DataFrame(
        {"rounds at tau = 1 over rounds at tau = 10": one / ten, "ours": ten, "best other": best}
    )


def nonzeros(frame: Frame) -> Frame:
    """At FedMid's end: clients' models after a round's local steps, their mean, and a solution."""
    part = where(frame, panel="calibrated", tau=10)
    # Without a server prox the mean of the clients' models is all that the server makes of them.
    averaging = where(part, method="FedMid", variant="no server prox")
    return pd.DataFrame(
        {
            "clients' own": final(averaging, "clients_nonzeros"),
            "their mean": final(averaging, "mean_nonzeros"),
            "Algorithm 1": final(where(part, method="Algorithm 1", variant=""), "nonzeros"),
        }
    )


FIRST = "Section 4.1, first experiment"
CLAIMS = (
    Claim(
        "tau = 1: both converge to machine precision",
        FIRST,
        r"Both FedDA and our algorithm converge to machine precision.",
        "optimality at the last round (20,000) at tau = 1",
        f"in a draw, both end at or below {PRECISE:.1e}: the rounding of a sum over 20,000 rounds",
        at_the_end(1, "Algorithm 1", "FedDA"),
        lambda q: {name: q[name] <= PRECISE for name in q},
        "Draws differ in conditioning by orders of magnitude; the slowest are still falling.",
    ),
    Claim(
        "tau = 1: exactly the same rate",
        FIRST,
        r"The same step size setting ensures that both algorithms converge at exactly the same "
        r"rate.",
        "the two curves of optimality at tau = 1",
        f"in a draw, the curves differ nowhere above {EXACT:g} by more than a thousandth (data "
        "have four digits); the rate is the same if rounds to 1e-3 differ by less than 1 %",
        same_curve,
        lambda q: {
            "the same curve": q.iloc[:, 0] <= 1e-3,
            "the same rate": (q.iloc[:, 1] - 1).abs() < 0.01,
        },
        "Dual averaging and proximal gradient agree as long as no coordinate leaves zero late.",
    ),
    Claim(
        "tau = 1: FedMid performs the worst",
        FIRST,
        r"FedMid performs the worst because it faces the curse of primal averaging.",
        "final optimality at tau = 1",
        "in a draw, FedMid ends above each of the others; and without the server's prox, where "
        "averaging is all that is left, it still has more than half of its error",
        lambda frame: at_the_end(1, *METHODS)(frame).assign(
            **{"FedMid, no server prox": ends(frame, 1, "FedMid", "no server prox")}
        ),
        lambda q: {
            "the worst": q["FedMid"] > q[[m for m in METHODS if m != "FedMid"]].max(axis=1),
            "because of averaging": q["FedMid, no server prox"] > q["FedMid"] / 2,
        },
        "Its regulariser acts twice a round, at the clients and at the server.",
    ),
    Claim(
        "FedMid: averaging destroys sparsity",
        "Section 1",
        r"Even if each client generates a sparse local model after the local updates, averaging "
        r"these local models at the server usually leads to a solution that is no longer sparse.",
        "non-zeros of the clients' own models after the local steps of the last round at tau = 10, "
        "mean over clients, and of the mean of those models, of 20; FedMid without a server prox",
        "in a draw, the mean has more non-zeros than the models it is of; it is not sparse, more "
        "than half of it being non-zero; and the clients' models are, at most half",
        nonzeros,
        lambda q: {
            "averaging adds": q["their mean"] > q["clients' own"],
            "the mean is dense": q["their mean"] > D / 2,
            "clients' models are sparse": q["clients' own"] <= D / 2,
        },
        "A model counts as sparse if at most half of it is non-zero. Clients start a round from "
        "the mean, which is dense, and ten steps do not make their own models sparse again.",
    ),
    Claim(
        "FedMid: smaller steps are better",
        FIRST,
        "For FedMid, we use η = 1 and η_g = 5, based on the observation that smaller step "
        r"sizes yield better performance.",
        "FedMid's final optimality at tau = 10: at Algorithm 1's steps, at the paper's (eta 4 and "
        "eta_g 3 times shorter), and at eta 10 times shorter still",
        "in a draw, each shortening ends lower",
        lambda frame: pd.DataFrame(
            {
                variant or "the paper's steps": ends(frame, 10, "FedMid", variant)
                for variant in ("Algorithm 1's steps", "", "steps 10 times shorter")
            }
        ),
        lambda q: {
            "the paper's": q.iloc[:, 1] < q.iloc[:, 0],
            "shorter still": q.iloc[:, 2] < q.iloc[:, 1],
        },
    ),
    Claim(
        "Fast-FedDA converges slowly",
        FIRST,
        r"Fast-FedDA converges slowly due to its decaying step sizes.",
        "final optimality at tau = 1, at the best of three mu",
        "in a draw, it ends ten times above Algorithm 1, in both of its forms; one order of "
        "magnitude, since both use the same gradients",
        at_the_end(1, "Algorithm 1", *FAST),
        lambda q: {name: q[name] > 10 * q["Algorithm 1"].clip(lower=PRECISE) for name in FAST},
        "As published it stalls at a level proportional to mu, a bias of the code's count of "
        "models and not of decaying steps: with the count corrected the same steps go on falling.",
    ),
    Claim(
        "tau = 10: precise convergence",
        FIRST,
        r"Our algorithm still achieves precise convergence and requires fewer communication rounds "
        r"(roughly reduced by 1/τ) than the others.",
        "Algorithm 1 at tau = 10: final optimality, rounds to 1e-2, and those at tau = 1 with the "
        "same eta over them",
        f"in a draw, it ends at or below {EXACT:g}; needs fewer rounds to 1e-2 than any other "
        "method; and tau = 10 saves a factor of 5 to 20",
        lambda frame: by_tau(frame).assign(final=ends(frame, 10, "Algorithm 1")),
        lambda q: {
            "precise": q["final"] <= EXACT,
            "fewer rounds than the others": q["ours"] < q["best other"],
            "by a factor tau": q.iloc[:, 0].between(5, 20),
        },
        "At the same eta, tau = 10 has a ten times longer eta_round, which is where the saving "
        "comes from; see the claim on local updates for steps tuned per tau.",
    ),
    Claim(
        "no residual in B_g",
        "Section 4.1, first experiment; Remark 3.8",
        r"Although our theoretical results suggest the existence of a residual determined by B_g "
        r"(the subgradient bound), our experimental results do not show any such error, "
        r"indicating that there is the possibility to improve the analysis.",
        "final optimality at tau = 10",
        f"in a draw, it ends at or below {EXACT:g}",
        at_the_end(10, "Algorithm 1"),
        lambda q: {"none": q["Algorithm 1"] <= EXACT},
    ),
    Claim(
        "tau = 10: FedDA only gets near",
        FIRST,
        r"FedDA, due to client drift, only converges to a neighborhood of the first-order "
        r"stationary points and can no longer maintain a similar performance as our algorithm.",
        "final optimality at tau = 10, and FedDA's halfway through",
        "in a draw, FedDA has stopped falling (less than a tenth in the second half) and ends ten "
        "times above Algorithm 1",
        lambda frame: at_the_end(10, "Algorithm 1", "FedDA")(frame).assign(halfway=halfway(frame)),
        lambda q: {
            "has stopped": q["FedDA"] > 0.9 * q["halfway"],
            "worse": q["FedDA"] > 10 * q["Algorithm 1"].clip(lower=PRECISE),
        },
    ),
    Claim(
        "tau = 10: the others are worse than FedDA",
        FIRST,
        r"FedDA and FedMid perform even worse due to client drift.",
        "final optimality at tau = 10, Fast-FedDA at the best of three mu",
        "in a draw, each ends above FedDA; the sentence follows one on FedDA, so that Fast-FedDA "
        "must be meant where it says FedDA",
        at_the_end(10, "FedDA", "FedMid", *FAST),
        lambda q: {name: q[name] > q["FedDA"] for name in ("FedMid", *FAST)},
    ),
    Claim(
        "FedDA is the best of those compared",
        "Section 4.2",
        r"We compare the proposed algorithm with FedDA which performs best among all compared "
        r"algorithms in previous experiments.",
        "final optimality at tau = 1 and tau = 10",
        "in a draw, FedDA ends at or below FedMid and both forms of Fast-FedDA, or all have "
        f"converged to {PRECISE:.1e}",
        lambda frame: pd.DataFrame(
            {
                f"{name}, tau = {tau}": ends(frame, tau, name)
                for tau in ROUNDS
                for name in METHODS[1:]
            }
        ),
        lambda q: {
            f"tau = {tau}": q[f"FedDA, tau = {tau}"]
            <= q[[f"{name}, tau = {tau}" for name in METHODS[2:]]].min(axis=1).clip(lower=PRECISE)
            for tau in (1, 10)
        },
    ),
)


def halfway(frame: Frame) -> Frame:
    """FedDA's optimality in the middle of the run at tau = 10."""
    rows = where(frame, panel="calibrated", tau=10, method="FedDA")
    return final(rows[rows["round"] <= rows["round"].max() / 2])


def literal(frame: Frame) -> Frame:
    """Algorithm 1's end with the paper's own numbers."""
    part = where(frame, panel="paper", method="Algorithm 1", variant="")
    ends = pd.DataFrame({f"tau = {tau}": final(where(part, tau=tau)) for tau in ROUNDS})
    above = {f"draws above {EXACT:g}, {name}": (ends[name] > EXACT).sum() for name in ends}
    return ends.assign(**above)


FINDINGS = (
    Finding(
        "With the paper's own numbers a draw can cycle",
        "Algorithm 1's final optimality in the form 'paper', and in how many draws it is not exact",
        literal,
        "At tau = 10, L eta_round is 3, where only 2 is safe: a draw that finds the zeros of the "
        "solution, on whose support L is far smaller, settles; another never does.",
    ),
    Finding(
        "Fast-FedDA's plateau as published is proportional to mu",
        "final optimality at tau = 1",
        lambda frame: pd.DataFrame(
            {
                f"{name}, {variant}": final(rows)
                for (name, variant), rows in frame[
                    (frame["panel"] == "calibrated")
                    & (frame["tau"] == 1)
                    & frame["method"].isin(FAST)
                ].groupby(["method", "variant"])
            }
        ),
    ),
    Finding(
        "FedMid applies its regulariser twice a round",
        "final optimality at tau = 1",
        lambda frame: pd.DataFrame(
            {
                variant or "as published": ends(frame, 1, "FedMid", variant)
                for variant in ("", "no server prox")
            }
        ),
        "Without the server's prox most of its error is gone.",
    ),
)
