"""Options of estimating mixtures of Gaussians. Imports nothing heavy."""
from __future__ import annotations

import math

from nnet3py.option_fields import like, opt, options_class


@options_class(frozen=True)
class DiagOptions:
    """Options of estimating Gaussians with diagonal covariances."""

    min_weight: float = opt("min-gaussian-weight", 1.0e-5, "Least weight of a Gaussian that is kept", below=math.inf)
    min_occupancy: float = opt("min-gaussian-occupancy", 10.0, "Frames that a Gaussian must have")
    min_variance: float = opt("min-variance", 0.001, "Variance floor", below=math.inf)
    remove_low_count: bool = opt("remove-low-count-gaussians", True,
                                 "Remove Gaussians with too little data; false: keep them as they were")


@options_class(frozen=True)
class FullOptions:
    """Options of estimating Gaussians with full covariances, whose eigenvalues are floored."""

    min_weight: float = like(DiagOptions, "min_weight")
    min_occupancy: float = like(DiagOptions, "min_occupancy", default=100.0)
    variance_floor: float = opt("variance-floor", 0.001, "Floor of the eigenvalues of covariances", below=math.inf)
    max_condition: float = opt("max-condition", 1.0e4, "The largest eigenvalue over the smallest, at most", above=0)
    remove_low_count: bool = like(DiagOptions, "remove_low_count")
