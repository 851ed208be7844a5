from .algorithms import AsPrinted as AsPrinted
from .algorithms import Coupled as Coupled
from .algorithms import Decoupled as Decoupled
from .algorithms import DecoupledPartial as DecoupledPartial
from .algorithms import FastFedDA as FastFedDA
from .algorithms import FedAvg as FedAvg
from .algorithms import FedDA as FedDA
from .algorithms import FedMid as FedMid
from .algorithms import ProximalGradient as ProximalGradient
from .checkpoint import load as load
from .checkpoint import save as save
from .core import Algorithm as Algorithm
from .core import Objective as Objective
from .core import Received as Received
from .core import Regulariser as Regulariser
from .core import Reply as Reply
from .measure import optimality as optimality
from .points import Tree as Tree
from .problem import Problem as Problem
from .problem import Shard as Shard
from .problem import shards_of as shards_of
from .result import DivergenceError as DivergenceError
from .result import Result as Result
from .rounds import Run as Run
from .rounds import start as start
from .simulation import simulate as simulate

__version__: str
