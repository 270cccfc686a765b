"""A folder with an RNN language model: ``RnnLanguageModel``."""
from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from nnet3py.cached_property import cached_property
from nnet3py.compiler.disk_cache import default_folder
from nnet3py.decoding.symbols import SymbolTable
from nnet3py.errors import FormatError, ShapeError, UsageError, within
from nnet3py.io.streams import read_text
from nnet3py.lattices.pruned_composition import ConstArpaLm, DeterministicLm, FstLm, PrunedCompositionOptions
from nnet3py.lattices.scaling import Scales, scaled
from nnet3py.network.model_file import read_nnet
from nnet3py.option_fields import with_values
from nnet3py.option_file import read_conf
from nnet3py.rnnlm.folder import RnnlmFolder, find_rnnlm_files
from nnet3py.rnnlm.network import RnnlmNetwork
from nnet3py.rnnlm.options import CONF_DEFAULTS, RnnlmOptions
from nnet3py.rnnlm.rescoring import rescored_with_rnnlm, rescored_within_beam
from nnet3py.rnnlm.sentences import sentence_log_probs
from nnet3py.rnnlm.word_embedding import WordEmbedding
from nnet3py.transducers.compact_lattice import CompactLattice

Sentence: TypeAlias = "str | Sequence[str] | Sequence[int] | np.ndarray"

_UNKNOWN_WORDS = "<unk>", "<UNK>", "[unk]"
_SENTENCES_AT_ONCE = 256


