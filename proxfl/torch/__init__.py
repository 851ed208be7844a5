"""PyTorch modules as models: `pip install 'proxfl[torch]'`.

The module stays as it is, and so does its training loop's loss; algorithms, penalties and engines
do not notice that gradients come from elsewhere.
"""

from proxfl.torch.loss import TorchLoss as TorchLoss
from proxfl.torch.module import parameters as parameters
from proxfl.torch.module import write as write
