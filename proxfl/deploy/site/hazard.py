"""A site's hazard, told at so few times that no step of it is that of a few events.

A step is a sum over events of 1 / S, where S is a sum over the rows that are then at risk. Of steps
that are one event each, the difference between two S is that of the rows that left in between: of
one row often, which a server has by asking about as many models as there are features, and one.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from proxfl.problem import Problem, Shard

Task = Callable[[Problem, Shard, dict[str, Any]], dict[str, Any]]


def coarse(survival: Task, fewest: int) -> Task:
    """The same, known only at times between which there were so many events."""

    def task(problem: Problem, shard: Shard, question: dict[str, Any]) -> dict[str, Any]:
        told = dict(survival(problem, shard, question))
        _, y, *_ = shard.examples
        counted = np.asarray(y.event & (shard.row_weights(y.time.dtype) > 0), int)
        events = (np.asarray(y.time) <= np.asarray(told["times"])[:, None]) @ counted
        known, before = np.array(told["known"]), 0
        for k, number in enumerate(events.tolist()):
            known[k] &= k == 0 or number - before >= fewest
            before = number if known[k] else before
        return told | {"known": known, "hazard": np.where(known, told["hazard"], 0.0)}

    return task
