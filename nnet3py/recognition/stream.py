"""A stream of sound that is recognized as it arrives: blocks go in, words come out."""
from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import ClassVar

import numpy as np

from nnet3py.advice import Advising, elsewhere
from nnet3py.errors import UsageError
from nnet3py.lattices.determinize_options import PhoneDeterminizeOptions
from nnet3py.random_sequence import philox
from nnet3py.recognition.options import EndpointOptions
from nnet3py.recognition.pipeline import SpeakerState
from nnet3py.recognition.results import Result, ResultMaker, Word
from nnet3py.recognition.sound import Block, samples_of
from nnet3py.recognition.speaker import SpeakerStream
from nnet3py.recognition.stream_decoder import StreamDecoder
from nnet3py.runtime.blas_threads import BlasAlone
from nnet3py.transducers.compact_lattice import CompactLattice

logger = logging.getLogger(__name__)

_NOISE_LENGTH = 1 << 16
# Kaldi's LatticeIncrementalDecoderConfig: determinize-max-delay, determinize-min-chunk-size, determinize-max-active.
_SETTLING_FRAMES, _LEAST_SETTLED, _FEW_PATHS = 60, 20, 200


class Stream(Advising):
    """A stream of sound, made by :meth:`Recognizer.stream`. Other streams may run in other threads at the same time.

    Sound is decoded in pieces of a fixed length, so that words do not depend on the sizes of blocks. After a piece that
    ends an utterance nothing more is decoded until :meth:`result` is called, which ends the segment there. A caller
    that does not ask for results at endpoints gets the whole sound as one segment.

    Parameters
    ----------
    decoder : StreamDecoder
    results : ResultMaker
    sample_rate : samples a second of the blocks
    chunk_seconds : length of the pieces
    dither : amplitude of the noise that is added to samples, always the same noise
    endpointing : whether to look for ends of utterances
    determinize : PhoneDeterminizeOptions; None: defaults
    at_once : whether a block is decoded when it comes, in pieces of at most the fixed length, as in vosk: then results
        depend slightly on the sizes of blocks, and :attr:`endpoint` refers to the end of a block
    speaker : SpeakerStream, for speaker vectors; None: no speaker vectors
    """

    _WHAT: ClassVar[str] = "a stream"
    _ELSEWHERE: ClassVar[Mapping[str, str]] = elsewhere(**{
        "accept AcceptWaveform write feed push process send": "stream.accept_waveform(samples)",
        "text words": "stream.partial of what is being said; stream.result().text ends it, stream.finish().text all",
        "PartialResult partial_result": "stream.partial", "Result": "stream.result()",
        "FinalResult close end": "stream.finish()"})

    def __init__(self, decoder: StreamDecoder, results: ResultMaker, sample_rate: float, chunk_seconds: float,
                 dither: float = 0.0, endpointing: bool = True, determinize: PhoneDeterminizeOptions | None = None,
                 at_once: bool = False, speaker: SpeakerStream | None = None) -> None:
        self._decoder, self._results, self._determinize = decoder, results, determinize
        self._speaker = speaker
        self._at_once = at_once
        self.sample_rate, self._endpointing, self._dither = sample_rate, endpointing, dither
        self._chunk = max(1, int(sample_rate * chunk_seconds))
        self._half_sample = b""
        self._waiting = np.zeros(0, dtype=np.float32)      # samples that are not decoded yet
        self._num_samples = 0                              # number of decoded samples
        self._endpoint = self._is_finished = False
        self._partial: tuple[int, str] = (0, "")           # number of decoded frames, and the text at that time
        # Number of frames to which the words extend, number of decoded frames at the last attempt, words.
        self._partial_words: tuple[int, int, tuple[Word, ...]] = (0, 0, ())

    def __repr__(self) -> str:
        ended = ", finished" if self._is_finished else ", endpoint" if self._endpoint else ""
        return f"<Stream: {self.seconds:.2f} s of {self.sample_rate:g} samples a second decoded{ended}>"

    def accept_waveform(self, block: Block) -> bool:
        """Take more sound, decode as far as possible, and return :attr:`endpoint`.

        Parameters
        ----------
        block : bytes of 16-bit samples (little-endian; half a sample at the end waits for the next block), an array of
            int16, or one of float32 or float64 from -1 to 1; one channel, any length

        Raises
        ------
        UsageError : another type, or a stream that is finished
        ShapeError : more than one channel
        NumericError : NaN or infinity; in all cases nothing of the block is taken
        """
        if self._is_finished:
            raise UsageError("the stream is finished and takes no more sound", "begin another stream")
        samples = self._samples(block)
        if self._endpoint:                 # no result was asked for: the sound that waits belongs to the same segment
            self._advance(stops=False)
        self._waiting = np.concatenate((self._waiting, samples)) if len(self._waiting) else samples
        self._advance(stops=True)
        return self._endpoint

    @property
    def endpoint(self) -> bool:
        """True if an utterance is over by the model's rules, until :meth:`result` is called or more sound comes."""
        return self._endpoint

    @property
    def partial(self) -> str:
        """Text of the best path of this segment so far."""
        count = self._decoder.num_frames_decoded
        if count != self._partial[0]:
            path = self._decoder.best_path(False) if count else None
            self._partial = count, self._results.partial(path.words) if path is not None else ""
        return self._partial[1]

    @property
    def partial_words(self) -> tuple[Word, ...]:
        """Likeliest words, with times and confidences, of the segment up to a frame with few remaining paths.

        These words hardly change any more. The frame moves on about every two seconds, as in Kaldi's
        LatticeIncrementalDecoder.
        """
        count, (settled, updated, words) = self._decoder.num_frames_decoded, self._partial_words
        if count - settled >= _SETTLING_FRAMES and count != updated:
            frame = self._decoder.search.frame_with_few_paths(settled + _LEAST_SETTLED, _FEW_PATHS)
            if frame > 0 and self._decoder.search.is_alive:
                lattice = self._decoder.partial_lattice(frame, self._determinize).lattice
                settled, words = frame, self._results.partial_words(lattice, self._decoder.frame_offset)
            self._partial_words = settled, count, words
        return words

    @property
    def endpoint_options(self) -> EndpointOptions:
        """EndpointOptions, the rules of when an utterance is over; may be assigned at any time."""
        return self._decoder.endpoint_options

    @endpoint_options.setter
    def endpoint_options(self, options: EndpointOptions) -> None:
        self._decoder.endpoint_options = options

    @property
    def num_frames(self) -> int:
        """Number of decoded frames of all segments."""
        return self._decoder.frame_offset + self._decoder.num_frames_decoded

    @property
    def seconds(self) -> float:
        """Seconds of sound that were decoded."""
        return self._num_samples / self.sample_rate

    @property
    def num_samples(self) -> int:
        """Number of samples that were accepted, decoded or not."""
        return self._num_samples + len(self._waiting)

    @property
    def can_be_kept(self) -> bool:
        """True if :func:`~nnet3py.recognition.transcribing.state_of` can save the stream now: between two segments."""
        return self._decoder.has_new_search and not self._is_finished

    @property
    def adaptation(self) -> SpeakerState:
        """SpeakerState, the adaptation to the speaker so far, for ``Recognizer.stream(adaptation=…)``."""
        return self._decoder.adaptation_state()

    def result(self) -> Result:
        """End this segment, and return its result; the next segment begins with the sound that follows.

        Accepted sound that is not decoded yet is then decoded up to the next end of an utterance. So
        ``while stream.endpoint: stream.result()`` gives the same segments for blocks of any size.
        """
        if self._is_finished:
            raise UsageError("the stream is finished: finish() gave the last result")
        result = self._segment_result()
        self._begin_segment()
        return result

    def drop(self) -> None:
        """End this segment without a result."""
        if self._is_finished:
            raise UsageError("the stream is finished: finish() gave the last result")
        self._begin_segment()

    def finish(self) -> Result:
        """End the sound, and return the result of the last segment."""
        if self._is_finished:
            raise UsageError("the stream is finished already")
        self._advance(stops=False)
        self._decode(len(self._waiting))
        self._is_finished, self._endpoint = True, False
        with BlasAlone(numpy_too=True):
            self._decoder.finish()
        return self._segment_result()

    # -- decoding ------------------------------------------------------------------------------------------------------

    def _begin_segment(self) -> None:
        self._endpoint, self._partial, self._partial_words = False, (0, ""), (0, 0, ())
        self._decoder.begin_segment()
        if not self._at_once:
            self._advance(stops=True)

    def _advance(self, stops: bool) -> None:
        """Decode the complete pieces of the accepted sound; ``stops``: only up to the end of an utterance."""
        self._endpoint = False
        if self._at_once:
            while len(self._waiting):
                self._decode(self._chunk)
            self._endpoint = self._endpointing and self._decoder.endpoint_detected()
            return
        while len(self._waiting) >= self._chunk and not (stops and self._endpoint):
            self._decode(self._chunk)
            self._endpoint = self._endpointing and self._decoder.endpoint_detected()

    def _decode(self, count: int) -> None:
        if not count:
            return
        piece, self._waiting = self._waiting[:count], self._waiting[count:]
        count = len(piece)
        if self._dither:
            places = np.arange(self._num_samples, self._num_samples + count) % _NOISE_LENGTH
            piece = piece + np.float32(self._dither) * _noise()[places]
        with BlasAlone(numpy_too=True):
            self._decoder.accept_waveform(piece, self.sample_rate)
            if self._speaker is not None:
                self._speaker.accept_waveform(piece, self.sample_rate)
        self._num_samples += count

    def _segment_result(self) -> Result:
        decoder = self._decoder
        count, lattice = decoder.num_frames_decoded, CompactLattice.empty()
        speaker = None
        if self._speaker is not None:
            speaker = self._speaker.segment_vector(decoder.search, decoder.frame_offset)
        if count and decoder.search.is_alive:
            decoder.finalize()
            lattice = decoder.lattice(True, self._determinize).lattice
        elif count:
            logger.warning("No path through the graph is left after %d frames; a wider beam may keep one", count)
        result = self._results.result(lattice, decoder.frame_offset, count)
        return result if speaker is None else replace(result, speaker=speaker.vector, speaker_frames=speaker.num_frames)

    def _samples(self, block: Block) -> np.ndarray:
        if isinstance(block, bytes | bytearray | memoryview):
            data = self._half_sample + bytes(block)
            whole = len(data) // 2 * 2
            self._half_sample = data[whole:]
            return samples_of(data[:whole])
        return samples_of(block)


@cache
def _noise() -> np.ndarray:
    """Return Gaussian noise for dithering, float32: digital silence then has features like recorded silence."""
    return philox(0).standard_normal(_NOISE_LENGTH).astype(np.float32)
