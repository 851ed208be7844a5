"""What binds every exchange of a study to all that came before it."""

from typing import NamedTuple

import numpy as np

from proxfl.deploy.masking.digests import digest


class Request(NamedTuple):
    """One question, the same bytes for all members; its digest names it."""

    study: bytes
    session: bytes
    step: int
    tip: bytes
    question: bytes  # the kind, its settings and the model asked about

    @property
    def digest(self) -> bytes:
        return digest("request", *self)


def first_tip(study: bytes, members: bytes) -> bytes:
    return digest("start", study, members)


def next_tip(tip: bytes, step: int, total: np.ndarray) -> bytes:
    """After the step whose sum this is, as words."""
    return digest("sum", tip, step, total.astype("<u8").tobytes())


def model_name(tip: bytes, model: bytes) -> bytes:
    """What members sign at the end: a model that all have followed."""
    return digest("model", tip, model)
