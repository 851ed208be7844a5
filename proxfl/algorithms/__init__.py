"""The methods, one per file."""

from proxfl.algorithms.as_printed import AsPrinted as AsPrinted
from proxfl.algorithms.coupled import Coupled as Coupled
from proxfl.algorithms.decoupled import Decoupled as Decoupled
from proxfl.algorithms.decoupled_partial import DecoupledPartial as DecoupledPartial
from proxfl.algorithms.fast_fedda import FastFedDA as FastFedDA
from proxfl.algorithms.fedavg import FedAvg as FedAvg
from proxfl.algorithms.fedda import FedDA as FedDA
from proxfl.algorithms.fedmid import FedMid as FedMid
from proxfl.algorithms.proximal_gradient import ProximalGradient as ProximalGradient
from proxfl.core import Algorithm

# The names the command line and files use.
REGISTRY: dict[str, type[Algorithm]] = {
    "decoupled": Decoupled,
    "decoupled-partial": DecoupledPartial,
    "as-printed": AsPrinted,
    "coupled": Coupled,
    "fedavg": FedAvg,
    "fedmid": FedMid,
    "fedda": FedDA,
    "fast-fedda": FastFedDA,
    "proximal-gradient": ProximalGradient,
}