class RnnLanguageModel:
    """A language model that is an nnet3 network, in a folder as Kaldi's and vosk's: scores of sentences and lattices.

    The folder has the network ``final.raw``; ``word_feats.txt`` with ``feat_embedding.final.mat``, or
    ``word_embedding.final.mat``; ``special_symbol_opts.conf`` (or ``.txt``), with the numbers of the words at the ends
    of sentences; and perhaps ``words.txt``, there, in ``config/``, in the folder above or in its ``graph/``.

    Parameters
    ----------
    folder : the folder
    words : the file with the names of words; None: the folder's
    normalize : whether probabilities are divided by their sum over all words; None: as the folder's options say, which
        do not unless ``--normalize-probs`` is there
    device : "cpu" or "cuda"

    Attributes
    ----------
    files : the names of the model's files
    options : the words at the ends of sentences, and whether probabilities are normalized
    embedding : the vectors of the words
    network : what computes histories

    Raises
    ------
    Nnet3Error : a file is missing or cannot be read, or the files do not fit each other; says which
    """

    def __init__(self, folder: str | os.PathLike[str], *, words: str | os.PathLike[str] | None = None,
                 normalize: bool | None = None, device: str = "cpu") -> None:
        self.files: RnnlmFolder = find_rnnlm_files(folder)
        self._words_path = os.fspath(words) if words is not None else self.files.words
        options = with_values(RnnlmOptions(), read_conf(self.files.options, CONF_DEFAULTS))
        if normalize is not None:
            options = with_values(options, {"normalize-probs": normalize})
        self.options = options
        self.embedding = WordEmbedding.read(self.files.embedding, self.files.features)
        with within(os.fspath(folder)):
            self.network = RnnlmNetwork(read_nnet(self.files.network), self.embedding, options, device,
                                        cache_dir=default_folder())

    def __repr__(self) -> str:
        return (f"<RnnLanguageModel: {self.files.network}, {self.embedding.num_words:,} words, "
                f"{self.embedding.dim} dimensions>")

    @cached_property
    def words(self) -> SymbolTable:
        """The names of words. UsageError if the model has none, FormatError if they are not the model's."""
        if not self._words_path:
            raise UsageError(f"there is no words.txt with {self.files.network}", "give words=, or numbers of words")
        table = SymbolTable.read(self._words_path)
        lacking = table.first_beyond(self.embedding.num_words)
        if lacking:
            raise FormatError(f"the word '{lacking}' has number {table[lacking]}, but the language model's words are "
                              f"numbered up to {self.embedding.num_words - 1}", path=self._words_path,
                              hint="give the words.txt that the model was trained with")
        return table

    @cached_property
    def unknown_word(self) -> int:
        """The number of the word that stands for unknown ones; 0 if there is none.

        The folder's ``oov.txt`` names it, else it is ``<unk>``, ``<UNK>`` or ``[unk]``.
        """
        names = read_text(self.files.unknown).split()[:1] if self.files.unknown else _UNKNOWN_WORDS
        return next((self.words[name] for name in names if name in self.words), 0)

    def word_ids(self, sentence: Sentence) -> list[int]:
        """Look up the numbers of a sentence's words.

        Parameters
        ----------
        sentence : a text with blanks between words, a list of words, or an array or a list of their numbers

        Raises
        ------
        FormatError : a word that the model lacks, if none stands for unknown ones
        ShapeError : a number that is no word's
        UsageError : words, but the model has no names of them
        """
        parts: Sequence[str] | Sequence[int] | np.ndarray = sentence.split() if isinstance(sentence, str) else sentence
        if all(isinstance(part, str) for part in parts):
            words, unknown = self.words, self.unknown_word if len(parts) else 0
            return [words[part] if part in words or not unknown else unknown for part in map(str, parts)]
        numbers = np.asarray(parts)
        if numbers.ndim != 1 or numbers.dtype.kind not in "iu":
            raise ShapeError("expected a sentence as words or as numbers of words, found "
                             f"{numbers.dtype} of {numbers.ndim} dimensions")
        if not numbers.min() > 0:
            raise ShapeError(f"number {numbers.min()} is no word's: words are numbered from 1")
        self.embedding.check(numbers)
        return numbers.tolist()

    def log_probs(self, sentence: Sentence) -> NDArray[np.float64]:
        """Compute the natural logarithms of the probabilities of a sentence's words, and of its end.

        Parameters
        ----------
        sentence : as for :meth:`word_ids`, without the words for the beginning and the end

        Returns
        -------
        float64 (words + 1,); without normalization they may be above 0

        Raises as :meth:`word_ids`. Kaldi: rnnlm-sentence-probs.
        """
        return sentence_log_probs(self.network, [self.word_ids(sentence)])[0]

    def perplexity(self, sentences: Iterable[Sentence]) -> float:
        """Compute exp of minus the mean log-probability of all words and ends of sentences.

        Probabilities are normalized for it, whatever the model's options say. Raises as :meth:`word_ids`, and
        UsageError if there are no sentences.
        """
        if isinstance(sentences, str):
            raise UsageError("expected several sentences, found one text", "give a list of sentences")
        network = self.network.normalized()
        total, count = 0.0, 0
        for block in _blocks(map(self.word_ids, sentences)):
            scores = sentence_log_probs(network, block)
            total, count = total + sum(float(each.sum()) for each in scores), count + sum(map(len, scores))
        if not count:
            raise UsageError("there are no sentences to be scored")
        return math.exp(-total / count)

    def rescore(self, lattice: CompactLattice, old: str | os.PathLike[str] | DeterministicLm | None = None, *,
                scale: float = 0.5, acoustic_scale: float = 1.0, max_ngram_order: int = 4,
                pruning: PrunedCompositionOptions | None = None) -> CompactLattice:
        """Add the model's costs to a lattice's graph costs, taking off those of the model that it was made with.

        Parameters
        ----------
        lattice : with Kaldi's acoustic costs, as results of :class:`~nnet3py.recognition.recognizer.Recognizer` have it
        old : the model that the lattice has the costs of: a file G.carpa (const-ARPA) or G.fst, or such a model. Only
            paths within a beam are kept, and the result is not determinized. None: costs are only added, on all paths,
            and the result is determinized
        scale : the factor of this model's costs, and of the old ones
        acoustic_scale : of acoustic costs, where paths are compared with the beam; the result's are as the lattice's
        max_ngram_order : histories with the same last ``max_ngram_order - 1`` words are taken for one; 0: none are
        pruning : the beam and the most arcs, with ``old``

        Returns
        -------
        CompactLattice; without states if the old model has none of the lattice's paths

        Raises
        ------
        ShapeError : the lattice has a word that the model lacks
        LatticeError : it has a cycle

        Kaldi: lattice-lmrescore-kaldi-rnnlm-pruned, and, without ``old``, lattice-lmrescore-kaldi-rnnlm.
        """
        if old is None:
            return rescored_with_rnnlm(lattice, self.network, scale, max_ngram_order)
        model = _read_lm(os.fspath(old)) if isinstance(old, str | os.PathLike) else old
        scales = Scales(1.0, acoustic_scale)
        rescored = rescored_within_beam(scaled(lattice, scales), model, self.network, scale, max_ngram_order,
                                        pruning or PrunedCompositionOptions())
        return scaled(rescored, scales.undone())


def _read_lm(path: str) -> DeterministicLm:
    return ConstArpaLm.read(path) if path.endswith(".carpa") else FstLm.read(path)


def _blocks(sentences: Iterator[list[int]]) -> Iterator[list[list[int]]]:
    while block := list(islice(sentences, _SENTENCES_AT_ONCE)):
        yield block
