"""Federated data: generators with recipes, and partitions of pooled data."""

from proxfl.data.design import Design as Design
from proxfl.data.federated import FederatedData as FederatedData
from proxfl.data.partition import by_label as by_label
from proxfl.data.partition import by_size as by_size
from proxfl.data.partition import dirichlet as dirichlet
from proxfl.data.partition import hand_out as hand_out
from proxfl.data.partition import iid as iid
from proxfl.data.partition import lognormal as lognormal
from proxfl.data.partition import paper_mnist as paper_mnist
from proxfl.data.partition import power_law as power_law
from proxfl.data.synthetic import Scaling as Scaling
from proxfl.data.synthetic import synthetic as synthetic
from proxfl.data.truth import group_sparse as group_sparse
from proxfl.data.truth import lasso as lasso
from proxfl.data.truth import logistic as logistic
from proxfl.data.truth import low_rank as low_rank
from proxfl.data.truth import poisson as poisson
