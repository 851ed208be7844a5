"""What a site will not do, whoever asks: its own rules, which its owner sets (`policy_file.py`).

Whoever runs the server chooses every study and every model a site is asked about, so what a server
may learn has its bounds here and nowhere else. SECURITY.md says what can be learnt within them.

A rule is one record: its key, values, default and reason, and what it objects to in a study. What
an objection tells the server holds no number of the data; the site's own log has more.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from proxfl.algorithms.accounting import composed
from proxfl.console.words import called
from proxfl.deploy.protocol.asks import ASKS
from proxfl.deploy.site.columns import apart_from_a_number, used_columns
from proxfl.deploy.site.guard import Shares, effective
from proxfl.deploy.site.proposal import Objection, Proposal
from proxfl.losses.targets import Label
from proxfl.options import Option, Options
from proxfl.options.kinds import (
    FLAG,
    NON_NEGATIVE_NUMBER,
    PROBABILITY,
    TEXTS,
    Kind,
    demand,
    real,
    texts,
    whole,
)
from proxfl.options.option import by_key
from proxfl.tables import Table
from proxfl.train.agreement import row_counts
from proxfl.train.spec import Spec, columns_of, declared, loss_of

MOST_CELLS = 20  # that a log names


class Policy(Options):
    """The rules with their values; `RULES` has the meaning of each."""

    @classmethod
    def table(cls) -> dict[str, Option]:
        return by_key(rule.option for rule in RULES)

    def check(self) -> None:
        """All values go together."""

    def questions(self, rows: int) -> int:
        """How many a study may ask, or all together that no person approved."""
        return int(self.questions_per_row * rows)

    def shares_for(self, about: Proposal) -> Shares:
        """The share of all rows, as one of those that count; and of these `count` at least, also
        in a batch. Products of gradients may hang on so few in an honest run: on `count`."""
        if not self.share:
            return Shares()
        some = about.spec.batch or math.inf
        held = [(len(w), max(int((w > 0).sum()), 1)) for w in about.weights]
        few = max(self.count / min(n, some) for _, n in held)
        return Shares(max(few, *(self.share * rows / n for rows, n in held)), few)

    def beyond(self, spent: float) -> str:
        """A sentence if this cost is more than may be spent, as `accounting.composed` has it."""
        epsilon = composed(spent, self.delta)
        if epsilon <= self.epsilon:
            return ""
        return (
            f"with all that it has answered, noised answers would come to epsilon {epsilon:.4g} at "
            f"delta {self.delta:g}, and its policy allows {self.epsilon:g}"
        )

    def objections(self, proposal: Proposal) -> Iterator[Objection]:
        for rule in RULES:
            if proposal.study.ask != "describe" or not rule.of_models:
                yield from rule.objects(self, proposal)


class Rule(NamedTuple):
    """One thing that a site's owner may set, and what studies it is against."""

    option: Option
    objects: Callable[[Policy, Proposal], Iterable[Objection]] = lambda policy, proposal: ()
    of_models: bool = False  # whether it is about what answers about models tell


def few_rows(policy: Policy, about: Proposal) -> Iterator[Objection]:
    rows = min(int((weights > 0).sum()) for weights in about.weights)
    if rows < policy.rows:
        each = "" if rows == about.table.rows else " in each fold, and without it; use fewer folds"
        found = f"there are {rows} rows that count"
        yield Objection(f"it takes part with {policy.rows} rows or more{each}", found)
    if (about.spec.batch or policy.rows) < policy.rows:
        yield Objection(
            f"a step on {about.spec.batch} rows tells of fewer than {policy.rows}; raise batch"
        )


def few_sites(policy: Policy, about: Proposal) -> Iterator[Objection]:
    if len(about.study.sites) < policy.sites:
        yield Objection(f"it takes part where {policy.sites} sites or more do")
    for other in about.before:
        apart = other.apart(about.company) if about.company else []
        if 0 < len(apart) < policy.sites:
            few = ", ".join(apart)
            yield Objection(
                f"what it would tell less what study {called(other.name)} told is of {few} alone, "
                "so that masks would hide it no longer; ask the same sites, or have a person there "
                "approve it",
                waits=True,
            )
            return
        if about.company and other.weighs_otherwise(about.company):
            yield Objection(
                f"in study {called(other.name)} the same sites count otherwise, so that both "
                "together would tell them apart; ask with the same weights, or have a person there "
                "approve it",
                waits=True,
            )
            return


def in_the_clear(policy: Policy, about: Proposal) -> Iterator[Objection]:
    if about.study.maskable and not about.study.masked and not policy.unmasked:
        yield Objection("it answers under masks only; leave unmasked out of the study")


