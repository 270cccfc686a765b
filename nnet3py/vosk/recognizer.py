"""Models and recognizer with vosk's interface, and results as vosk's JSON, XML and subtitles, byte by byte.
"""
from __future__ import annotations

import enum
import json
import logging
import warnings
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from nnet3py.errors import Nnet3Error, UsageError
from nnet3py.fst.openfst import compose, from_openfst, shortest_path
from nnet3py.log import show_log
from nnet3py.recognition import results
from nnet3py.recognition.model_folder import find_model
from nnet3py.recognition.options import EndpointOptions
from nnet3py.recognition.recognizer import Recognizer
from nnet3py.recognition.results import Result, TimedAlternative, Word
from nnet3py.recognition.stream import Stream
from nnet3py.transducers.fst import NO_WEIGHT, Fst
from nnet3py.transducers.fst_text import read_fst_file

if TYPE_CHECKING:
    from nnet3py.recognition.speaker import SpeakerModel


logger = logging.getLogger(__name__)


def SetLogLevel(level: int) -> None:      # noqa: N802 - vosk's name
    """Set the level of the logger ``nnet3py``; -1 for no messages, 0 for INFO, 1 and more for DEBUG."""
    nnet3py = logging.getLogger("nnet3py")
    if level >= 0:
        show_log()
    nnet3py.setLevel(logging.CRITICAL + 1 if level < 0 else logging.INFO if level == 0 else logging.DEBUG)


class Model:
    """Model for recognition, shared by any number of recognizers.

    Parameters
    ----------
    model_path : folder of the model
    model_name, lang : name or language of a model in the folders that ``recognition/model_folder.py`` searches; nothing
        is downloaded

    Raises
    ------
    Exception : no such model, or an unusable one, as in vosk; the reason is logged as an error
    """

    def __init__(self, model_path: str | None = None, model_name: str | None = None, lang: str | None = None) -> None:
        try:
            path = model_path if model_path is not None else self.get_model_path(model_name, lang)
            self.recognizer = Recognizer(path)
        except Nnet3Error as error:
            logger.error("%s", error)
            raise Exception("Failed to create a model") from error

    @classmethod
    def of(cls, recognizer: Recognizer) -> Model:
        """Wrap a recognizer that is loaded already."""
        model = cls.__new__(cls)
        model.recognizer = recognizer
        return model

    def vosk_model_find_word(self, word: str) -> int:
        """Return the number of a word in ``words.txt``; -1 for an unknown word."""
        words = self.recognizer.words
        return words[word] if word in words else -1

    def get_model_path(self, model_name: str | None, lang: str | None) -> str:
        """Return the folder of a model by name or language. Raises Nnet3Error if there is none."""
        return find_model(lang, model_name)

    def get_model_by_name(self, model_name: str) -> str:
        """Return the folder of a model by name. Raises Nnet3Error if there is none."""
        return find_model(name=model_name)

    def get_model_by_lang(self, lang: str) -> str:
        """Return the folder of a model by language. Raises Nnet3Error if there is none."""
        return find_model(lang)


class SpkModel:
    """Model of speaker vectors (x-vectors). Raises Exception for an unusable folder; the reason is logged."""

    def __init__(self, model_path: str) -> None:
        from nnet3py.recognition.speaker import SpeakerModel

        try:
            self.speaker_model: SpeakerModel = SpeakerModel.read(model_path)
        except Nnet3Error as error:
            logger.error("%s", error)
            raise Exception("Failed to create a speaker model") from error


# -- text processing ---------------------------------------------------------------------------------------------------


