"""Regularisers g: each has a value, a prox, a distance to its subgradients and a bound on them."""

from proxfl.prox.directional import Directional as Directional
from proxfl.prox.folded import MCP as MCP
from proxfl.prox.folded import SCAD as SCAD
from proxfl.prox.groups import GroupL2 as GroupL2
from proxfl.prox.hinges import Relu as Relu
from proxfl.prox.leaves import OnLeaves as OnLeaves
from proxfl.prox.leaves import SumOverLeaves as SumOverLeaves
from proxfl.prox.matrices import Nuclear as Nuclear
from proxfl.prox.norms import L1 as L1
from proxfl.prox.norms import L2Norm as L2Norm
from proxfl.prox.norms import LInf as LInf
from proxfl.prox.norms import SquaredL2 as SquaredL2
from proxfl.prox.norms import Zero as Zero
from proxfl.prox.sets import Box as Box
from proxfl.prox.sets import L1Ball as L1Ball
from proxfl.prox.sets import L2Ball as L2Ball
from proxfl.prox.sets import LInfBall as LInfBall
from proxfl.prox.sets import NonNegative as NonNegative
from proxfl.prox.sets import Simplex as Simplex
from proxfl.prox.together import Then as Then
from proxfl.prox.together import together as together
from proxfl.prox.variation import TotalVariation as TotalVariation
from proxfl.prox.wrappers import Ridge as Ridge
from proxfl.prox.wrappers import Scaled as Scaled
from proxfl.prox.wrappers import Shifted as Shifted
from proxfl.prox.wrappers import elastic_net as elastic_net