def small_cells(policy: Policy, about: Proposal) -> Iterator[Objection]:
    each = (cell for part in about.parts for cell in cells(part, about.spec))
    fewest = policy.count * (1 - 1e-9)  # sums of floating-point numbers are compared with it
    found = [f"{n:.3g} {what}" for what, n in each if 0 < n < fewest]
    if found:
        where = "" if about.study.choice is None else " of a fold"
        yield Objection(
            "a label, a gap or an unusual value in some column is that of fewer than "
            f"{policy.count} rows{where}; join rare values, or leave columns out",
            f"there are {', '.join(found[:MOST_CELLS])}",
        )


def cells(table: Table, spec: Spec) -> Iterator[tuple[str, float]]:
    """The groups of rows that a study's numbers could be about, and how many of equal weight say
    as much as those in each."""
    target, weights = loss_of(spec).target, row_counts(table, spec)
    labels, strata = target.labels(table.y), target.strata(table.y)
    for label in labels:
        mine = strata == label  # a label is told by its name, too, where its rows do not count
        yield f"rows with the label {called(label)}", effective(weights[mine]) or float(mine.sum())
    for used in used_columns(table, spec):
        if used.values.dtype.kind != "f":
            continue  # text is a label, and none is missing
        missing, counts = np.isnan(used.values), used.counts(weights)
        yield f"rows without a value in column {called(used.name)}", effective(counts[missing])
        here = ~missing & (counts > 0)
        unusual = f"rows with other than the usual value in column {called(used.name)}"
        yield unusual, apart_from_a_number(used.values[here], counts[here])


def uneven_weights(policy: Policy, about: Proposal) -> Iterator[Objection]:
    for weights in about.weights:
        found, most = effective(weights), max(policy.count, policy.share * len(weights))
        if about.spec.row_weights is not None and found < most:
            yield Objection(
                "by the weights of its rows, few of them make up most of each sum; use other "
                "weights, or none",
                f"they say as much as {found:.3g} rows of equal weight",
            )
            return


def large_models(policy: Policy, about: Proposal) -> Iterator[Objection]:
    target = loss_of(about.spec).target
    known = declared(about.spec) if target.most else ()
    yield from large_with(policy, about, known or target.labels(about.table.y))


def large_with(policy: Policy, about: Proposal, classes: Sequence[Label]) -> Iterator[Objection]:
    """What there is against the model of a study if these are the classes of its target."""
    rows, columns = min(part.rows for part in about.parts), about.table.y[:1].size
    scores = loss_of(about.spec).target.outputs(columns_of(about.spec), columns, classes)
    outputs = max(len(classes), len(scores))
    yield from too_large(policy, rows, len(about.table.features), outputs)


def too_large(policy: Policy, rows: int, features: int, outputs: int) -> Iterator[Objection]:
    parameters, most = (features + 1) * outputs, policy.parameters_per_row * rows
    if parameters > most:
        sentence = f"a model of {parameters} parameters is too large for its rows"
        yield Objection(f"{sentence}; use fewer features", f"it may have {most:.0f}")


def kinked(policy: Policy, about: Proposal) -> Iterator[Objection]:
    if loss_of(about.spec).kinked and not policy.kinks:
        yield Objection(
            f"answers about the loss {about.spec.loss!r}, whose slope bends, tell single rows to "
            "whoever chooses the models; use another loss"
        )


def tells_hessians(policy: Policy, about: Proposal) -> Iterator[Objection]:
    if about.study.choice is not None and not policy.hessians:
        yield Objection("it tells no Hessian, which a path needs")
        return
    if about.spec.inference and not policy.hessians:
        yield Objection("it tells no Hessian, which inference needs; leave inference out")
    if about.spec.algorithm in ("auto", "newton") and not policy.hessians:
        yield Objection("it tells no Hessian; use the algorithm decoupled")


def other_columns(policy: Policy, about: Proposal) -> Iterator[Objection]:
    allowed = policy.columns or about.columns
    yield from withheld(c for c in about.columns if c not in allowed)


def excluded_columns(policy: Policy, about: Proposal) -> Iterator[Objection]:
    yield from withheld(c for c in about.columns if c in policy.exclude)


def withheld(columns: Iterable[str]) -> Iterator[Objection]:
    for column in columns:
        yield Objection(f"its column {called(column)} is not for studies; leave it out")


def many_studies(policy: Policy, about: Proposal) -> Iterator[Objection]:
    if about.seen >= policy.studies:
        yield Objection(f"it has looked at {policy.studies} studies, all that its policy allows")


def asked_enough(policy: Policy, about: Proposal) -> Iterator[Objection]:
    fewest, most = about.study.questions, policy.questions(about.table.rows)
    if fewest > most:
        yield Objection(
            f"a path of so many weights and folds asks {fewest} questions or more, which is more "
            "than it allows a table of its rows; use fewer points or folds",
            f"it allows {most}",
        )
    if about.asked >= policy.questions(about.table.rows):
        yield Objection(
            "the studies that no person approved have asked all that its policy allows",
            waits=True,
        )


def needs_a_person(policy: Policy, about: Proposal) -> Iterator[Objection]:
    if about.study.ask not in policy.automatic:
        yield Objection(f"a person there decides about studies that {about.study.ask}", waits=True)