class Processor:
    """Text processor, such as for writing numbers as digits, that applies two transducers (FSTs over bytes) to a text.

    The project WeTextProcessing makes such transducers. Needs the extra ``decode``.

    Parameters
    ----------
    tagger_path : file of the transducer that marks tokens in the text
    verbalizer_path : file of the transducer that replaces the marked tokens by their written form

    Raises
    ------
    Exception : a file that is not a transducer; the reason is logged as an error
    """

    def __init__(self, tagger_path: str, verbalizer_path: str) -> None:
        try:
            self._steps = [read_fst_file(path) for path in (tagger_path, verbalizer_path)]
        except Nnet3Error as error:
            logger.error("%s", error)
            raise Exception("Failed to create processor") from error

    def process(self, text: str) -> str:
        """Rewrite a text; empty if the transducers do not accept it. Raises Nnet3Error if kaldifst is missing."""
        content = text.encode()
        for transducer in self._steps:
            content = _best_output(content, transducer) if content else content
        return content.replace(b"\0", b"").decode("utf-8", "replace")


def _best_output(content: bytes, transducer: Fst) -> bytes:
    """Return the output labels of the cheapest path for the input bytes, as bytes; b"" if there is no path."""
    labels, states = np.frombuffer(content, dtype=np.uint8).astype(np.int32), np.arange(len(content) + 1)
    finals = np.where(states == len(content), np.float32(0.0), NO_WEIGHT)
    line = Fst.from_arcs(0, finals, states[:-1], labels, labels, np.zeros(len(labels)), states[1:])
    best = from_openfst(shortest_path(from_openfst(compose(line, transducer))))
    output, state = bytearray(), best.start
    while state >= 0 and best.arc_starts[state] < best.arc_starts[state + 1]:
        arc = int(best.arc_starts[state])
        output += bytes([best.output_labels[arc]]) if best.output_labels[arc] else b""
        state = int(best.next_states[arc])
    return bytes(output)


# -- batch recognition on GPUs: not supported -------------------------------------------------------------------------

_INSTEAD = ("vosk's batch recognizer, which decodes many streams on one GPU, is not part of nnet3py.vosk; use Model "
            "and KaldiRecognizer (streams in several threads compute the network together), or nnet3py.Recognizer with "
            "device='cuda', for the network on a GPU")


class BatchModel:
    """Placeholder for vosk's class: raises NotImplementedError, whose message names what to use instead."""

    def __init__(self, *args: Any) -> NoReturn:
        raise NotImplementedError(_INSTEAD)


class BatchRecognizer:
    """Placeholder for vosk's class: raises NotImplementedError, whose message names what to use instead."""

    def __init__(self, *args: Any) -> NoReturn:
        raise NotImplementedError(_INSTEAD)


def GpuInit() -> None:      # noqa: N802 - vosk's name
    """Warn that recognizers compute on the CPU; otherwise do nothing, as vosk does without a GPU."""
    warnings.warn(_INSTEAD, stacklevel=2)


def GpuThreadInit() -> None:      # noqa: N802 - vosk's name
    """Do nothing: threads need no preparation."""


_MOST_FRAMES = 20_000          # decoded frames, ten minutes, after which a new stream resets features and i-vectors
_BLOCK = 4000                  # bytes that SrtResult reads at once


class EndpointerMode(enum.Enum):
    """Length of the silence that ends an utterance, relative to the model's."""

    DEFAULT = 0
    SHORT = 1
    LONG = 2
    VERY_LONG = 3


class _State(enum.Enum):
    INITIALIZED = enum.auto()
    RUNNING = enum.auto()
    ENDPOINT = enum.auto()
    FINALIZED = enum.auto()


