"""An interval for every coefficient."""

from proxfl.options import Option
from proxfl.options.kinds import INTERVAL, optional
from proxfl.prox import Box
from proxfl.train.penalties.record import Penalty

MEANING = "the interval that every coefficient must lie in"

PENALTY = Penalty(
    options=(Option("box", optional(INTERVAL), MEANING, None),),
    make=lambda spec, features, outputs: Box.of(*spec.box),
    in_units=lambda g, unit: Box.of(g.lo / unit, g.hi / unit),
    formula=lambda spec: f"{spec.box[0]:g} <= coef <= {spec.box[1]:g}",
    words=lambda spec: f"between {spec.box[0]:g} and {spec.box[1]:g}",
    is_constraint=True,
    sweep=None,
    desparsifies=False,
    by_coefficient=True,
)
