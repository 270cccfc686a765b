"""Results of recognition: text, words with times and confidences, alternatives, the lattice."""
from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from nnet3py.advice import Advising, elsewhere
from nnet3py.cached_property import cached_property
from nnet3py.decoding.symbols import SymbolTable
from nnet3py.errors import UsageError
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.lattices.best_path import best_paths, path_of
from nnet3py.lattices.composition import Composer, concatenation
from nnet3py.lattices.determinize_options import PrunedCompositionOptions
from nnet3py.lattices.phone_alignment import Alignment
from nnet3py.lattices.pruned_composition import ConstArpaLm
from nnet3py.lattices.scaling import Scales, scaled
from nnet3py.lattices.states import top_sorted
from nnet3py.lattices.word_errors import minimum_bayes_risk
from nnet3py.provided import Shown
from nnet3py.rnnlm.model import RnnLanguageModel
from nnet3py.transducers.compact_lattice import CompactLattice

logger = logging.getLogger(__name__)

NUM_ALTERNATIVES = 10
# As in vosk, for rescoring with an RNN language model.
_RNNLM_SCALE, _RNNLM_ORDER, _RNNLM_PRUNING = 0.5, 4, PrunedCompositionOptions(beam=3.0, max_arcs=3000)
_CONFIDENCE_SCALES = Scales(0.9, 1.0)     # of costs, as in vosk, before confidences are computed


class Word(NamedTuple):
    """A recognized word.

    Attributes
    ----------
    word : the word as in words.txt
    start, end : seconds since the stream began
    confidence : posterior probability of the word, from 0 to 1
    """

    word: str
    start: float
    end: float
    confidence: float


class AlignedPhone(NamedTuple):
    """A phone with its times.

    Attributes
    ----------
    phone : name of the phone
    start, end : seconds from the beginning of the sound
    first_frame, end_frame : the same times in frames of the network's output; ``end_frame`` is the frame after the last
    """

    phone: str
    start: float
    end: float
    first_frame: int
    end_frame: int


class AlignedWord(NamedTuple):
    """A word with its phones and its times, whose units are those of :class:`AlignedPhone`."""

    word: str
    start: float
    end: float
    first_frame: int
    end_frame: int
    phones: tuple[AlignedPhone, ...]


class AlignedText(NamedTuple):
    """The alignment of a text with a sound.

    Attributes
    ----------
    words : the words of the text, in order
    phones : the phones of the whole sound, with the silence around words
    transition_ids : int32 (frames,), one for each frame of the network's output
    log_likelihood : log-likelihood of the best path per frame, with acoustic scale and graph costs; a text that fits
        the sound better has a higher one
    seconds_per_frame : seconds from one frame of the network's output to the next
    """

    words: tuple[AlignedWord, ...]
    phones: tuple[AlignedPhone, ...]
    transition_ids: NDArray[np.int32]
    log_likelihood: float
    seconds_per_frame: float

    @property
    def text(self) -> str:
        """Words, separated by blanks."""
        return " ".join(word.word for word in self.words)


class Alternative(NamedTuple):
    """An alternative text, and its cost (graph and scaled acoustic cost); lower is better."""

    text: str
    cost: float


class TimedAlternative(NamedTuple):
    """An alternative text, with its words and their times, as in vosk.

    ``confidence`` is the negative cost of the text, with graph costs scaled by 0.9; ``confidence`` of each word is 1.
    """

    text: str
    confidence: float
    words: tuple[Word, ...]


