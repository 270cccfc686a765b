"""The files of an RNN language model's folder and the model's options. Imports nothing heavy.

Kaldi: the <rnnlm-dir> of rnnlm/lmrescore.sh, and RnnlmComputeStateComputationOptions.
"""
from __future__ import annotations

import os
from typing import Any, NamedTuple

from nnet3py.compiler.optimize_options import OptimizeOptions
from nnet3py.errors import Nnet3Error, UsageError
from nnet3py.option_fields import defaults, opt, options_class, settings_of

NETWORK = "final.raw"
_OPTIONS = "special_symbol_opts.conf", "special_symbol_opts.txt"
_WORD_EMBEDDING = "word_embedding.final.mat"
_FEATURE_EMBEDDING, _FEATURES = "feat_embedding.final.mat", "word_feats.txt"
_WORDS = "words.txt", "config/words.txt", "../graph/words.txt", "../words.txt"
_UNKNOWN = "oov.txt", "config/oov.txt"


@options_class(frozen=True)
class RnnlmOptions:
    """Numbers of the special words, and the normalization of probabilities."""

    # bos, eos: the numbers of the words that begin and end sentences, ``<s>`` and ``</s>``; -1: not given
    bos: int = opt("bos-symbol", -1, "Number of the word that begins sentences")
    eos: int = opt("eos-symbol", -1, "Number of the word that ends sentences")
    # the number of ``<brk>``, which separates sentences in training; has no effect here
    brk: int = opt("brk-symbol", -1, "No effect: number of the word that separates sentences in training")
    # whether scores are normalized (softmax), which takes time. Without normalization, probabilities sum to 1 only as
    # well as the model has learned it, and their logarithms may be above 0
    normalize: bool = opt("normalize-probs", False, "Normalize the probabilities of words, which takes time; without, "
                          "they sum to 1 only as well as the model has learned it")

    def check(self, num_words: int) -> None:
        """Raise UsageError if ``bos`` or ``eos`` is missing, or is not the number of one of ``num_words`` words."""
        for name, word in (("bos", self.bos), ("eos", self.eos)):
            if word == -1:
                raise UsageError(f"--{name}-symbol is not given", "a model's special_symbol_opts.txt has its value")
            if not 0 < word < num_words:
                raise UsageError(f"--{name}-symbol={word}: expected a word's number, from 1 to {num_words - 1}")


# Options that special_symbol_opts.conf may have. Those of the computation are accepted, as by vosk, and ignored.
CONF_DEFAULTS: dict[str, Any] = {
    **defaults((*settings_of(RnnlmOptions), *settings_of(OptimizeOptions(), "optimization."))),
    "debug-computation": False, "computation.debug": False}


class RnnlmFolder(NamedTuple):
    """Paths of an RNN language model's files."""

    network: str  # final.raw
    embedding: str  # the word embedding, or the embedding of features
    features: str | None  # word_feats.txt; None if ``embedding`` is a word embedding
    options: str  # the conf file with the numbers of ``<s>`` and ``</s>``
    words: str  # words.txt, in the model's folder or in that of the recognizer around it; empty: there is none
    unknown: str  # oov.txt, with the name of the unknown word; empty: there is none


def find_rnnlm_files(path: str | os.PathLike[str]) -> RnnlmFolder:
    """Find the files of a folder; raise Nnet3Error that names all missing files."""
    folder = os.fspath(path)
    if not os.path.isdir(folder):
        raise Nnet3Error(f"there is no folder {folder} with an RNN language model",
                         f"give the folder that has {NETWORK}")

    def first(*names: str) -> str:
        paths = (os.path.normpath(os.path.join(folder, name)) for name in names)
        return next((path for path in paths if os.path.isfile(path)), "")

    words_themselves = first(_WORD_EMBEDDING)
    network, embedding, options = first(NETWORK), words_themselves or first(_FEATURE_EMBEDDING), first(*_OPTIONS)
    features = None if words_themselves else first(_FEATURES)
    missing = [what for what, name in (
        (NETWORK, network), (f"{_FEATURE_EMBEDDING} or {_WORD_EMBEDDING}", embedding),
        (_FEATURES, "there" if features is None else features), (" or ".join(_OPTIONS), options)) if not name]
    if missing:
        raise Nnet3Error(f"{folder} has no usable RNN language model: there is no {', no '.join(missing)}",
                         "its files are named as those of Kaldi's rnnlm/train_rnnlm.sh")
    return RnnlmFolder(network, embedding, features, options, first(*_WORDS), first(*_UNKNOWN))
