"""Forced alignment: the times of the words and phones of a known text in a sound. Kaldi: align.sh, ctm."""
from __future__ import annotations

import logging
import os
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from heapq import nlargest
from typing import NamedTuple

import numpy as np

from nnet3py import log
from nnet3py.acoustic_model import read_model
from nnet3py.advice import arguments_elsewhere
from nnet3py.cached_property import cached_property
from nnet3py.compiler.cache import CompilerOptions
from nnet3py.compiler.disk_cache import default_folder
from nnet3py.config_line import did_you_mean
from nnet3py.decoding.composed_graphs import LookaheadGraph, relabeled
from nnet3py.decoding.lattice_decoder import Decoded, Decoder
from nnet3py.decoding.options import DecoderOptions
from nnet3py.decoding.symbols import Spelling, SymbolTable
from nnet3py.errors import Nnet3Error, UsageError, within
from nnet3py.fst.openfst import compose, from_openfst
from nnet3py.hmm.alignment import phone_starts
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.lattices.best_path import linear_lattice, word_times
from nnet3py.recognition import options as tables
from nnet3py.recognition.front_end import FrontEnd, FrontEndOutput, Sounds
from nnet3py.recognition.model_folder import ModelFolder, read_model_folder
from nnet3py.recognition.recognizer import Recognizer, acoustic_scale, read_decoding_graph, read_phrase_graph
from nnet3py.recognition.results import AlignedPhone, AlignedText, AlignedWord, aligner
from nnet3py.runtime.compute import UtteranceComputer
from nnet3py.runtime.options import ComputeOptions
from nnet3py.transducers.fst import NO_WEIGHT, Fst
from nnet3py.transducers.fst_text import read_fst_file

logger = logging.getLogger(__name__)

BEAM = DecoderOptions(beam=200.0, min_active=20, lattice_beam=0.01)       # as Kaldi's aligners; little pruning
FRAMES_PER_CHUNK = 150
PIECE, MARGIN = 60.0, 10.0            # seconds of a long sound aligned at once, and of its end that is aligned again
MOST_WORDS_A_SECOND = 6               # fast speakers say five
UNKNOWN_WORDS = ("error", "similar", "leave-out")
_NUM_ALIKE = 50


class _Token(NamedTuple):
    """A word of the given text; for each word of the model that spells it, the possible word-ids, usually one."""

    text: str
    numbers: list[Sequence[int]]


class _Piece(NamedTuple):
    """An aligned piece of a sound.

    ``begin`` is the piece's first output frame, ``decoded`` its best path; ``times`` are (word-id, first frame, number
    of frames), with frames counted from ``begin``.
    """

    begin: int
    decoded: Decoded
    times: list[tuple[int, int, int]]


