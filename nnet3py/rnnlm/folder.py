"""Which files a folder with an RNN language model has. Kaldi: what rnnlm/lmrescore.sh expects in <rnnlm-dir>."""
from __future__ import annotations

import os
from typing import NamedTuple

from nnet3py.errors import Nnet3Error

NETWORK = "final.raw"
_OPTIONS = "special_symbol_opts.conf", "special_symbol_opts.txt"
_WORD_EMBEDDING = "word_embedding.final.mat"
_FEATURE_EMBEDDING, _FEATURES = "feat_embedding.final.mat", "word_feats.txt"
_WORDS = "words.txt", "config/words.txt", "../graph/words.txt", "../words.txt"
_UNKNOWN = "oov.txt", "config/oov.txt"


class RnnlmFolder(NamedTuple):
    """Names of files.

    Attributes
    ----------
    network : the raw network
    embedding : the matrix of vectors, of words or of features
    features : the features of words; None if ``embedding`` has words
    options : the conf file with the words at the ends of sentences
    words : the names of words, in the folder or in that of the recognizer that it belongs to; empty for none
    unknown : a file with the word that stands for unknown ones; empty for none
    """

    network: str
    embedding: str
    features: str | None
    options: str
    words: str
    unknown: str


def find_rnnlm_files(path: str | os.PathLike[str]) -> RnnlmFolder:
    """The files of a folder. Nnet3Error that names all that is missing."""
    folder = os.fspath(path)
    if not os.path.isdir(folder):
        raise Nnet3Error(f"there is no folder {folder} with a language model", f"give the folder that has {NETWORK}")

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
        raise Nnet3Error(f"{folder} has no language model that can be used: there is no {', no '.join(missing)}",
                         "its files are named as those of Kaldi's rnnlm/train_rnnlm.sh")
    return RnnlmFolder(network, embedding, features, options, first(*_WORDS), first(*_UNKNOWN))