def without_noise(policy: Policy, about: Proposal) -> Iterator[Objection]:
    noise = about.noise
    if noise is not None and (beyond := policy.beyond(about.spent + noise.rounds * noise.cost)):
        yield Objection(f"{beyond}; ask with more noise, or for fewer rounds")
    if noise is None and math.isfinite(policy.epsilon):
        yield Objection(
            "it answers with privacy noise only; give the study dp_clip, dp_epsilon and dp_delta"
        )


def little_noise(policy: Policy, about: Proposal) -> Iterator[Objection]:
    if about.noise is not None and about.noise.honest > policy.honest:
        yield Objection(
            f"its noise would be enough only where {about.noise.honest} sites add theirs, and it "
            f"relies on {policy.honest}, itself among them; lower dp_honest"
        )


def limit(value: Any) -> float:
    found = real(value)
    demand(found > 0)
    return found


def asks(value: Any) -> tuple[str, ...]:
    demand(set(found := texts(value)) <= set(ASKS))
    return found


LIMIT = Kind("a positive number, or inf", limit)
SOME_ASKS = Kind(f"a list of some of {', '.join(ASKS)}", asks)
RULES = (
    # A mean over few rows tells about each of them.
    Rule(Option("rows", whole(1), "the fewest rows of this site's table", 50), few_rows),
    # With two sites, each learns the other's part from the model they get.
    Rule(Option("sites", whole(1), "the fewest sites of a study, and between two", 3), few_sites),
    # Under masks the server learns sums over all sites, and cannot choose what it asks.
    Rule(
        Option("unmasked", FLAG, "whether this site's own answers may be asked, unmasked", False),
        in_the_clear,
    ),
    # Statistical offices publish no cell with fewer than 3 to 10 people. Here cells are the rows
    # with a label, with a missing value, or with other than a column's usual value: by a column
    # that is 0 but in one row, two gradients give that row away. Tables that differ in fewer rows
    # than this tell those rows by their difference.
    Rule(
        Option("count", whole(0), "the fewest rows behind any number, and between two tables", 5),
        small_cells,
        of_models=True,
    ),
    # A gradient has as many numbers as the model. With a third of the rows, a few gradients hold
    # as much as the table.
    Rule(
        Option(
            "parameters_per_row",
            NON_NEGATIVE_NUMBER,
            "the largest model, by this table's rows",
            0.33,
        ),
        large_models,
        of_models=True,
    ),
    # Differences of gradients weigh rows by the loss's second derivative; so many rows of equal
    # weight, (sum w)^2 / sum w^2, say as much. Models made to single rows out saturate the loss
    # everywhere else, and leave one row or none; honest ones leave a tenth or more. The size of
    # scores would not tell the two apart: honest ones reach a hundred where classes are far apart.
    # A weight of 0 takes a row out: the share is of all rows.
    Rule(
        Option("share", NON_NEGATIVE_NUMBER, "the share of rows behind every answer", 0.05),
        uneven_weights,
        of_models=True,
    ),
    # Fewer numbers than the table has, as long as answers are gradients. The server chooses the
    # studies, so those that no person approved share one such allowance.
    Rule(
        Option(
            "questions_per_row",
            NON_NEGATIVE_NUMBER,
            "the questions of a study that a person approved, and of all others together, by this "
            "table's rows",
            0.33,
        ),
        asked_enough,
    ),
    # What a study is declined for is a little that the server learns, too.
    Rule(Option("studies", whole(0), "the most studies that are looked at", 100), many_studies),
    # Sums over many rows bend where one row does, so three answers about models on a line tell it,
    # however many rows are behind them (`results/security/red_team.json`).
    Rule(
        Option("kinks", FLAG, "whether losses whose slope bends, as huber's, may be asked", False),
        kinked,
        of_models=True,
    ),
    # A Hessian holds second moments of all pairs of features: see SECURITY.md.
    Rule(Option("hessians", FLAG, "whether Hessians may be asked", True), tells_hessians, True),
    # What a row is promised is about all that its site has ever answered, so one budget is for all
    # studies, and one study without noise would make it worthless.
    Rule(
        Option(
            "epsilon",
            LIMIT,
            "the most that the noised answers to all studies may come to; unless it is inf, no "
            "study without noise is answered",
            math.inf,
        ),
        without_noise,
    ),
    Rule(Option("delta", PROBABILITY, "the delta of that epsilon", 1e-6)),
    # What masks promise rests on two honest members, too.
    Rule(
        Option("honest", whole(1), "the most sites whose noise together is to be enough", 2),
        little_noise,
    ),
    Rule(Option("columns", TEXTS, "the columns for studies; all, if empty", ()), other_columns),
    Rule(Option("exclude", TEXTS, "columns that are not for studies", ()), excluded_columns),
    Rule(
        Option(
            "automatic",
            SOME_ASKS,
            "the kinds of studies that need no person's approval",
            ("train",),
        ),
        needs_a_person,
    ),
)
