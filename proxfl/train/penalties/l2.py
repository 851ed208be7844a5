"""The ridge."""

from proxfl.prox import SquaredL2
from proxfl.prox.units import Curve
from proxfl.train.penalties.record import Penalty, times, weight

OPTION = weight("l2", "half the squared norm of coefficients")

PENALTY = Penalty(
    options=(OPTION,),
    make=lambda spec, features, outputs: SquaredL2(spec.l2),
    in_units=lambda g, unit: Curve(g.weight * unit**2),
    formula=lambda spec: f"{spec.l2:g}/2 |coef|^2",
    words=times(OPTION),
    is_constraint=False,
    sweep=None,  # no weight leaves the model empty
    desparsifies=False,
    by_coefficient=True,
)
