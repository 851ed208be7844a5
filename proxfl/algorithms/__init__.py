"""The methods, one per file.

Left out: FedCanon (2025) and FedCEF (2026), of which only the abstracts were at hand. Two readings
of FedCanon differ in their fixed points; the idea of FedCEF is `Compressed` around Algorithm 1.
"""

from proxfl.algorithms.adaptive import Adaptive as Adaptive
from proxfl.algorithms.as_printed import AsPrinted as AsPrinted
from proxfl.algorithms.coupled import Coupled as Coupled
from proxfl.algorithms.decoupled import Decoupled as Decoupled
from proxfl.algorithms.decoupled_partial import DecoupledPartial as DecoupledPartial
from proxfl.algorithms.dp_spider import DPSpider as DPSpider
from proxfl.algorithms.fast_fedda import FastFedDA as FastFedDA
from proxfl.algorithms.fedadmm import FedADMM as FedADMM
from proxfl.algorithms.fedavg import FedAvg as FedAvg
from proxfl.algorithms.fedda import FedDA as FedDA
from proxfl.algorithms.feddr import FedDR as FedDR
from proxfl.algorithms.fedmid import FedMid as FedMid
from proxfl.algorithms.fedmspp import FedMSPP as FedMSPP
from proxfl.algorithms.fedpd import FedPD as FedPD
from proxfl.algorithms.fedprox import FedProx as FedProx
from proxfl.algorithms.fedsplit import FedSplit as FedSplit
from proxfl.algorithms.mime import Mime as Mime
from proxfl.algorithms.mimelite import MimeLite as MimeLite
from proxfl.algorithms.proximal_gradient import ProximalGradient as ProximalGradient
from proxfl.algorithms.proxskip import ProxSkip as ProxSkip
from proxfl.algorithms.scaffold import Scaffold as Scaffold
from proxfl.algorithms.wrappers.accelerated import Accelerated as Accelerated
from proxfl.algorithms.wrappers.accelerated_partial import AcceleratedPartial as AcceleratedPartial
from proxfl.algorithms.wrappers.compressed import Compressed as Compressed
from proxfl.algorithms.wrappers.compressors import Quantised as Quantised
from proxfl.algorithms.wrappers.compressors import RandomK as RandomK
from proxfl.algorithms.wrappers.compressors import TopK as TopK
from proxfl.algorithms.wrappers.private import Private as Private
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
    "fedprox": FedProx,
    "fedmspp": FedMSPP,
    "scaffold": Scaffold,
    "mime": Mime,
    "mimelite": MimeLite,
    "fedsplit": FedSplit,
    "fedpd": FedPD,
    "feddr": FedDR,
    "fedadmm": FedADMM,
    "proxskip": ProxSkip,
    "dp-spider": DPSpider,
    "proximal-gradient": ProximalGradient,
    "adaptive": Adaptive,
}
