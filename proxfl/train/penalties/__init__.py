"""Options for penalties, one record per file; `add-penalty.md` brings one from outside."""

# ruff: noqa: F401, I001  # importing a record enters it, in the order of help and formulas
from proxfl.train.penalties.record import REGISTRY as REGISTRY
from proxfl.train.penalties.record import Penalty as Penalty
from proxfl.train.penalties.record import Sweep as Sweep
from proxfl.train.penalties.record import chosen as chosen
from proxfl.train.penalties.record import swept as swept
from proxfl.train.penalties.record import times as times
from proxfl.train.penalties.record import weight as weight
from proxfl.train.penalties import l1
from proxfl.train.penalties import groups
from proxfl.train.penalties import elastic_net
from proxfl.train.penalties import nuclear
from proxfl.train.penalties import l2
from proxfl.train.penalties import nonneg
from proxfl.train.penalties import box
from proxfl.train.penalties import simplex
