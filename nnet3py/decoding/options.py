"""Options of decoding and of training graphs. Light."""
from __future__ import annotations

from nnet3py.errors import UsageError
from nnet3py.option_fields import opt, options_class

NO_LIMIT = 2147483647              # max-active without a limit


@options_class(frozen=True)
class DecoderOptions:
    """Beams and limits of the decoder's search; costs include the acoustic scale. Kaldi: LatticeFasterDecoderConfig.

    ``prune_scale``, for which Kaldi's programs have no option, affects speed only.
    """

    beam: float = opt("beam", 16.0, "Paths whose cost exceeds the best one's by more than this are given up")
    max_active: int = opt("max-active", NO_LIMIT, "States kept per frame")
    min_active: int = opt("min-active", 200, "States kept per frame whatever the beam")
    lattice_beam: float = opt("lattice-beam", 10.0, "How much worse than the best one a path in a lattice may be")
    prune_interval: int = opt("prune-interval", 25,
                              "Frames between prunings of a lattice that is being made: a matter of memory")
    beam_delta: float = opt("beam-delta", 0.5, "How the beam is widened where --max-active or --min-active decide")
    hash_ratio: float = opt("hash-ratio", 2.0,
                            "Room per state in the search's table; decides in which order states are visited")
    prune_scale: float = opt("prune-scale", 0.1,
                             "Part of --lattice-beam by which costs may change without being passed on")

    def check(self) -> None:
        """Raise UsageError for invalid options."""
        if not self.beam > 0.0 or not self.lattice_beam > 0.0:
            raise UsageError(f"--beam and --lattice-beam must be above 0, not {self.beam:g} and {self.lattice_beam:g}")
        if self.max_active <= 1 or not 0 <= self.min_active <= self.max_active:
            raise UsageError(f"--max-active must be above 1 and not below --min-active, which is 0 or more; found "
                             f"{self.max_active} and {self.min_active}")
        if self.prune_interval < 1 or not self.beam_delta > 0.0 or not self.hash_ratio >= 1.0:
            raise UsageError("--prune-interval must be 1 or more, --beam-delta above 0, --hash-ratio 1 or more; found "
                             f"{self.prune_interval}, {self.beam_delta:g}, {self.hash_ratio:g}")


@options_class(frozen=True)
class TrainingGraphOptions:
    """Options of training graphs; alignment can add the costs of transitions. Kaldi: TrainingGraphCompiler."""

    transition_scale: float = opt("transition-scale", 0.0,
                                  "Factor of the costs of transitions that are not self-loops")
    self_loop_scale: float = opt("self-loop-scale", 0.0, "Factor of the costs of self-loops")
    reorder: bool = opt("reorder", True, "Self-loops come after the transition that leaves their state, not before it")
    rm_eps: bool = opt("rm-eps", False, "Remove epsilons where that makes the graph no larger; effective only with "
                       "disambiguation symbols")
