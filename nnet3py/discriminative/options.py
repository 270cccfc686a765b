"""Options of discriminative training. Light: the standard library only."""
from __future__ import annotations

import math
from collections.abc import Sequence

from nnet3py.errors import UsageError
from nnet3py.option_fields import opt, options_class

CRITERIA = ("mmi", "mpfe", "smbr")


@options_class
class DiscriminativeOptions:
    """Options of the objectives; names and defaults are Kaldi's."""

    criterion: str = opt("criterion", "smbr", "The objective: mmi, mpfe or smbr")
    acoustic_scale: float = opt("acoustic-scale", 0.1, "Factor of the network's log-likelihoods against the graph's")
    drop_frames: bool = opt("drop-frames", False, "MMI: no derivative in frames where the lattice does not have the "
                            "reference's pdf")
    boost: float = opt("boost", 0.0, "MMI: boosting factor, of the wrong phones in a path (0: none)")
    one_silence_class: bool = opt("one-silence-class", False, "MPFE and sMBR: silence phones count as one phone, and "
                                  "where both are silence it is right (else they never are)")
    silence_phones: Sequence[int] = opt("silence-phones", (), "Silence phones, such as 1:2:3")
    l2_regularize: float = opt("l2-regularize", 0.0, "Factor of the squares of the network's output")
    xent_regularize: float = opt("xent-regularize", 0.0, "Factor of the cross-entropy of the output output-xent (0: "
                                 "there is none)")
    accumulate_gradients: bool = opt("accumulate-gradients", False, "At the end, log the sum of derivatives of each "
                                     "pdf")
    accumulate_output: bool = opt("accumulate-output", False, "At the end, log the sum of exp(output) of each pdf")
    num_pdfs: int = opt("num-pdfs", 0, "No effect: the number of pdfs is the output's")

    def check(self) -> None:
        """Raise UsageError for values that make no sense."""
        if self.criterion not in CRITERIA:
            raise UsageError(f"--criterion={self.criterion} must be {', '.join(CRITERIA[:-1])} or {CRITERIA[-1]}")
        if not 0.0 < self.acoustic_scale < math.inf:
            raise UsageError(f"--acoustic-scale={self.acoustic_scale:g} must be above 0")
        for name, value in (("boost", self.boost), ("l2-regularize", self.l2_regularize),
                            ("xent-regularize", self.xent_regularize)):
            if not 0.0 <= value < math.inf:
                raise UsageError(f"--{name}={value:g} must be 0 or more")
        if any(phone <= 0 for phone in self.silence_phones):
            raise UsageError(f"--silence-phones={':'.join(map(str, self.silence_phones))} must be numbers of phones, "
                             "1 or more")


@options_class
class SplittingOptions:
    """Options for cutting lattices; names and defaults are Kaldi's."""

    acoustic_scale: float = opt("acoustic-scale", 0.1, "Factor of acoustic costs when paths are compared; must be that "
                                "of the training")
    collapse_transition_ids: bool = opt("collapse-transition-ids", True, "Let arcs of one frame and pdf have the same "
                                        "transition-id, so that they can be merged")
    determinize: bool = opt("determinize", True, "Determinize the pieces of lattices")
    minimize: bool = opt("minimize", True, "Minimize the pieces of lattices that are determinized")
    remove_output_symbols: bool = opt("remove-output-symbols", True, "No effect, as in Kaldi: words are left out")
    remove_epsilons: bool = opt("remove-epsilons", True, "No effect, as in Kaldi: epsilons are left out")

    def check(self) -> None:
        """Raise UsageError for values that make no sense."""
        if not 0.0 < self.acoustic_scale < math.inf:
            raise UsageError(f"--acoustic-scale={self.acoustic_scale:g} must be above 0")
