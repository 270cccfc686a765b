"""Options of estimating i-vectors and of training extractors. Imports nothing heavy."""
from __future__ import annotations

from nnet3py.option_fields import CheckedOptions, opt, options_class


@options_class(kw_only=True)
class OnlineSettings(CheckedOptions):
    """Options of estimating i-vectors as frames arrive. Kaldi: OnlineIvectorExtractionConfig."""

    left_context: int = opt("left-context", 4, "Frames before a frame that are spliced", least=0)
    right_context: int = opt("right-context", 4, "Frames after a frame that are spliced", least=0)
    use_cmvn_for_stats: bool = opt("online-cmvn-iextractor", False,
                                   "Normalize the features of the i-vectors' statistics, too")
    period: int = opt("ivector-period", 10, "Frames from one i-vector to the next", least=1)
    num_gselect: int = opt("num-gselect", 5, "Gaussians that are kept for each frame", least=1)
    min_post: float = opt("min-post", 0.025, "Smaller posteriors of Gaussians are left out", least=0, below=0.5)
    posterior_scale: float = opt("posterior-scale", 0.1,
                                 "Factor of the posteriors, as neighboring frames are not independent", above=0, most=1)
    max_count: float = opt("max-count", 0.0,
                           "Frames, times --posterior-scale, above which the prior is scaled up with them; 0 for never",
                           least=0)
    max_remembered_frames: float = opt("max-remembered-frames", 1000.0,
                                       "Most frames of a speaker that count in the next utterance", least=0)
    use_most_recent: bool = opt("use-most-recent-ivector", True, "Estimate i-vectors at the frames that are asked for")
    greedy: bool = opt("greedy-ivector-extractor", False, "Use all frames that have arrived for every i-vector")


@options_class(frozen=True)
class StatsOptions:
    """Options of accumulating statistics for the training of an extractor."""

    update_variances: bool = opt("update-variances", True, "Accumulate the statistics for the variances, too")
    compute_auxf: bool = opt("compute-auxf", True, "Compute the auxiliary function, for logs")
    num_samples_for_weights: int = opt("num-samples-for-weights", 10,
                                       "i-vectors drawn for each utterance, if weights depend on i-vectors", least=2)
    cache_size: int = opt("cache-size", 100, "Utterances that are added to the statistics at a time", least=1)


@options_class(frozen=True)
class EstimationOptions:
    """Options of estimating an extractor from statistics."""

    variance_floor_factor: float = opt("variance-floor-factor", 0.1,
                                       "Floor of all variances, as a part of the mean variance", above=0, most=1)
    gaussian_min_count: float = opt("gaussian-min-count", 100.0, "Frames that a Gaussian must have to be estimated")
    diagonalize: bool = opt("diagonalize", True, "Sort the dimensions of i-vectors by importance")
