"""Any method in a plain Flower app: a strategy for its server, and what its clients do.

`flwr run` and the rest of the app stay as they are; `pip install 'proxfl[flower]'`. Client memory
is in the context's state, so a node that loses its context cannot come back into a run: for sites
that restart, and for a server that does, there is `proxfl federate`.
"""

from proxfl.flower.client import Client as Client
from proxfl.flower.strategy import Strategy as Strategy
