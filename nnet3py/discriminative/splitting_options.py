"""How lattices are cut into pieces. Kaldi: ``SplitDiscriminativeSupervisionOptions``. Light."""
from __future__ import annotations

import math
from dataclasses import dataclass

from nnet3py.errors import UsageError
from nnet3py.option_fields import opt


@dataclass
class SplittingOptions:
    """Names and defaults of Kaldi's."""

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