class Aligner:
    """An aligner of texts with sounds, which reads its model folder only once: ``aligner(sound, text)``.

    Parameters
    ----------
    model : a Recognizer, or a model folder as for :class:`Recognizer`, with word_boundary.int or align_lexicon.int;
        phones are named by phones.txt beside the graph, or by their numbers if there is no such file
    device : ``cpu`` or ``cuda``, for the network

    Attributes
    ----------
    folder : ModelFolder
    words : SymbolTable
    sample_rate : samples a second that the model was trained for; other sound is resampled
    seconds_per_frame : seconds from one frame of the network's output to the next

    Raises
    ------
    Nnet3Error : the folder lacks files, which are named
    """

    def __init__(self, model: str | os.PathLike[str] | Recognizer, *, device: str = "cpu") -> None:
        folder = self.folder = read_model_folder(model.folder.path if isinstance(model, Recognizer) else model)
        if not (folder.word_boundary or folder.align_lexicon):
            raise Nnet3Error(f"{folder.path} does not say where words begin and end",
                             "aligning needs phones/word_boundary.int or phones/align_lexicon.int beside the graph")
        self._front_end = FrontEnd(folder)
        acoustic_model = read_model(folder.model)
        self._transitions = acoustic_model.transition_model
        factor = int(folder.options.get("frame-subsampling-factor", tables.LOOPED["frame-subsampling-factor"]))
        self.sample_rate = self._front_end.rate
        self._factor = factor
        self.seconds_per_frame = self._front_end.frame_shift * factor
        self._computer = UtteranceComputer(acoustic_model.nnet, ComputeOptions(
            frame_subsampling_factor=factor, frames_per_chunk=FRAMES_PER_CHUNK,
            acoustic_scale=acoustic_scale(folder, len(acoustic_model.priors) > 0),
            compiler=CompilerOptions(cache_dir=default_folder())), acoustic_model.priors, device)
        self.words = SymbolTable.read(folder.words)
        self._phones = phone_names(folder)
        self._others: dict[str, list[int]] = {}
        self._align_words = aligner(self._transitions, folder.word_boundary, folder.align_lexicon)

    def __repr__(self) -> str:
        return f"<Aligner: {self.folder.model}, {len(self.words):,} words>"

    @cached_property
    def _graph(self) -> Fst | LookaheadGraph:
        return alignment_graph(self.folder, self._transitions)

    def __call__(self, sound: Sounds | FrontEndOutput, text: str | Sequence[str], rate: float | None = None, *,
                 ivector: np.ndarray | None = None, channel: int | None = None,
                 unknown_words: str = "error") -> AlignedText:
        """Align a text with a sound; arguments, result and errors are those of :func:`align`."""
        tokens = self._tokens(text.split() if isinstance(text, str) else text, unknown_words)
        feats, ivector = self._features(sound, rate, ivector, channel)
        if not len(feats):
            raise Nnet3Error("the sound is shorter than a window of features", "is the sampling rate right?")
        numbers = [number for token in tokens for number in token.numbers]
        return self._joined(tokens, list(self._pieces(feats, ivector, numbers)))

    def _pieces(self, feats: np.ndarray, ivector: np.ndarray | None,
                numbers: Sequence[Sequence[int]]) -> Iterator[_Piece]:
        """Yield the alignments of consecutive pieces of a sound, each cut at a pause between two words.

        The number of words in a piece is not known beforehand: the graph of a piece has as many of the following words
        as can be said in its time, and any number of its last words may be missing. Words that end within ``MARGIN``
        of a piece's end are aligned with the next piece. ``numbers`` are the possible word-ids of each word.
        """
        num_frames = -(-len(feats) // self._factor)
        size, margin = (round(seconds / self.seconds_per_frame) for seconds in (PIECE, MARGIN))
        most_words = round(PIECE * MOST_WORDS_A_SECOND)
        begin = place = 0
        while num_frames - begin > 2 * size:
            log_likes = self._log_likes(feats, ivector, begin, begin + size)
            offered = numbers[place:place + most_words]
            with within(f"from {begin * self.seconds_per_frame:.1f} seconds on"):
                decoded = best_alignment(graph_of_words(self._graph, offered, True), self._transitions, log_likes)
                count, end = _cut(self._word_times(decoded), size - margin)
                decoded = best_alignment(graph_of_words(self._graph, offered[:count]), self._transitions,
                                         log_likes[:end])
            yield _Piece(begin, decoded, self._word_times(decoded))
            begin, place = begin + end, place + count
        remaining = f"from {begin * self.seconds_per_frame:.1f} seconds and word {place + 1} on"
        with within(remaining) if begin else nullcontext():
            decoded = best_alignment(graph_of_words(self._graph, numbers[place:]), self._transitions,
                                     self._log_likes(feats, ivector, begin, num_frames))
        yield _Piece(begin, decoded, self._word_times(decoded))

    def _log_likes(self, feats: np.ndarray, ivector: np.ndarray | None, begin: int, end: int) -> np.ndarray:
        """Return the network's output for output frames ``begin`` to ``end`` - 1.

        It is computed with one more chunk of features on each side, as context.
        """
        first = max(0, begin * self._factor // FRAMES_PER_CHUNK - 1) * FRAMES_PER_CHUNK
        log_likes = self._computer.compute(feats[first:end * self._factor + FRAMES_PER_CHUNK], ivector)
        return log_likes[begin - first // self._factor:end - first // self._factor]

    def _features(self, sound: Sounds | FrontEndOutput, rate: float | None, ivector: np.ndarray | None,
                  channel: int | None) -> tuple[np.ndarray, np.ndarray | None]:
        if isinstance(sound, FrontEndOutput):
            return sound.features, sound.ivector if ivector is None else ivector
        if isinstance(sound, np.ndarray) and sound.ndim == 2 and sound.shape[1] == self._front_end.dim:
            return sound, ivector
        feats, own = self._front_end(sound, rate, channel=channel)
        return feats, own if ivector is None else ivector

    def _tokens(self, texts: Sequence[str], unknown_words: str) -> list[_Token]:
        """Return the given words with their word-ids; raise UsageError for unknown words, if they are errors."""
        if unknown_words not in UNKNOWN_WORDS:
            raise UsageError(f"unknown_words='{unknown_words}': expected {', '.join(UNKNOWN_WORDS)}")
        tokens: list[_Token] = []
        for text in texts:
            words = (text,) if text in self.words else self._spelling.written([text])
            numbers = [self._choices(word, unknown_words) for word in words]
            if not words and tokens:                       # punctuation on its own
                tokens[-1] = tokens[-1]._replace(text=f"{tokens[-1].text} {text}")
            elif any(numbers):
                tokens.append(_Token(text, [choices for choices in numbers if choices]))
        if not tokens:
            raise UsageError("there are no words to align", "give the text that was said, in the model's language")
        return tokens

    def _choices(self, word: str, unknown_words: str) -> Sequence[int]:
        """Return the possible word-ids of a word: its own; for an unknown word those of similarly spelled words.

        Empty for an unknown word that is left out. Raises UsageError for an unknown word if these are errors.
        """
        if word in self.words and self.words[word]:
            return (self.words[word],)
        if unknown_words == "error":
            advice = did_you_mean(word, list(self.words.ids)) or f"its words are in {self.folder.words}"
            raise UsageError(f"the model does not know the word '{word}'", advice)
        if word not in self._others:
            others = spelled_alike(word, self._spoken_words) if unknown_words == "similar" else []
            self._others[word] = [self.words[other] for other in others]
            log.warn_once(logger, f"the model does not know '{word}', which " + (
                f"is aligned as the one of {len(others)} words spelled alike that fits best" if others else
                "is left out"))
        return self._others[word]

    @cached_property
    def _spelling(self) -> Spelling:
        return Spelling(self.words)

    @cached_property
    def _spoken_words(self) -> list[str]:
        """Words that occur in the graph."""
        graph = self._graph
        numbers = np.flatnonzero(graph.label_of_word) if isinstance(graph, LookaheadGraph) else np.unique(
            graph.output_labels)
        names = self.words.names
        return [names[number] for number in numbers.tolist() if number and number in names]

    def _word_times(self, decoded: Decoded) -> list[tuple[int, int, int]]:
        """Return word-id, first frame and number of frames of each word of a best path."""
        assert self._align_words is not None
        aligned = self._align_words(linear_lattice(decoded.alignment, decoded.words, decoded.graph_cost,
                                                   decoded.acoustic_cost))
        times = [each for each in word_times(aligned.lattice) or () if each[0]] if not aligned.problem else []
        if [number for number, _, _ in times] != decoded.words.tolist():
            raise Nnet3Error("the aligned phones are not those of the words: "
                             f"{aligned.problem or 'they make other words'}",
                             f"{self.folder.word_boundary or self.folder.align_lexicon} must belong to the graph")
        return times

    def _joined(self, tokens: Sequence[_Token], pieces: Sequence[_Piece]) -> AlignedText:
        ids = np.concatenate([piece.decoded.alignment for piece in pieces])
        phones = [AlignedPhone(self._phones.get(phone, str(phone)), *self._seconds(begin, end), begin, end)
                  for piece in pieces for phone, begin, end in self._phones_of(piece)]
        firsts = [phone.first_frame for phone in phones]
        times = [(piece.begin + begin, piece.begin + begin + count) for piece in pieces
                 for _, begin, count in piece.times]
        aligned, place = [], 0
        for token in tokens:
            (begin, _), place = times[place], place + len(token.numbers)
            end = times[place - 1][1]
            aligned.append(AlignedWord(token.text, *self._seconds(begin, end), begin, end,
                                       tuple(phones[bisect_left(firsts, begin):bisect_left(firsts, end)])))
        log_likelihood = sum(piece.decoded.log_likelihood for piece in pieces)
        return AlignedText(tuple(aligned), tuple(phones), ids, log_likelihood / len(ids), self.seconds_per_frame)

    def _phones_of(self, piece: _Piece) -> Iterator[tuple[int, int, int]]:
        """Yield (phone, first frame, frame after the last) for the phones of a piece, in frames of the whole sound."""
        ids = piece.decoded.alignment
        borders = [*phone_starts(self._transitions, ids)[0].tolist(), len(ids)]
        for begin, end in zip(borders[:-1], borders[1:], strict=True):
            yield int(self._transitions.transition_id_to_phone[ids[begin]]), piece.begin + begin, piece.begin + end

    def _seconds(self, begin: int, end: int) -> tuple[float, float]:
        return round(begin * self.seconds_per_frame, 6), round(end * self.seconds_per_frame, 6)


@arguments_elsewhere(sample_rate_or_sr="rate=", transcript_or_words="text=", ivectors="ivector=")
def align(model: str | os.PathLike[str] | Recognizer | Aligner, sound: Sounds | FrontEndOutput,
          text: str | Sequence[str], rate: float | None = None, *, ivector: np.ndarray | None = None,
          channel: int | None = None, unknown_words: str = "error") -> AlignedText:
    """Align a known text with a sound: find the times of its words and phones (forced alignment).

    Parameters
    ----------
    model : a model folder, a :class:`Recognizer`, or an :class:`Aligner`, which has read the folder already
    sound : a file of sound; samples as :func:`features` takes them; the output of :func:`front_end`; or features,
        float (frames, dim) of the network's input
    text : the words that were said, with blanks between them or in a list; in the result they are spelled as here.
        Punctuation is passed over, and letters may be small or capital
    rate : samples a second; None for files and features
    ivector : float (dim,), in place of the sound's i-vector; needed with features if the network takes i-vectors
    channel : number of the channel, from 0; None: the only channel, or the mean of a file's channels
    unknown_words : "error"; "similar": an unknown word is aligned as the word spelled alike that fits the sound best;
        "leave-out": it is not in the result. The last two log a warning for each word

    Returns
    -------
    AlignedText : words and phones with their times, in seconds and in frames of the network's output

    Raises
    ------
    UsageError : a word that the model does not know
    Nnet3Error : files are missing, the sound cannot be read, or is too short for the words
    ShapeError : features of another dimension than the network's

    Notes
    -----
    A sound of more than two minutes is aligned in pieces of a minute, each up to a pause well before its end; so time
    and memory are in proportion to its length. The text must be complete: speech that is not in the text disturbs the
    words nearby. Words may follow each other in any order if the folder has a graph in two parts (HCLr.fst), otherwise
    as its grammar allows.
    """
    if not isinstance(model, Aligner):
        model = Aligner(model)
    return model(sound, text, rate, ivector=ivector, channel=channel, unknown_words=unknown_words)


def alignment_graph(folder: ModelFolder, model: TransitionModel) -> Fst | LookaheadGraph:
    """Return a folder's decoding graph: a LookaheadGraph of HCLr.fst and Gr.fst if it has them, else HCLG.fst."""
    if folder.is_lookahead or folder.phrase_graph:
        graph = read_decoding_graph(folder, model) if folder.is_lookahead else read_phrase_graph(folder, model)
        assert isinstance(graph, LookaheadGraph)
        return graph
    return read_fst_file(folder.graph)


def graph_of_words(graph: Fst | LookaheadGraph, words: Sequence[int | Sequence[int]],
                   may_stop: bool = False) -> Fst | LookaheadGraph:
    """Return the part of a graph that accepts just these words.

    Parameters
    ----------
    graph : Fst from transition-ids to words; or LookaheadGraph, whose grammar is replaced, so that the words can be in
        any order
    words : the word-id of each word, or several word-ids of which a path has one
    may_stop : whether any number of words at the end may be missing

    Raises Nnet3Error if the graph has no path for the words.
    """
    line = _line([word if isinstance(word, Sequence) else (word,) for word in words], may_stop)
    if isinstance(graph, LookaheadGraph):
        labels = graph.label_of_word
        unknown = [word for word in line.input_labels.tolist() if word >= len(labels) or not labels[word]]
        if unknown:
            raise Nnet3Error(f"the model's graph has no path for the word number {unknown[0]}")
        return graph.with_grammar(relabeled(line, labels))
    part = from_openfst(compose(graph, line))
    if not part.num_states:
        raise Nnet3Error("the model's graph has no path for the words", "take a model with HCLr.fst and Gr.fst, which "
                         "allow words in any order")
    return part


def _line(words: Sequence[Sequence[int]], may_stop: bool) -> Fst:
    """Return the acceptor of a sequence of words; ``words`` are the alternative word-ids of each word."""
    places = np.repeat(np.arange(len(words)), [len(choices) for choices in words])
    labels = [word for choices in words for word in choices]
    is_final = np.arange(len(words) + 1) >= (0 if may_stop else len(words))
    return Fst.from_arcs(0, np.where(is_final, np.float32(0.0), NO_WEIGHT), places, labels, labels,
                         np.zeros(len(labels)), places + 1)


def best_alignment(part: Fst | LookaheadGraph, model: TransitionModel, log_likes: np.ndarray) -> Decoded:
    """Return the best path through an utterance's graph; ``log_likes`` is float32 (frames, pdfs).

    Raises Nnet3Error if no path reaches a final state, as for a sound that is too short.
    """
    decoded = Decoder(part, model, BEAM).decode(log_likes)
    if decoded is None or not decoded.reached_final:
        raise Nnet3Error("the words do not fit into the sound: it is too short for them",
                         "is it the text of this sound?")
    return decoded


def _cut(times: Sequence[tuple[int, int, int]], latest: int) -> tuple[int, int]:
    """Choose where a piece ends: in the middle of the longest pause in its second half.

    ``times`` are (word-id, first frame, number of frames); the piece ends before or at frame ``latest``, and at
    ``latest`` if no word ends before. Returns the number of words before the end, and the end as a frame.
    """
    ends = [begin + count for _, begin, count in times if begin + count <= latest]
    if not ends:
        return 0, min([latest, *(begin for _, begin, _ in times)]) or latest
    starts = [begin for _, begin, _ in times] + [latest]
    pauses = [(min(starts[number + 1], latest) - end if number + 1 < len(starts) else 0, number)
              for number, end in enumerate(ends) if end >= latest // 2] or [(0, len(ends) - 1)]
    pause, number = max(pauses)
    return number + 1, ends[number] + pause // 2


def spelled_alike(word: str, words: Sequence[str], count: int = _NUM_ALIKE) -> list[str]:
    """Return the ``count`` words that are spelled most like a word, best first, by their common letter bigrams."""
    def pairs(text: str) -> set[str]:
        text = f"<{text.casefold()}>"
        return {text[place:place + 2] for place in range(len(text) - 1)}

    wanted, margin = pairs(word), 1 + len(word) // 3
    likeness = ((2.0 * len(wanted & (others := pairs(other))) / (len(wanted) + len(others)), other) for other in words
                if abs(len(other) - len(word)) <= margin and other[0] not in "<[#!")
    return [other for _, other in nlargest(count, likeness)]


def phone_names(folder: ModelFolder) -> dict[int, str]:
    """Return the names of phones, from phones.txt beside the graph or in the folder; empty if there is none."""
    beside = [os.path.dirname(folder.graph)] if folder.graph else []
    for place in (*beside, os.path.join(folder.path, "graph"), folder.path, os.path.dirname(folder.model)):
        path = os.path.join(place, "phones.txt")
        if os.path.isfile(path):
            return dict(SymbolTable.read(path, "phone").names)
    return {}
