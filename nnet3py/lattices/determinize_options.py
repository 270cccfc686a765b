"""Options of determinizing lattices and of composing them with language models. Light."""
from __future__ import annotations

from nnet3py.option_fields import CheckedOptions, opt, options_class

DELTA = 1.0 / 1024.0               # Kaldi's kDelta


@options_class(frozen=True)
class DeterminizeOptions:
    """Limits of determinization. -1 or 0: no limit.

    Attributes
    ----------
    delta : float, nats; subsets of states whose costs differ by no more than this are equal
    max_mem : int, bytes, as Kaldi counts them; if more are needed, determinization stops early, and the effective beam
        is narrower
    max_states, max_arcs : int, largest size of the result
    retry_cutoff : float; if less than this share of the beam was reached, the lattice is pruned and determinized again
    """

    delta: float = DELTA
    max_mem: int = -1
    max_states: int = -1
    max_arcs: int = -1
    retry_cutoff: float = 0.5


@options_class(frozen=True)
class PhoneDeterminizeOptions:
    """Options of determinization after decoding. Kaldi: DeterminizeLatticePhonePrunedOptions."""

    delta: float = opt("delta", DELTA, "By how much the costs of states that count as the same may differ", least=0)
    max_mem: int = opt("max-mem", 50000000, "Bytes that determinizing an utterance may take, about; a lattice that "
                       "needs more is made narrower, with a warning")
    phone_determinize: bool = opt("phone-determinize", True, "Determinize on phones and words first, which is faster")
    word_determinize: bool = opt("word-determinize", True, "Determinize on words; false: only on phones")
    minimize: bool = opt("minimize", False, "Merge equal states after determinizing")


@options_class(frozen=True)
class PrunedCompositionOptions(CheckedOptions):
    """Limits of composing a lattice with a language model. Kaldi: ComposeLatticePrunedOptions.

    Attributes
    ----------
    initial_num_arcs : int, number of arcs of the result after which the costs of its states are first recomputed
    """

    beam: float = opt("lattice-compose-beam", 6.0, "How much worse than the best one a path may be", above=0)
    max_arcs: int = opt("max-arcs", 100000, "The largest number of arcs in a result", least=1)
    growth_ratio: float = opt("growth-ratio", 1.5,
                              "Costs are computed again when there are that many times as many arcs", above=1)
    initial_num_arcs: int = 100

    def __post_init__(self) -> None:
        """Raise UsageError for values beyond their limits."""
        self.check()