@dataclass(frozen=True, eq=False)
class Result(Advising, Shown):
    """The result of a segment of a stream, or of all its segments.

    Attributes
    ----------
    words : tuple of Word
    start, end : start and end of the decoded sound, seconds since the stream began
    lattice : CompactLattice, acoustic costs without the acoustic scale, as Kaldi writes it; without states if nothing
        was decoded
    segments : results of the segments; the result of a single segment has only itself
    first_frame : number of decoded frames of the stream before the first frame of the lattice
    speaker : float32 (dim,), speaker vector, to be compared by the cosine; None without a speaker model, or if there
        was too little speech. Of several segments, the first vector
    speaker_frames : number of frames from which the vector was computed
    speaker_name : name of the speaker, after diarization (:func:`~nnet3py.recognition.diarization.with_speakers`)
    """

    _WHAT: ClassVar[str] = "a result"
    _ELSEWHERE: ClassVar[Mapping[str, str]] = elsewhere(**{
        "confidence confidences times timestamps":
            "[(word.word, word.start, word.end, word.confidence) for word in result.words]",
        "json as_dict to_dict to_json dict":
            "{'text': result.text, 'words': [word._asdict() for word in result.words]}",
        "transcript transcription sentence": "result.text", "hypotheses n_best": "result.nbest, result.best(20)"})

    words: tuple[Word, ...]
    start: float
    end: float
    lattice: CompactLattice = field(repr=False)
    _maker: ResultMaker = field(repr=False)
    first_frame: int = field(default=0, repr=False)
    _segments: tuple[Result, ...] = field(default=(), repr=False)
    speaker: NDArray[np.float32] | None = field(default=None, repr=False)
    speaker_frames: int = field(default=0, repr=False)
    speaker_name: str = ""

    @property
    def text(self) -> str:
        """Words, separated by blanks."""
        return " ".join(word.word for word in self.words)

    def __str__(self) -> str:
        return self.text

    def __getitem__(self, name: str) -> NoReturn:
        """Raise UsageError: results of vosk are dicts, but a Result has attributes."""
        raise UsageError(f"a result has attributes, not keys such as {name!r}", "result.text, result.words")

    @property
    def segments(self) -> tuple[Result, ...]:
        """Results of the segments, in order."""
        return self._segments or (self,)

    @cached_property
    def nbest(self) -> list[Alternative]:
        """Likeliest texts with their costs, at most ten, the best first; their words differ."""
        return self.best(NUM_ALTERNATIVES)

    def best(self, count: int) -> list[Alternative]:
        """Return at most ``count`` likeliest texts with their costs, the best first.

        ``text`` consists of the words of least expected error (minimum Bayes risk), so it need not be the first.
        """
        return self._maker.alternatives(self.lattice, count)

    def alternatives(self, count: int) -> list[TimedAlternative]:
        """Return at most ``count`` likeliest texts with the times of words, graph costs scaled by 0.9, as in vosk."""
        return self._maker.timed_alternatives(self.lattice, count, self.first_frame)

    @classmethod
    def joined(cls, segments: Sequence[Result]) -> Result:
        """Join the results of one or more consecutive segments into one result."""
        if len(segments) == 1:
            return segments[0]
        first, words = segments[0], tuple(word for segment in segments for word in segment.words)
        lattice = concatenation([segment.lattice for segment in segments])
        speaking = next((segment for segment in segments if segment.speaker is not None), first)
        return cls(words, first.start, segments[-1].end, lattice, first._maker, first.first_frame, tuple(segments),
                   speaking.speaker, speaking.speaker_frames)


