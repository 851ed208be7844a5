"""A red team against hazards: of two steps that are one event each, the rows that left in between.

A step is then 1 / S, S being the sum of exp(z) over the rows at risk; at scores of 0 it is seen
which steps are one event. Where one row has left between two, the difference of S is its own, and
the logarithm linear in it.
"""

import numpy as np


def leaving(attacker, length=0.5):
    """Guesses of rows, by one question for every feature, and one more."""
    models = [np.zeros(attacker.features), *(length * np.eye(attacker.features))]
    told = [attacker.task("survival", {"x": w}) for w in models]
    steps = [np.diff(found["['hazard']"][found["['known']"]]) for found in told]
    at_risk, *others = (1 / step[steps[0] > 0] for step in steps)
    single = np.flatnonzero(np.abs(at_risk - np.rint(at_risk)) < 1e-6)
    pairs = zip(single, single[1:], strict=False)
    one_left = [(i, k) for i, k in pairs if round(at_risk[i] - at_risk[k]) == 1]
    return np.array([[np.log(S[i] - S[k]) / length for S in others] for i, k in one_left])
