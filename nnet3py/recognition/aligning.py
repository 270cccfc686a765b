"""Which word and which phone of a known text is where in a sound, by a model folder. Kaldi: align.sh, ctm."""
from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from nnet3py.acoustic_model import read_model
from nnet3py.cached_property import cached_property
from nnet3py.compiler.cache import CompilerOptions
from nnet3py.compiler.disk_cache import default_folder
from nnet3py.config_line import did_you_mean
from nnet3py.decoding.decoder import Decoded, Decoder, DecoderOptions
from nnet3py.decoding.graph import word_line
from nnet3py.decoding.lookahead_graph import LookaheadGraph
from nnet3py.decoding.symbols import SymbolTable
from nnet3py.errors import Nnet3Error, UsageError
from nnet3py.fst.openfst import compose, from_openfst
from nnet3py.hmm.alignment import phone_starts
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.lattices.linear import linear_lattice, word_times
from nnet3py.recognition import option_tables as tables
from nnet3py.recognition.front_end import FrontEnd, FrontEndOutput, Sounds
from nnet3py.recognition.model_folder import ModelFolder, read_model_folder
from nnet3py.recognition.recognizer import acoustic_scale, read_decoding_graph, read_phrase_graph
from nnet3py.recognition.results import aligner
from nnet3py.runtime.compute import ComputeOptions, UtteranceComputer
from nnet3py.transducers.fst import Fst
from nnet3py.transducers.fst_text import read_fst_file

logger = logging.getLogger(__name__)

BEAM = DecoderOptions(beam=200.0, min_active=20, lattice_beam=0.01)       # as Kaldi's aligners; all paths, in practice
FRAMES_PER_CHUNK = 150


class AlignedPhone(NamedTuple):
    """A phone and where it is.

    ``start``, ``end``: seconds; ``first_frame``, ``end_frame``: the same in frames of the network's output, those from
    the first to before the end.
    """

    phone: str
    start: float
    end: float
    first_frame: int
    end_frame: int


class AlignedWord(NamedTuple):
    """A word and where it is, as an :class:`AlignedPhone`; and its ``phones``."""

    word: str
    start: float
    end: float
    first_frame: int
    end_frame: int
    phones: tuple[AlignedPhone, ...]


class AlignedText(NamedTuple):
    """Where a text is in a sound.

    Attributes
    ----------
    words : those of the text, in order
    phones : of the whole sound, with the silence around words
    transition_ids : int32 (frames,), one for each frame of the network's output
    log_likelihood : of a frame on average, as scaled for decoding, with the costs of the graph: to compare texts by
    seconds_per_frame : of the network's output
    """

    words: tuple[AlignedWord, ...]
    phones: tuple[AlignedPhone, ...]
    transition_ids: np.ndarray
    log_likelihood: float
    seconds_per_frame: float

    @property
    def text(self) -> str:
        """The words, with blanks between them."""
        return " ".join(word.word for word in self.words)


class Aligner:
    """Aligns texts with sounds by a model folder, which it reads once: ``aligner(sound, text)``.

    Parameters
    ----------
    model : a folder as :class:`Recognizer` takes, with word_boundary.int or align_lexicon.int; names of phones are in
        phones.txt beside the graph, and are numbers without it
    device : ``cpu`` or ``cuda``, for the network

    Attributes
    ----------
    folder : what is known of the model's files
    words : the names of words
    seconds_per_frame : of the network's output

    Raises
    ------
    Nnet3Error : the folder lacks something; says what
    """

    def __init__(self, model: str | os.PathLike[str], *, device: str = "cpu") -> None:
        folder = self.folder = read_model_folder(model)
        if not (folder.word_boundary or folder.align_lexicon):
            raise Nnet3Error(f"{folder.path} does not say where words begin and end",
                             "aligning needs phones/word_boundary.int or phones/align_lexicon.int beside the graph")
        self._front_end = FrontEnd(folder)
        acoustic_model = read_model(folder.model)
        self._transitions = acoustic_model.transition_model
        factor = int(folder.options.get("frame-subsampling-factor", tables.LOOPED["frame-subsampling-factor"]))
        self.seconds_per_frame = self._front_end.frame_shift * factor
        self._computer = UtteranceComputer(acoustic_model.nnet, ComputeOptions(
            frame_subsampling_factor=factor, frames_per_chunk=FRAMES_PER_CHUNK,
            acoustic_scale=acoustic_scale(folder, acoustic_model),
            compiler=CompilerOptions(cache_dir=default_folder())), acoustic_model.priors, device)
        self.words = SymbolTable.read(folder.words)
        self._phones = phone_names(folder)
        self._align_words = aligner(self._transitions, folder.word_boundary, folder.align_lexicon)

    def __repr__(self) -> str:
        return f"<Aligner: {self.folder.model}, {len(self.words):,} words>"

    @cached_property
    def _graph(self) -> Fst:
        return alignment_graph(self.folder, self._transitions)

    def __call__(self, sound: Sounds | FrontEndOutput, text: str | Sequence[str], rate: float | None = None, *,
                 ivector: np.ndarray | None = None, channel: int | None = None) -> AlignedText:
        """Where the words of a text are in a sound; arguments, result and errors are those of :func:`align`."""
        words = text.split() if isinstance(text, str) else list(text)
        if not words:
            raise UsageError("there are no words to align", "give the text that was said")
        numbers = [self._number(word) for word in words]
        feats, ivector = self._features(sound, rate, ivector, channel)
        if not len(feats):
            raise Nnet3Error("the sound is shorter than a window", "is sample_rate right?")
        decoded = best_alignment(graph_of_words(self._graph, numbers), self._transitions,
                                 self._computer.compute(feats, ivector))
        return self._result(words, numbers, decoded)

    def _features(self, sound: Sounds | FrontEndOutput, rate: float | None, ivector: np.ndarray | None,
                  channel: int | None) -> tuple[np.ndarray, np.ndarray | None]:
        if isinstance(sound, FrontEndOutput):
            return sound.features, sound.ivector if ivector is None else ivector
        if isinstance(sound, np.ndarray) and sound.ndim == 2 and sound.shape[1] == self._front_end.dim:
            return sound, ivector
        feats, own = self._front_end(sound, rate, channel=channel)
        return feats, own if ivector is None else ivector

    def _number(self, word: str) -> int:
        number = self.words[word] if word in self.words else 0
        if not number:
            advice = did_you_mean(word, list(self.words.ids)) or f"its words are in {self.folder.words}"
            raise UsageError(f"the model does not know the word '{word}'", advice)
        return number

    def _result(self, words: Sequence[str], numbers: Sequence[int], decoded: Decoded) -> AlignedText:
        ids = decoded.alignment
        borders = [*phone_starts(self._transitions, ids)[0].tolist(), len(ids)]
        phones = tuple(
            AlignedPhone(self._phone_name(int(self._transitions.transition_id_to_phone[ids[begin]])),
                         *self._seconds(begin, end), begin, end)
            for begin, end in zip(borders[:-1], borders[1:], strict=True))
        assert self._align_words is not None
        aligned = self._align_words(linear_lattice(ids, decoded.words, decoded.graph_cost, decoded.acoustic_cost))
        times = [each for each in word_times(aligned.lattice) or () if each[0]] if not aligned.problem else []
        if [number for number, _, _ in times] != list(numbers):
            raise Nnet3Error(f"the phones that were aligned are not those of the words: {aligned.problem or 'others'}",
                             f"{self.folder.word_boundary or self.folder.align_lexicon} must belong to the graph")
        return AlignedText(
            tuple(AlignedWord(word, *self._seconds(begin, begin + count), begin, begin + count,
                              tuple(phone for phone in phones if begin <= phone.first_frame < begin + count))
                  for word, (_, begin, count) in zip(words, times, strict=True)),
            phones, ids, decoded.log_likelihood / len(ids), self.seconds_per_frame)

    def _seconds(self, begin: int, end: int) -> tuple[float, float]:
        return round(begin * self.seconds_per_frame, 6), round(end * self.seconds_per_frame, 6)

    def _phone_name(self, phone: int) -> str:
        return self._phones.get(phone, str(phone))


