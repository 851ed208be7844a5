"""Losses, one per file; `add-loss.md` in the documentation brings one from outside."""

# ruff: noqa: I001  # the order in which help lists them
from proxfl.losses.linear import REGISTRY as REGISTRY
from proxfl.losses.base import Autodiff as Autodiff
from proxfl.losses.linear import Coefficients as Coefficients
from proxfl.losses.rowwise import Convex as Convex
from proxfl.losses.linear import Linear as Linear
from proxfl.losses.base import Loss as Loss
from proxfl.losses.rowwise import Rowwise as Rowwise
from proxfl.losses.base import RowLoss as RowLoss
from proxfl.losses.base import SiteLoss as SiteLoss
from proxfl.losses.base import as_loss as as_loss
from proxfl.losses.base import features_of as features_of
from proxfl.losses.linear import augmented as augmented
from proxfl.losses.linear import coef_of as coef_of
from proxfl.losses.linear import scores_at as scores_at
from proxfl.losses.linear import setting as setting
from proxfl.losses.logistic import Logistic as Logistic
from proxfl.losses.squared import Squared as Squared
from proxfl.losses.huber import Huber as Huber
from proxfl.losses.softmax import Softmax as Softmax
from proxfl.losses.poisson import Poisson as Poisson
from proxfl.losses.negbin import NegativeBinomial as NegativeBinomial
from proxfl.losses.gamma import Gamma as Gamma
from proxfl.losses.cox import Cox as Cox
from proxfl.losses.site_intercept import SiteIntercept as SiteIntercept
from proxfl.losses.survival.outcomes import outcome as outcome
from proxfl.losses.clipped import Clipped as Clipped
from proxfl.losses.sigmoid import SigmoidLoss as SigmoidLoss
from proxfl.errors import InputError
from proxfl import plugins


def named(name: str) -> type[Linear]:
    """The loss of that name, of this package or of a plug-in."""
    plugins.load()
    if name not in REGISTRY:
        raise InputError(
            f"there is no loss {name!r}, only {', '.join(REGISTRY)}; install the package that "
            "defines it."
        )
    return REGISTRY[name]
