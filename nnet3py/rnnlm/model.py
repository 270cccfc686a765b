"""``RnnLanguageModel``: scores of sentences and rescored lattices, by the model in a folder."""
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
from nnet3py.lattices.determinize_options import PrunedCompositionOptions
from nnet3py.lattices.pruned_composition import ConstArpaLm, DeterministicLm, FstLm
from nnet3py.lattices.scaling import Scales, scaled
from nnet3py.network.model_file import read_nnet
from nnet3py.option_fields import with_values
from nnet3py.option_file import read_conf
from nnet3py.rnnlm.folder import CONF_DEFAULTS, RnnlmFolder, RnnlmOptions, find_rnnlm_files
from nnet3py.rnnlm.network import RnnlmNetwork, sentence_log_probs
from nnet3py.rnnlm.rescoring import rescored_with_rnnlm, rescored_within_beam
from nnet3py.rnnlm.word_embedding import WordEmbedding
from nnet3py.transducers.compact_lattice import CompactLattice

Sentence: TypeAlias = "str | Sequence[str] | Sequence[int] | np.ndarray"

_UNKNOWN_WORDS = "<unk>", "<UNK>", "[unk]"
_SENTENCES_AT_ONCE = 256


class RnnLanguageModel:
    """An RNN language model of Kaldi's, read from a folder; scores sentences and rescores lattices.

    The folder has the network ``final.raw``; ``word_feats.txt`` with ``feat_embedding.final.mat``, or
    ``word_embedding.final.mat``; ``special_symbol_opts.conf`` (or ``.txt``), with the numbers of ``<s>`` and ``</s>``;
    and perhaps ``words.txt``, there, in ``config/``, in the folder above or in its ``graph/``.

    Parameters
    ----------
    folder : the folder
    words : path of a words.txt; None: the folder's
    normalize : whether probabilities are normalized to sum to 1, which takes time; None: as ``--normalize-probs`` in
        the folder's options says, by default not
    device : "cpu" or "cuda"

    Attributes
    ----------
    files : RnnlmFolder, the paths of the model's files
    options : RnnlmOptions, special words and normalization
    embedding : WordEmbedding, the vectors of the words
    network : RnnlmNetwork, which computes histories

    Raises
    ------
    Nnet3Error : a file is missing or cannot be read, or network, embedding and options are not of one model
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
        """Names of words, by number.

        Raises UsageError if there is no words.txt, FormatError if a word has a number that the model lacks.
        """
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
        """Number of the word that stands for unknown words; 0 if there is none.

        The word is named by the folder's ``oov.txt``, or else ``<unk>``, ``<UNK>`` or ``[unk]``.
        """
        names = read_text(self.files.unknown).split()[:1] if self.files.unknown else _UNKNOWN_WORDS
        return next((self.words[name] for name in names if name in self.words), 0)

    def word_ids(self, sentence: Sentence) -> list[int]:
        """Look up the numbers of a sentence's words.

        Parameters
        ----------
        sentence : words separated by spaces, a list of words, or a list or an array of their numbers

        Raises
        ------
        FormatError : a word that the model lacks, if the model has no unknown word
        ShapeError : a number that no word has
        UsageError : words, but the model has no words.txt
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
            raise ShapeError(f"there is no word with the number {numbers.min()}: words are numbered from 1")
        self.embedding.check(numbers)
        return numbers.tolist()

    def log_probs(self, sentence: Sentence) -> NDArray[np.float64]:
        """Compute the natural log-probability of each word of a sentence, and of its end.

        Parameters
        ----------
        sentence : as for :meth:`word_ids`, without ``<s>`` and ``</s>``

        Returns
        -------
        float64 (words + 1,), in nats; values above 0 are possible unless probabilities are normalized

        Raises as :meth:`word_ids`. Kaldi: rnnlm-sentence-probs.
        """
        return sentence_log_probs(self.network, [self.word_ids(sentence)])[0]

    def perplexity(self, sentences: Iterable[Sentence]) -> float:
        """Compute the perplexity: exp of minus the mean log-probability of all words and ends of sentences.

        Probabilities are normalized, whatever the model's options say. Raises as :meth:`word_ids`, and UsageError if
        there are no sentences.
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
        """Add the model's costs to a lattice's graph costs, and subtract the old language model's costs.

        Parameters
        ----------
        lattice : CompactLattice with unscaled acoustic costs, such as ``Recognizer`` results have
        old : the language model whose costs the lattice has: the path of a G.carpa (const-ARPA) or G.fst, or the model
            itself. Only paths within a beam are kept, and the result is not determinized. None: costs are only added,
            on all paths, and the result is determinized
        scale : factor of this model's costs and of the old ones
        acoustic_scale : factor of acoustic costs where paths are compared with the beam; the result's are unscaled
        max_ngram_order : histories with the same last ``max_ngram_order - 1`` words are merged; 0: none are
        pruning : beam and limit of arcs, with ``old``; None: the program's defaults

        Returns
        -------
        CompactLattice; without states if the old model has none of the lattice's paths

        Raises
        ------
        ShapeError : the lattice has a word that the model lacks
        LatticeError : the lattice has a cycle

        Kaldi: lattice-lmrescore-kaldi-rnnlm-pruned, and, without ``old``, lattice-lmrescore-kaldi-rnnlm.
        """
        if old is None:
            return rescored_with_rnnlm(lattice, self.network, scale, max_ngram_order)
        if isinstance(old, str | os.PathLike):
            old = (ConstArpaLm if os.fspath(old).endswith(".carpa") else FstLm).read(os.fspath(old))
        scales = Scales(1.0, acoustic_scale)
        rescored = rescored_within_beam(scaled(lattice, scales), old, self.network, scale, max_ngram_order,
                                        pruning or PrunedCompositionOptions())
        return scaled(rescored, scales.undone())


def _blocks(sentences: Iterator[list[int]]) -> Iterator[list[list[int]]]:
    while block := list(islice(sentences, _SENTENCES_AT_ONCE)):
        yield block