@dataclass(frozen=True, eq=False)
class ResultMaker:
    """A maker of results from lattices, shared by streams.

    Attributes
    ----------
    words : SymbolTable of the words in the lattices
    model : TransitionModel of the lattices
    seconds_per_frame : seconds from one decoded frame to the next
    acoustic_scale : acoustic scale of the lattices
    align : function that aligns the arcs of a lattice with whole words; None: each word has the times of its arc
    rescore : function that replaces language model costs; None: no rescoring
    """

    words: SymbolTable
    model: TransitionModel
    seconds_per_frame: float
    acoustic_scale: float = 1.0
    align: Callable[[CompactLattice], Alignment] | None = None
    rescore: Callable[[CompactLattice], CompactLattice] | None = None

    def partial(self, words: np.ndarray) -> str:
        """Return the text of word-ids, int (words,)."""
        return self.words.text(words)

    def result(self, lattice: CompactLattice, first_frame: int, num_frames: int) -> Result:
        """Return the result of a segment.

        Parameters
        ----------
        lattice : CompactLattice of the segment, with scaled acoustic costs; without states if it has no frames
        first_frame : number of decoded frames of the stream before the segment
        num_frames : number of decoded frames of the segment
        """
        start, end = self._seconds(first_frame), self._seconds(first_frame + num_frames)
        if lattice.start < 0:
            return Result((), start, end, lattice, self, first_frame)
        lattice = self._rescored(lattice)
        words = self._words(scaled(lattice, _CONFIDENCE_SCALES), first_frame)
        return Result(words, start, end, scaled(lattice, Scales(1.0, 1.0 / self.acoustic_scale)), self, first_frame)

    def partial_words(self, lattice: CompactLattice, first_frame: int) -> tuple[Word, ...]:
        """Return the likeliest words of an unfinished segment's lattice, which has no final costs; () for none."""
        return self._words(lattice, first_frame) if lattice.start >= 0 else ()

    def _words(self, lattice: CompactLattice, first_frame: int) -> tuple[Word, ...]:
        """Return the words of a lattice with minimum Bayes risk, with times and confidences."""
        best = minimum_bayes_risk(self._aligned(lattice))
        return tuple(
            Word(self.words.text([number]), self._seconds(first_frame + begin), self._seconds(first_frame + stop),
                 min(1.0, confidence))
            for number, (begin, stop), confidence in zip(best.words, best.times, best.confidences, strict=True))

    def timed_alternatives(self, lattice: CompactLattice, count: int, first_frame: int) -> list[TimedAlternative]:
        """Return the ``count`` best paths of a lattice with the times of words.

        The lattice's acoustic costs have no acoustic scale; graph costs are scaled by 0.9.
        """
        alternatives = []
        scales = Scales(_CONFIDENCE_SCALES.graph, self.acoustic_scale)
        for path in best_paths(scaled(lattice, scales), count):
            contents = path_of(path)
            assert contents is not None
            aligned = top_sorted(self._aligned(path))
            times = first_frame + aligned.string_starts
            words = [Word(self.words.text([word]), self._seconds(begin), self._seconds(end), 1.0)
                     for word, begin, end in zip(aligned.labels, times[:-1], times[1:], strict=True) if word]
            alternatives.append(TimedAlternative(self.words.text(contents.words), -float(contents.cost), tuple(words)))
        return alternatives

    def alternatives(self, lattice: CompactLattice, count: int) -> list[Alternative]:
        """Return the texts and costs of a lattice's ``count`` best paths; its acoustic costs have no acoustic scale."""
        paths = [path_of(path) for path in best_paths(scaled(lattice, Scales(1.0, self.acoustic_scale)), count)]
        return [Alternative(self.words.text(path.words), float(path.cost)) for path in paths if path is not None]

    def _seconds(self, frames: float) -> float:
        """Return the duration of decoded frames in seconds, rounded to microseconds."""
        return round(float(frames) * self.seconds_per_frame, 6)

    def _aligned(self, lattice: CompactLattice) -> CompactLattice:
        if self.align is None:
            return lattice
        alignment = self.align(lattice)
        if alignment.problem:
            logger.debug("Words were not aligned well: %s", alignment.problem)
        return alignment.lattice if alignment.lattice.start >= 0 else lattice

    def _rescored(self, lattice: CompactLattice) -> CompactLattice:
        if self.rescore is None:
            return lattice
        rescored = self.rescore(lattice)
        if rescored.start < 0:
            logger.warning("The language model for rescoring allows no path of the lattice; costs stay as they are")
            return lattice
        return rescored


def aligner(model: TransitionModel, word_boundary: str,
            align_lexicon: str) -> Callable[[CompactLattice], Alignment] | None:
    """Return a function that aligns the arcs of a lattice with whole words; None if both names of files are empty.

    It uses the file ``word_boundary`` (word_boundary.int) or ``align_lexicon`` (align_lexicon.int).
    """
    from nnet3py.io.streams import read_text
    from nnet3py.lattices.word_alignment import (
        WordBoundaries,
        align_words,
        align_words_by_lexicon,
        read_alignment_lexicon,
        read_word_boundaries,
    )

    if word_boundary:
        boundaries = WordBoundaries(read_word_boundaries(read_text(word_boundary), word_boundary))
        return lambda lattice: align_words(lattice, model, boundaries)
    if align_lexicon:
        lexicon = read_alignment_lexicon(read_text(align_lexicon), align_lexicon)
        return lambda lattice: align_words_by_lexicon(lattice, model, lexicon)
    return None


def rescorer(old_grammar: str, new_grammar: str,
             rnnlm: RnnLanguageModel | None = None) -> Callable[[CompactLattice], CompactLattice] | None:
    """Return a function that replaces the costs of rescore/G.fst by those of rescore/G.carpa; None for empty names.

    Half of the new costs are then replaced by those of an RNN language model, if there is one, as in vosk.
    """
    from nnet3py.fst.const_arpa import ConstArpa
    from nnet3py.io.object_files import read_object
    from nnet3py.lattices.composition import as_acceptor_of_words, rescored_with_const_arpa, rescored_with_fst
    from nnet3py.transducers.fst_text import read_fst

    if not old_grammar:
        return None
    old = Composer(as_acceptor_of_words(read_object(old_grammar, read_fst)))
    new = ConstArpa.read(new_grammar)

    def rescored(lattice: CompactLattice) -> CompactLattice:
        lattice = rescored_with_const_arpa(rescored_with_fst(lattice, old, -1.0), new, 1.0)
        if rnnlm is not None and lattice.start >= 0:
            lattice = rnnlm.rescore(lattice, ConstArpaLm(new), scale=_RNNLM_SCALE, max_ngram_order=_RNNLM_ORDER,
                                    pruning=_RNNLM_PRUNING)
        return lattice

    return rescored