def align(model: str | os.PathLike[str] | Aligner, sound: Sounds | FrontEndOutput, text: str | Sequence[str],
          rate: float | None = None, *, ivector: np.ndarray | None = None, channel: int | None = None) -> AlignedText:
    """Where the words and phones of a known text are in a sound (forced alignment).

    Parameters
    ----------
    model : the folder of a model for recognition, or an :class:`Aligner`, which has read it already
    sound : a file of sound; or samples as :func:`features` takes them; or what :func:`front_end` made of a sound; or
        features alone, float (frames, dim) of the network's input
    text : the words that were said, with blanks between them or in a list, spelt as the model's words
    rate : samples a second; None for a file, which knows it, and for features
    ivector : float (dim,), in place of the sound's own; features alone need it if the network takes one
    channel : which one of several, from 0; None: the only one, or of a file their mean

    Returns
    -------
    AlignedText : words and phones with their times, in seconds and in frames of the network's output

    Raises
    ------
    UsageError : a word that the model does not know
    Nnet3Error : the folder lacks something, the sound is no sound or too short for the words
    ShapeError : features of another dimension than the network's

    Notes
    -----
    The sound is aligned as a whole: all its frames are kept in memory. Words may follow each other in any order where
    the folder has a graph in two parts (HCLr.fst); elsewhere as its grammar allows.
    """
    if not isinstance(model, Aligner):
        model = Aligner(model)
    return model(sound, text, rate, ivector=ivector, channel=channel)


def alignment_graph(folder: ModelFolder, model: TransitionModel) -> Fst:
    """A folder's graph from transition-ids to words, in any order if it has one in two parts."""
    if folder.is_lookahead or folder.phrase_graph:
        graph = read_decoding_graph(folder, model) if folder.is_lookahead else read_phrase_graph(folder, model)
        assert isinstance(graph, LookaheadGraph)
        return graph.hcl_of_words()
    return read_fst_file(folder.graph)


def graph_of_words(graph: Fst, words: Sequence[int]) -> Fst:
    """The part of a graph from transition-ids to words that has just these words, by their numbers.

    Nnet3Error, for people, if it has none.
    """
    part = from_openfst(compose(graph, word_line(np.array(words, dtype=np.int32))))
    if not part.num_states:
        raise Nnet3Error("the model's graph has no path for the words", "take a model with HCLr.fst and Gr.fst, which "
                         "allow words in any order")
    return part


def best_alignment(part: Fst, model: TransitionModel, log_likes: np.ndarray) -> Decoded:
    """The best path of the graph of an utterance, by float32 (frames, pdfs). Nnet3Error, for people, for none."""
    decoded = Decoder(part, model, BEAM).decode(log_likes)
    if decoded is None or not decoded.reached_final:
        raise Nnet3Error("the words do not fit into the sound: it is too short for them",
                         "is it the text of this sound?")
    return decoded


def phone_names(folder: ModelFolder) -> dict[int, str]:
    """The names of phones: of phones.txt beside the graph or in the folder; empty if there is none."""
    beside = [os.path.dirname(folder.graph)] if folder.graph else []
    for place in (*beside, os.path.join(folder.path, "graph"), folder.path, os.path.dirname(folder.model)):
        path = os.path.join(place, "phones.txt")
        if os.path.isfile(path):
            return dict(SymbolTable.read(path, "phone").names)
    return {}
