"""Every method again, as slow NumPy loops written from the equations; nothing shared with proxfl.

A method maps (gradients, prox, x0, rounds) to the list of models it reports after each round,
where `gradients[i](x)` is the full gradient of client i and `prox(x, step)` that of g. Where a
method draws at random, `counts[r]` stands for what it draws in round r.
"""

from tests.literal.accelerated import accelerated as accelerated
from tests.literal.adaptive import adaptive as adaptive
from tests.literal.base import Method as Method
from tests.literal.base import logistic_gradient as logistic_gradient
from tests.literal.base import soft as soft
from tests.literal.base import squared_gradient as squared_gradient
from tests.literal.compressed import compressed_decoupled as compressed_decoupled
from tests.literal.coupled import coupled as coupled
from tests.literal.decoupled import decoupled as decoupled
from tests.literal.dp_spider import dp_spider as dp_spider
from tests.literal.fast_fedda import fast_fedda as fast_fedda
from tests.literal.fedavg import fedavg as fedavg
from tests.literal.fedda import fedda as fedda
from tests.literal.fedmid import fedmid as fedmid
from tests.literal.fedmspp import fedmspp as fedmspp
from tests.literal.fedprox import fedprox as fedprox
from tests.literal.mime import mime as mime
from tests.literal.proximal_gradient import proximal_gradient as proximal_gradient
from tests.literal.proxskip import proxskip as proxskip
from tests.literal.scaffold import scaffold_one as scaffold_one
from tests.literal.scaffold import scaffold_two as scaffold_two
from tests.literal.splitting import fedadmm as fedadmm
from tests.literal.splitting import feddr as feddr
from tests.literal.splitting import fedpd as fedpd
from tests.literal.splitting import fedsplit as fedsplit
