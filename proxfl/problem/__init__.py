"""What is minimised: a loss and a regulariser, known to all, over rows that are private.

`Problem` is public; a `Shard` is one client's examples, and stacked shards are a federation.
"""

from proxfl.problem.problem import Problem as Problem
from proxfl.problem.shards import Shard as Shard
from proxfl.problem.shards import client_weights as client_weights
from proxfl.problem.shards import relative_weights as relative_weights
from proxfl.problem.shards import shards_of as shards_of
from proxfl.problem.shards import stack as stack
