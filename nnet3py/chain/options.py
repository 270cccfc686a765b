"""Options of the phone language model and of supervisions in chain training. Light."""
from __future__ import annotations

from nnet3py.errors import Nnet3Error, UsageError
from nnet3py.option_fields import opt, options_class


@options_class
class PhoneLmOptions:
    """Options of the phone language model. Kaldi: LanguageModelOptions."""

    ngram_order: int = opt("ngram-order", 4, "Phones of the longest n-gram, at least 2")
    num_extra_lm_states: int = opt("num-extra-lm-states", 1000, "States wanted besides those that are never merged")
    no_prune_ngram_order: int = opt("no-prune-ngram-order", 3, "n-grams of this order and shorter ones are all kept")

    def check(self) -> None:
        """Raise UsageError for invalid orders."""
        if self.no_prune_ngram_order < 1 or self.ngram_order < max(2, self.no_prune_ngram_order):
            raise UsageError(f"expected --ngram-order of at least 2 and of at least --no-prune-ngram-order, which is "
                             f"1 or more; found {self.ngram_order} and {self.no_prune_ngram_order}")
        if self.num_extra_lm_states < 0:
            raise UsageError(f"expected --num-extra-lm-states of 0 or more, found {self.num_extra_lm_states}")


@options_class(frozen=True)
class SupervisionOptions:
    """Options of chain supervisions. Kaldi: SupervisionOptions.

    Attributes
    ----------
    convert_to_pdfs : whether labels are pdf-ids plus 1; else they are transition-ids
    """

    left_tolerance: int = opt("left-tolerance", 5, "Frames of the alignment by which a phone may begin earlier")
    right_tolerance: int = opt("right-tolerance", 5, "Frames of the alignment by which a phone may end later")
    frame_subsampling_factor: int = opt("frame-subsampling-factor", 1,
                                        "Frames of the alignment per frame of the network's output")
    lm_scale: float = opt("lm-scale", 0.0, "Factor of the graph costs of lattices that stay in the supervision, 0 to "
                          "less than 1")
    convert_to_pdfs: bool = opt("convert-to-pdfs", True,
                                "Labels are pdfs; false: transition-ids, for unconstrained examples")

    def __post_init__(self) -> None:
        """Raise Nnet3Error for incompatible options."""
        left, right, factor = self.left_tolerance, self.right_tolerance, self.frame_subsampling_factor
        if left < 0 or right < 0:
            raise Nnet3Error(f"--left-tolerance={left} and --right-tolerance={right} must not be negative")
        if not 0 < factor <= left + right + 1:
            raise Nnet3Error(f"Invalid value --frame-subsampling-factor={factor}",
                             "it must be at least 1 and at most --left-tolerance + --right-tolerance + 1")
        if not 0.0 <= self.lm_scale < 1.0:
            raise Nnet3Error(f"Invalid value --lm-scale={self.lm_scale}", "it must be at least 0 and less than 1")
