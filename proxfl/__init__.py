"""ProxFL: composite federated learning, for models that are sparse, low-rank or constrained."""

from proxfl.algorithms import AsPrinted as AsPrinted
from proxfl.algorithms import Coupled as Coupled
from proxfl.algorithms import Decoupled as Decoupled
from proxfl.algorithms import DecoupledPartial as DecoupledPartial
from proxfl.algorithms import FastFedDA as FastFedDA
from proxfl.algorithms import FedAvg as FedAvg
from proxfl.algorithms import FedDA as FedDA
from proxfl.algorithms import FedMid as FedMid
from proxfl.algorithms import ProximalGradient as ProximalGradient
from proxfl.checkpoint import load as load
from proxfl.checkpoint import save as save
from proxfl.core import Algorithm as Algorithm
from proxfl.core import Objective as Objective
from proxfl.core import Received as Received
from proxfl.core import Regulariser as Regulariser
from proxfl.core import Reply as Reply
from proxfl.measure import optimality as optimality
from proxfl.points import Tree as Tree
from proxfl.problem import Problem as Problem
from proxfl.problem import Shard as Shard
from proxfl.problem import shards_of as shards_of
from proxfl.result import DivergenceError as DivergenceError
from proxfl.result import Result as Result
from proxfl.rounds import Run as Run
from proxfl.rounds import start as start
from proxfl.simulate import simulate as simulate

__version__ = "0.1.0"
