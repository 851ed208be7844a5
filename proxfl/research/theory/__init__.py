"""What is proven of Algorithm 1, for a problem at hand: the paper's theorems and ours."""

from proxfl.research.theory.constants import Constant as Constant
from proxfl.research.theory.constants import Constants as Constants
from proxfl.research.theory.constants import estimate as estimate
from proxfl.research.theory.constants import sample_variance as sample_variance
from proxfl.research.theory.exact import GradientNoise as GradientNoise
from proxfl.research.theory.exact import Setting as Setting
from proxfl.research.theory.exact import Start as Start
from proxfl.research.theory.exact import starting as starting
from proxfl.research.theory.local import Local as Local
from proxfl.research.theory.local import linearise as linearise
from proxfl.research.theory.paper import PRINTED_NOISE as PRINTED_NOISE
from proxfl.research.theory.paper import bound_35 as bound_35
from proxfl.research.theory.paper import bound_36 as bound_36
from proxfl.research.theory.paper import bound_37 as bound_37
from proxfl.research.theory.paper import descent_allowance as descent_allowance
from proxfl.research.theory.paper import noise_coefficient as noise_coefficient
from proxfl.research.theory.steps import StepCondition as StepCondition
from proxfl.research.theory.steps import StepProposal as StepProposal
from proxfl.research.theory.steps import conditions as conditions
from proxfl.research.theory.steps import propose as propose
from proxfl.research.theory.steps import steps_35 as steps_35
from proxfl.research.theory.steps import steps_37 as steps_37
