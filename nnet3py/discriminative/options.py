"""Options of discriminative training. Light: the standard library only."""
from __future__ import annotations

import math
from collections.abc import Sequence

from nnet3py.option_fields import CheckedOptions, opt, options_class

CRITERIA = ("mmi", "mpfe", "smbr")


@options_class
class DiscriminativeOptions(CheckedOptions):
    """Options of the objectives; names and defaults are Kaldi's."""

    criterion: str = opt("criterion", "smbr", "The objective: mmi, mpfe or smbr", choices=CRITERIA)
    acoustic_scale: float = opt("acoustic-scale", 0.1, "Factor of the network's log-likelihoods against the graph's",
                                above=0, below=math.inf)
    drop_frames: bool = opt("drop-frames", False, "MMI: no derivative in frames where the lattice does not have the "
                            "reference's pdf")
    boost: float = opt("boost", 0.0, "MMI: boosting factor, of the wrong phones in a path (0: none)", least=0,
                       below=math.inf)
    one_silence_class: bool = opt("one-silence-class", False, "MPFE and sMBR: silence phones count as one phone, and "
                                  "where both are silence it is right (else they never are)")
    silence_phones: Sequence[int] = opt("silence-phones", (), "Silence phones, such as 1:2:3", least=1)
    l2_regularize: float = opt("l2-regularize", 0.0, "Factor of the squares of the network's output", least=0,
                               below=math.inf)
    xent_regularize: float = opt("xent-regularize", 0.0, "Factor of the cross-entropy of the output output-xent (0: "
                                 "there is none)", least=0, below=math.inf)
    accumulate_gradients: bool = opt("accumulate-gradients", False, "At the end, log the sum of derivatives of each "
                                     "pdf")
    accumulate_output: bool = opt("accumulate-output", False, "At the end, log the sum of exp(output) of each pdf")
    num_pdfs: int = opt("num-pdfs", 0, "No effect: the number of pdfs is the output's")


@options_class
class SplittingOptions(CheckedOptions):
    """Options for cutting lattices; names and defaults are Kaldi's."""

    acoustic_scale: float = opt("acoustic-scale", 0.1, "Factor of acoustic costs when paths are compared; must be that "
                                "of the training", above=0, below=math.inf)
    collapse_transition_ids: bool = opt("collapse-transition-ids", True, "Let arcs of one frame and pdf have the same "
                                        "transition-id, so that they can be merged")
    determinize: bool = opt("determinize", True, "Determinize the pieces of lattices")
    minimize: bool = opt("minimize", True, "Minimize the pieces of lattices that are determinized")
    remove_output_symbols: bool = opt("remove-output-symbols", True, "No effect, as in Kaldi: words are left out")
    remove_epsilons: bool = opt("remove-epsilons", True, "No effect, as in Kaldi: epsilons are left out")
