"""Draws of a site's rows, from which intervals are made, that nobody else can repeat.

In a draw a row counts 0, 1, 2, ... times by Poisson's law of mean 1, on its own (the Poisson
bootstrap). Were draws by a seed that is known, who has the counts of a narrow cell in each of them
would know which row of which site is in it, also from the sums over all sites. And were they of as
many rows each, as over files, the counts of a site's rows would add up to that number in every
draw, which shows which rows are of one site.
"""

import hashlib
import math

import numpy as np

from proxfl.deploy.site.office import Office
from proxfl.train.evaluate import Draw

TIMES = 20  # that a row is drawn at most: more have a chance of 2e-19
UP_TO = np.cumsum([math.exp(-1) / math.factorial(k) for k in range(TIMES)])


def secret_draws(office: Office, study: str) -> Draw:
    """The draws of a study, by the site's secret: those that are asked for again are the same."""

    def draw(rows: int, number: int) -> np.ndarray:
        key = office.key(f"draw {number} of study {study}")
        uniform = np.frombuffer(hashlib.shake_256(key).digest(8 * rows), "<u8") * 2.0**-64
        return np.searchsorted(UP_TO, uniform, side="right").astype(float)

    return draw
