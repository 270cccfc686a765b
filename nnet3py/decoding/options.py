"""Options of decoding and of training graphs. Light."""
from __future__ import annotations

from nnet3py.errors import UsageError
from nnet3py.option_fields import CheckedOptions, opt, options_class

NO_LIMIT = 2147483647              # max-active without a limit


@options_class(frozen=True)
class DecoderOptions(CheckedOptions):
    """Beams and limits of the decoder's search; costs include the acoustic scale. Kaldi: LatticeFasterDecoderConfig.

    ``prune_scale``, for which Kaldi's programs have no option, affects speed only.
    """

    beam: float = opt("beam", 16.0, "Paths whose cost exceeds the best one's by more than this are given up", above=0)
    max_active: int = opt("max-active", NO_LIMIT, "States kept per frame", least=2)
    min_active: int = opt("min-active", 200, "States kept per frame whatever the beam", least=0)
    lattice_beam: float = opt("lattice-beam", 10.0, "How much worse than the best one a path in a lattice may be",
                              above=0)
    prune_interval: int = opt("prune-interval", 25,
                              "Frames between prunings of a lattice that is being made: a matter of memory", least=1)
    beam_delta: float = opt("beam-delta", 0.5, "How the beam is widened where --max-active or --min-active decide",
                            above=0)
    hash_ratio: float = opt("hash-ratio", 2.0,
                            "Room per state in the search's table; decides in which order states are visited", least=1)
    prune_scale: float = opt("prune-scale", 0.1,
                             "Part of --lattice-beam by which costs may change without being passed on")

    def check(self) -> None:
        """Raise UsageError for values beyond their limits."""
        super().check()
        if self.max_active < self.min_active:
            raise UsageError(f"--max-active={self.max_active} must not be less than --min-active={self.min_active}")


@options_class(frozen=True)
class TrainingGraphOptions:
    """Options of training graphs; alignment can add the costs of transitions. Kaldi: TrainingGraphCompiler."""

    transition_scale: float = opt("transition-scale", 0.0,
                                  "Factor of the costs of transitions that are not self-loops")
    self_loop_scale: float = opt("self-loop-scale", 0.0, "Factor of the costs of self-loops")
    reorder: bool = opt("reorder", True, "Self-loops come after the transition that leaves their state, not before it")
    rm_eps: bool = opt("rm-eps", False, "Remove epsilons where that makes the graph no larger; effective only with "
                       "disambiguation symbols")
