"""What a site sees to when it agrees with others: once in a study, on one table, in its bounds."""

import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from proxfl.deploy.protocol.wire import BadMessage
from proxfl.deploy.site.policy import too_large
from proxfl.deploy.site.seat import Seat
from proxfl.errors import InputError
from proxfl.storage.typed import misfit
from proxfl.train.agreement import Agreement

log = logging.getLogger("proxfl.deploy")


def told_as(question: Mapping[str, Any], name: str, kind: Any) -> Any:
    """What the server tells under a name, if it is of this type."""
    try:
        told = json.loads(str(question.get(name)))
    except (ValueError, RecursionError) as error:
        raise BadMessage(f"The {name} cannot be read.") from error
    if wrong := misfit(told, kind):
        raise BadMessage(f"The {name} cannot be read: {wrong}.")
    return told


def refuse_another(seat: Seat, before: Any, held: Any) -> None:
    """Refuse to agree to anything else than before, if there was a before."""
    if before and before != held:
        raise BadMessage(
            f"Site {seat.name} has agreed to something else in this study, or on other data; it "
            "agrees once. Resume, or begin another study."
        )


def refuse_other_data(seat: Seat, held: Mapping[str, Any]) -> None:
    """Refuse to go on with another table than the one that was agreed on."""
    if held["fingerprint"] != seat.fingerprint:
        raise BadMessage(
            f"Site {seat.name} holds other data than when it agreed; restore them, or begin "
            "another study."
        )


@contextmanager
def usable(seat: Seat, what: str) -> Iterator[None]:
    """Where something is made of what was agreed on: the server learns that it fails, not why,
    since the reason may tell of a row."""
    try:
        yield
    except (ValueError, TypeError) as error:
        log.warning("Site %s cannot use the agreement: %s", seat.name, error)
        raise BadMessage(
            f"The {what} not fit the table of site {seat.name}; its log says why."
        ) from error


def refuse_unsound(seat: Seat, agreement: Agreement) -> None:
    """Refuse features that a table does not have, numbers for them that cannot be, and a model
    that is too large by the site's policy."""
    features = agreement.features
    if sorted(features) != sorted(seat.table.features):
        raise InputError("It names other features than this table has.")
    for name in ("centre", "scale", "unit", "fill"):
        numbers = np.array(getattr(agreement, name), float)
        sound = numbers.shape == (len(features),) and np.isfinite(numbers).all()
        if not sound or (name in ("scale", "unit") and not (numbers > 0).all()):
            raise InputError(f"Its {name} is not one sound number for each feature.")
    size = (seat.table.rows, len(features), len(agreement.targets))
    for objection in too_large(seat.office.policy, *size):
        raise InputError(f"{objection.sentence}: {objection.detail}.")
