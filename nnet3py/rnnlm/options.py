"""Options of RNN language models. Light. Kaldi: RnnlmComputeStateComputationOptions."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nnet3py.compiler.optimize_options import OptimizeOptions
from nnet3py.errors import UsageError
from nnet3py.option_fields import defaults, opt, settings_of


@dataclass(frozen=True)
class RnnlmOptions:
    """Which words are not ordinary ones, and whether probabilities sum to 1.

    Attributes
    ----------
    bos, eos : the numbers of the words that begin and end sentences
    brk : the number of the word that joins sentences in training; of no effect here
    normalize : whether probabilities are divided by their sum over all words, which costs time. Otherwise they sum to
        1 only as well as the model has learned it, and their logarithms may be above 0
    """

    bos: int = opt("bos-symbol", -1, "Number of the word that begins sentences")
    eos: int = opt("eos-symbol", -1, "Number of the word that ends sentences")
    brk: int = opt("brk-symbol", -1, "No effect: the number of the word between sentences in training")
    normalize: bool = opt("normalize-probs", False, "Divide the probabilities of words by their sum, which costs time; "
                          "without, it is as near to 1 as the model has learned")

    def check(self, num_words: int | None = None) -> None:
        """UsageError if the words at the ends of sentences are not given, or not among ``num_words``."""
        for name, word in (("bos", self.bos), ("eos", self.eos)):
            if word == -1:
                raise UsageError(f"--{name}-symbol is not given", "a model's special_symbol_opts.txt has its value")
            if word < 1 or (num_words is not None and word >= num_words):
                raise UsageError(f"--{name}-symbol={word}: expected a word's number, from 1 to "
                                 f"{'the last' if num_words is None else num_words - 1}")


# The options of a model's conf file; those of how it is computed change no results.
CONF_DEFAULTS: dict[str, Any] = {
    **defaults((*settings_of(RnnlmOptions), *settings_of(OptimizeOptions(), "optimization."))),
    "debug-computation": False, "computation.debug": False}