class KaldiRecognizer:      # noqa: N801
    """Recognizer of one stream of sound. Any number of recognizers share a model.

    Parameters
    ----------
    model : :class:`Model`
    rate : sample rate in Hz
    third : :class:`SpkModel`, or a phrase list as a JSON list of texts

    Raises
    ------
    TypeError : other arguments
    Exception : a recognizer that cannot be made; the reason is logged as an error
    """

    def __init__(self, *args: Any) -> None:
        if not 2 <= len(args) <= 3 or not isinstance(args[0], Model) or (
                len(args) == 3 and not isinstance(args[2], SpkModel | str)):
            raise TypeError("Unknown arguments")
        self._recognizer, self._rate = args[0].recognizer, float(args[1])
        self._speaker_model: SpkModel | None = None
        self._phrase_list: list[str] = []
        self._max_alternatives, self._words, self._partial_words, self._nlsml = 0, False, False, False
        self._endpoints: EndpointOptions | None = None
        self._state = _State.INITIALIZED
        self._stream: Stream | None = None
        self._offset, self._num_samples = 0.0, 0                   # seconds of earlier streams; samples so far
        if len(args) == 3 and isinstance(args[2], SpkModel):
            self._speaker_model = args[2]
        try:
            if len(args) == 3 and isinstance(args[2], str):
                self._phrase_list = _phrases(args[2])
            self._begin_stream()
        except Nnet3Error as error:
            logger.error("%s", error)
            raise Exception("Failed to create a recognizer") from error

    # -- settings ------------------------------------------------------------------------------------------------------

    def SetMaxAlternatives(self, max_alternatives: int) -> None:      # noqa: N802
        """Set the largest number of alternatives in results; 0: results have only the likeliest words."""
        self._max_alternatives = max_alternatives

    def SetWords(self, enable_words: bool) -> None:      # noqa: N802
        """Set whether results have a list of words with times and confidences."""
        self._words = bool(enable_words)

    def SetPartialWords(self, enable_partial_words: bool) -> None:      # noqa: N802
        """Set whether partial results have words with times and confidences: those that no longer change."""
        self._partial_words = bool(enable_partial_words)

    def SetNLSML(self, enable_nlsml: bool) -> None:      # noqa: N802
        """Set whether results with alternatives are XML (NLSML) instead of JSON."""
        self._nlsml = bool(enable_nlsml)

    def SetEndpointerMode(self, mode: EndpointerMode) -> None:      # noqa: N802
        """Set whether a shorter or longer silence than the model's ends an utterance."""
        self._set_endpoints(self._recognizer.endpoint_options.with_mode(
            EndpointerMode(mode).name.lower().replace("_", "-")))

    def SetEndpointerDelays(self, t_start_max: float, t_end: float, t_max: float) -> None:      # noqa: N802
        """Set when an utterance ends.

        Parameters
        ----------
        t_start_max : seconds of silence before the first word
        t_end : seconds of silence after the last word
        t_max : seconds of the longest utterance
        """
        self._set_endpoints(self._recognizer.endpoint_options.with_delays(t_start_max, t_end, t_max))

    def _set_endpoints(self, options: EndpointOptions) -> None:
        self._endpoints = options
        if self._stream is not None:
            self._stream.endpoint_options = options

    def SetSpkModel(self, spk_model: SpkModel) -> None:      # noqa: N802
        """Add speaker vectors to results. Raises Exception while an utterance lasts."""
        if self._state is _State.RUNNING:
            raise Exception("Can't add speaker model to already running recognizer")
        self._speaker_model = spk_model
        self._begin_stream()

    def SetGrammar(self, grammar: str) -> None:      # noqa: N802
        """Set the phrases, a JSON list of texts; ``[]`` for all words. Raises Exception while an utterance lasts."""
        if self._state is _State.RUNNING:
            raise Exception("Can't add grammar to already running recognizer")
        try:
            self._phrase_list = _phrases(grammar)
        except Nnet3Error as error:
            logger.error("%s", error)
            return
        self._begin_stream()
        self._state = _State.INITIALIZED

    # -- sound ---------------------------------------------------------------------------------------------------------

    def _begin_stream(self) -> None:
        self._offset += self._num_samples / self._rate
        self._num_samples = 0
        speaker = None if self._speaker_model is None else self._speaker_model.speaker_model
        self._stream = self._recognizer.stream(self._rate, phrase_list=self._phrase_list, at_once=True,
                                               speaker_model=speaker)
        if self._endpoints is not None:
            self._stream.endpoint_options = self._endpoints

    def AcceptWaveform(self, data: bytes) -> int:      # noqa: N802
        """Accept 16-bit samples, little-endian, of one channel; return 1 at the end of an utterance, else 0."""
        if self._stream is None or self._state is _State.FINALIZED or (
                self._state is _State.ENDPOINT and self._stream.num_frames > _MOST_FRAMES):
            self._begin_stream()
        assert self._stream is not None
        self._state = _State.RUNNING
        samples = np.frombuffer(data, dtype="<i2", count=len(data) // 2)
        self._num_samples += len(samples)
        return int(self._stream.accept_waveform(samples))

    # -- results -------------------------------------------------------------------------------------------------------

    def Result(self) -> str:      # noqa: N802
        """Return the result of the utterance as text in JSON or XML, and end the utterance."""
        if self._state is not _State.RUNNING or self._stream is None:
            return self._empty_result()
        self._state = _State.ENDPOINT
        return self._answer(self._stream.result())

    def PartialResult(self) -> str:      # noqa: N802
        """Return the text of the current utterance so far, as JSON."""
        if self._state is not _State.RUNNING or self._stream is None:
            return self._empty_result()
        if self._partial_words:
            return partial_words_text(self._stream.partial_words, self._offset)
        return partial_text(self._stream.partial)

    def FinalResult(self) -> str:      # noqa: N802
        """Return the result of the last utterance and end the stream. Later sound begins a new stream."""
        if self._state is not _State.RUNNING or self._stream is None:
            return self._empty_result()
        self._state = _State.FINALIZED
        text = self._answer(self._stream.finish())
        self._stream = None
        return text

    def Reset(self) -> None:      # noqa: N802
        """Discard the utterance."""
        if self._state is _State.RUNNING and self._stream is not None:
            self._stream.drop()
        if self._state is not _State.FINALIZED:
            self._state = _State.ENDPOINT

    def SrtResult(self, stream: Any, words_per_line: int = 7) -> str:      # noqa: N802
        """Recognize a binary stream to its end and return subtitles (SubRip). Call :meth:`SetWords` before."""
        results = []
        while data := stream.read(_BLOCK):
            if self.AcceptWaveform(data):
                results.append(self.Result())
        results.append(self.FinalResult())
        return subtitles([json.loads(text) for text in results], words_per_line)

    def _answer(self, result: results.Result) -> str:
        if result.lattice.start < 0:
            return self._empty_result()
        if self._max_alternatives <= 0:
            return result_text(result, self._offset, self._words)
        if self._nlsml:
            return nlsml_text(result.alternatives(self._max_alternatives))
        return alternatives_text(result, self._max_alternatives, self._offset, self._words)

    def _empty_result(self) -> str:
        if self._max_alternatives <= 0:
            return EMPTY
        return EMPTY_NLSML if self._nlsml else EMPTY_ALTERNATIVES


def _phrases(text: str) -> list[str]:
    """Parse a JSON list of phrases. Raises UsageError for anything else."""
    try:
        phrases = json.loads(text)
    except ValueError:
        phrases = None
    if not isinstance(phrases, list) or not all(isinstance(phrase, str) for phrase in phrases):
        raise UsageError(f"expected a phrase list, a JSON list of texts, found {text[:80]!r}")
    return phrases


# -- results -----------------------------------------------------------------------------------------------------------

EMPTY = '{"text": ""}'
EMPTY_ALTERNATIVES = '{"alternatives" : [{"text": "", "confidence" : 1.0}] }'
EMPTY_NLSML = """<?xml version="1.0"?>
<result grammar="default">
<interpretation confidence="1.0">
<instance/>
<input><noinput/></input>
</interpretation>
</result>
"""
_ESCAPES = str.maketrans({'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"})


def dump(value: Any, depth: int = 1) -> str:
    """Format JSON in vosk's layout: sorted keys, six decimals, two blanks of indentation for each level."""
    if isinstance(value, dict):
        inside = ",\n".join(f'{"  " * depth}"{key}" : {dump(value[key], depth + 1)}' for key in sorted(value))
        return "{\n" + inside + "\n" + "  " * (depth - 1) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(dump(each, depth + 1) for each in value) + "]"
    if isinstance(value, str):
        return f'"{value.translate(_ESCAPES)}"'
    return str(value) if isinstance(value, int) else f"{value:.6f}"


def _timed(words: Iterable[Word], offset: float, with_confidence: bool) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = []
    for word in words:
        entries.append({"word": word.word, "start": word.start + offset, "end": word.end + offset})
        if with_confidence:
            entries[-1]["conf"] = word.confidence
    return entries


def result_text(result: Result, offset: float, with_words: bool) -> str:
    """Format a result as JSON; ``offset`` in seconds is added to times."""
    answer: dict[str, Any] = {"text": result.text}
    if with_words and result.words:
        answer["result"] = _timed(result.words, offset, True)
    return dump({**answer, **_speaker(result)})


def alternatives_text(result: Result, count: int, offset: float, with_words: bool) -> str:
    """Format the ``count`` likeliest paths of a result as JSON; ``offset`` in seconds is added to times."""
    alternatives = []
    for alternative in result.alternatives(count):
        entry: dict[str, Any] = {"text": alternative.text, "confidence": alternative.confidence}
        if with_words and alternative.words:
            entry["result"] = _timed(alternative.words, offset, False)
        alternatives.append(entry)
    return dump({"alternatives": alternatives, **_speaker(result)})


def nlsml_text(alternatives: Sequence[TimedAlternative]) -> str:
    """Format alternatives as XML, in the Natural Language Semantics Markup Language."""
    parts = ['<?xml version="1.0"?>\n<result grammar="default">\n']
    for alternative in alternatives:
        parts.append(f'<interpretation grammar="default" confidence="{np.float32(alternative.confidence):.6g}">\n'
                     f'<input mode="speech">{alternative.text}</input>\n<instance>{alternative.text}</instance>\n'
                     "</interpretation>\n")
    return "".join([*parts, "</result>\n"])


def partial_text(text: str) -> str:
    """Format a partial result as JSON."""
    return dump({"partial": text})


def partial_words_text(words: Sequence[Word], offset: float) -> str:
    """Format a partial result with times and confidences as JSON; ``offset`` in seconds is added to times."""
    answer: dict[str, Any] = {"partial": " ".join(word.word for word in words)}
    return dump({**answer, "partial_result": _timed(words, offset, True)} if words else answer)


def _speaker(result: Result) -> dict[str, Any]:
    return {} if result.speaker is None else {"spk": result.speaker.tolist(), "spk_frames": result.speaker_frames}


# -- subtitles ---------------------------------------------------------------------------------------------------------


def subtitles(results: Iterable[dict[str, Any]], words_per_line: int = 7) -> str:
    """Format results, dicts of vosk's JSON with words, as SubRip subtitles, as the package srt does for vosk."""
    cues = []
    for result in results:
        words = result.get("result", [])
        for first in range(0, len(words), words_per_line):
            line = words[first:first + words_per_line]
            cues.append((line[0]["start"], line[-1]["end"], " ".join(word["word"] for word in line)))
    return "".join(f"{number}\n{_clock(start)} --> {_clock(end)}\n{text}\n\n"
                   for number, (start, end, text) in enumerate(cues, 1))


def _clock(seconds: float) -> str:
    """Format a time as HH:MM:SS,mmm; milliseconds are truncated, as in the package srt."""
    microseconds = round(seconds * 1_000_000)
    minutes, milliseconds = divmod(microseconds // 1000, 60_000)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02}:{minutes:02}:{milliseconds // 1000:02},{milliseconds % 1000:03}"
