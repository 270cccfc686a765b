"""vosk's recognizer: what it has heard, and the answers to it."""
from __future__ import annotations

import enum
import json
import logging
from typing import Any

import numpy as np

from nnet3py.errors import Nnet3Error, UsageError
from nnet3py.recognition import results
from nnet3py.recognition.stream import Stream
from nnet3py.recognition.stream_options import EndpointOptions
from nnet3py.vosk import answers
from nnet3py.vosk.models import Model, SpkModel
from nnet3py.vosk.subtitles import subtitles

logger = logging.getLogger(__name__)

_MOST_FRAMES = 20_000          # decoded, ten minutes; then features and i-vectors begin anew
_BLOCK = 4000                  # bytes


class EndpointerMode(enum.Enum):
    """How long the silence is after which an utterance is over."""

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
    """A stream of sound that is recognized; for each a recognizer, of which any number share a model.

    Parameters
    ----------
    model : a :class:`Model`
    rate : samples a second
    third : a :class:`SpkModel`; or a phrase list, a JSON list of texts

    Raises TypeError for other arguments; Exception, after the reason was logged, if there can be no such recognizer.
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
        self._offset, self._num_samples = 0.0, 0                   # seconds of earlier streams; samples of this one
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
        """Answer with so many alternatives instead of the likeliest words; 0: with these."""
        self._max_alternatives = max_alternatives

    def SetWords(self, enable_words: bool) -> None:      # noqa: N802
        """Whether results have words with times."""
        self._words = bool(enable_words)

    def SetPartialWords(self, enable_partial_words: bool) -> None:      # noqa: N802
        """Whether partial results have words with times and confidences, as far as these are settled."""
        self._partial_words = bool(enable_partial_words)

    def SetNLSML(self, enable_nlsml: bool) -> None:      # noqa: N802
        """Whether alternatives are given as XML."""
        self._nlsml = bool(enable_nlsml)

    def SetEndpointerMode(self, mode: EndpointerMode) -> None:      # noqa: N802
        """How long the silence is after which an utterance is over."""
        self._set_endpoints(self._recognizer.endpoint_options.with_mode(
            EndpointerMode(mode).name.lower().replace("_", "-")))

    def SetEndpointerDelays(self, t_start_max: float, t_end: float, t_max: float) -> None:      # noqa: N802
        """Seconds: of silence before words, of silence after them, of the longest utterance."""
        self._set_endpoints(self._recognizer.endpoint_options.with_delays(t_start_max, t_end, t_max))

    def _set_endpoints(self, options: EndpointOptions) -> None:
        self._endpoints = options
        if self._stream is not None:
            self._stream.endpoint_options = options

    def SetSpkModel(self, spk_model: SpkModel) -> None:      # noqa: N802
        """Tell speakers apart from now on; before the first sound."""
        if self._state is _State.RUNNING:
            raise Exception("Can't add speaker model to already running recognizer")
        self._speaker_model = spk_model
        self._begin_stream()

    def SetGrammar(self, grammar: str) -> None:      # noqa: N802
        """Another phrase list, a JSON list of texts; ``[]``: whatever the model knows. Not while an utterance lasts."""
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
        """Take 16-bit samples, little-endian, of one channel; 1 if an utterance is over, else 0."""
        if self._stream is None or self._state is _State.FINALIZED or (
                self._state is _State.ENDPOINT and self._stream.num_frames > _MOST_FRAMES):
            self._begin_stream()
        assert self._stream is not None
        self._state = _State.RUNNING
        samples = np.frombuffer(data, dtype="<i2", count=len(data) // 2)
        self._num_samples += len(samples)
        return int(self._stream.accept_waveform(samples))

    # -- answers -------------------------------------------------------------------------------------------------------

    def Result(self) -> str:      # noqa: N802
        """What was said in the utterance, which ends here."""
        if self._state is not _State.RUNNING or self._stream is None:
            return self._nothing()
        self._state = _State.ENDPOINT
        return self._answer(self._stream.result())

    def PartialResult(self) -> str:      # noqa: N802
        """What was said so far in the utterance."""
        if self._state is not _State.RUNNING or self._stream is None:
            return self._nothing()
        if self._partial_words:
            return answers.partial_words_text(self._stream.partial_words, self._offset)
        return answers.partial_text(self._stream.partial)

    def FinalResult(self) -> str:      # noqa: N802
        """What was said in the last utterance: there is no more sound; what comes nevertheless is another stream."""
        if self._state is not _State.RUNNING or self._stream is None:
            return self._nothing()
        self._state = _State.FINALIZED
        text = self._answer(self._stream.finish())
        self._stream = None
        return text

    def Reset(self) -> None:      # noqa: N802
        """Forget the utterance."""
        if self._state is _State.RUNNING and self._stream is not None:
            self._stream.drop()
        if self._state is not _State.FINALIZED:
            self._state = _State.ENDPOINT

    def SrtResult(self, stream: Any, words_per_line: int = 7) -> str:      # noqa: N802
        """Recognize all that a binary stream has, and give it as subtitles; words are needed (:meth:`SetWords`)."""
        results = []
        while data := stream.read(_BLOCK):
            if self.AcceptWaveform(data):
                results.append(self.Result())
        results.append(self.FinalResult())
        return subtitles([json.loads(text) for text in results], words_per_line)

    def _answer(self, result: results.Result) -> str:
        if result.lattice.start < 0:
            return self._nothing()
        if self._max_alternatives <= 0:
            return answers.result_text(result, self._offset, self._words)
        if self._nlsml:
            return answers.nlsml_text(result.alternatives(self._max_alternatives))
        return answers.alternatives_text(result, self._max_alternatives, self._offset, self._words)

    def _nothing(self) -> str:
        if self._max_alternatives <= 0:
            return answers.EMPTY
        return answers.EMPTY_NLSML if self._nlsml else answers.EMPTY_ALTERNATIVES


def _phrases(text: str) -> list[str]:
    """The phrases of a JSON list. UsageError for anything else."""
    try:
        phrases = json.loads(text)
    except ValueError:
        phrases = None
    if not isinstance(phrases, list) or not all(isinstance(phrase, str) for phrase in phrases):
        raise UsageError(f"expected a phrase list, a JSON list of texts, found {text[:80]!r}")
    return phrases
