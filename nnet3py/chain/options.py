"""Options of the phone language model and of supervisions in chain training. Light."""
from __future__ import annotations

from nnet3py.errors import UsageError
from nnet3py.option_fields import CheckedOptions, opt, options_class


@options_class
class PhoneLmOptions(CheckedOptions):
    """Options of the phone language model. Kaldi: LanguageModelOptions."""

    ngram_order: int = opt("ngram-order", 4, "Phones of the longest n-gram, at least 2", least=2)
    num_extra_lm_states: int = opt("num-extra-lm-states", 1000, "States wanted besides those that are never merged",
                                   least=0)
    no_prune_ngram_order: int = opt("no-prune-ngram-order", 3, "n-grams of this order and shorter ones are all kept",
                                    least=1)

    def check(self) -> None:
        """Raise UsageError for values beyond their limits."""
        super().check()
        if self.ngram_order < self.no_prune_ngram_order:
            raise UsageError(f"--ngram-order={self.ngram_order} must not be less than --no-prune-ngram-order="
                             f"{self.no_prune_ngram_order}")


@options_class(frozen=True)
class SupervisionOptions(CheckedOptions):
    """Options of chain supervisions. Kaldi: SupervisionOptions.

    Attributes
    ----------
    convert_to_pdfs : whether labels are pdf-ids plus 1; else they are transition-ids
    """

    left_tolerance: int = opt("left-tolerance", 5, "Frames of the alignment by which a phone may begin earlier",
                              least=0)
    right_tolerance: int = opt("right-tolerance", 5, "Frames of the alignment by which a phone may end later",
                               least=0)
    frame_subsampling_factor: int = opt("frame-subsampling-factor", 1,
                                        "Frames of the alignment per frame of the network's output", least=1)
    lm_scale: float = opt("lm-scale", 0.0, "Factor of the graph costs of lattices that stay in the supervision, 0 to "
                          "less than 1", least=0, below=1)
    convert_to_pdfs: bool = opt("convert-to-pdfs", True,
                                "Labels are pdfs; false: transition-ids, for unconstrained examples")

    def __post_init__(self) -> None:
        """Raise UsageError for values beyond their limits."""
        self.check()
        most = self.left_tolerance + self.right_tolerance + 1
        if self.frame_subsampling_factor > most:
            raise UsageError(f"--frame-subsampling-factor={self.frame_subsampling_factor} must be at most {most}, "
                             "--left-tolerance + --right-tolerance + 1")
