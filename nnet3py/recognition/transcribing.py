"""Transcribing files of sound; the state of a stream is saved, so that an interrupted long file can be continued.

The saved state has the samples, frames, statistics and network memory of the stream. Objects that streams share
(models, tables, the graph) are saved by name, and looked up in a stream of the same model. A state is read as data:
nothing in it can run code.
"""
from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import logging
import os
import pickle
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from nnet3py.decoding.lattice_decoder import LatticeDecoder
from nnet3py.errors import Nnet3Error, within
from nnet3py.recognition.model_folder import ModelFolder, stamp
from nnet3py.recognition.results import Result, Word
from nnet3py.recognition.sound import STANDARD_INPUT, Listed, Sound, open_sound
from nnet3py.recognition.stream import Stream
from nnet3py.runtime.chunk_batch import StreamState

if TYPE_CHECKING:
    from nnet3py.recognition.stream import Stream


@dataclass(frozen=True)
class TranscribedSegment:
    """A transcribed segment (an utterance, or a speaker's turn) of a file of sound."""

    words: tuple[Word, ...]
    # start, end: start and end of the segment, seconds since the sound began
    start: float
    end: float
    # speaker vector, to be compared by the cosine; None without a speaker model
    speaker: tuple[float, ...] | None = None
    speaker_name: str = ""  # name of the speaker, after diarization

    @property
    def text(self) -> str:
        """The words, with blanks between them."""
        return " ".join(word.word for word in self.words)

    @property
    def segments(self) -> tuple[TranscribedSegment, ...]:
        """A tuple of the segment itself, so that a segment can be written like a transcript."""
        return (self,)


@dataclass(frozen=True)
class Transcript:
    """The words of a file of sound, as data for other processes, without lattices and alternatives."""

    path: str                                      # the file
    name: str                                      # name of its result, without ending
    duration: float = 0.0                          # seconds of sound
    model: str = ""                                # name of the model
    segments: tuple[TranscribedSegment, ...] = ()  # the utterances
    error: str = ""                                # why the file could not be transcribed; empty if it was

    @property
    def words(self) -> tuple[Word, ...]:
        """The words of all segments."""
        return tuple(word for segment in self.segments for word in segment.words)

    @property
    def text(self) -> str:
        """The words, with blanks between them."""
        return " ".join(word.word for word in self.words)

    @property
    def start(self) -> float:
        """Start of the first segment, seconds."""
        return self.segments[0].start if self.segments else 0.0

    @property
    def end(self) -> float:
        """End of the last segment, seconds."""
        return self.segments[-1].end if self.segments else 0.0

    @property
    def speaker(self) -> tuple[float, ...] | None:
        """Speaker vector of the first segment that has one."""
        return next((segment.speaker for segment in self.segments if segment.speaker is not None), None)

    @property
    def speaker_name(self) -> str:
        """Empty: a whole sound may have several speakers."""
        return ""

    def __str__(self) -> str:
        return self.text

    def with_speakers(self, speaker_of: Callable[[Word], str]) -> Transcript:
        """Return a transcript whose segments end where another speaker begins, each with its ``speaker_name``.

        ``speaker_of`` returns the speaker of a word.
        """
        return replace(self, segments=tuple(
            replace(segment, words=words, start=words[0].start, end=words[-1].end, speaker_name=name)
            for segment in self.segments for name, words in words_of_speakers(segment.words, speaker_of)))

    def as_data(self) -> dict[str, Any]:
        """Return the transcript as a dict that can be written as JSON without loss; :meth:`of_data` is the inverse."""
        return {**vars(self), "segments": as_data(self.segments)}

    @classmethod
    def of_data(cls, data: Mapping[str, Any]) -> Transcript:
        """Return the transcript of a dict that :meth:`as_data` has returned."""
        return cls(**{**data, "segments": segments_of(data["segments"])})


def words_of_speakers(words: Sequence[Word],
                      speaker_of: Callable[[Word], str]) -> Iterator[tuple[str, tuple[Word, ...]]]:
    """Split words where the speaker changes; yield the speaker and the words of each part."""
    for name, group in groupby(words, key=speaker_of):
        yield name, tuple(group)


def segment_of(result: Result) -> TranscribedSegment:
    """Return the transcript of a segment's result."""
    speaker = None if result.speaker is None else tuple(float(value) for value in result.speaker)
    return TranscribedSegment(result.words, result.start, result.end, speaker, result.speaker_name)


def as_data(segments: Iterable[TranscribedSegment]) -> list[dict[str, Any]]:
    """Return segments as dicts that can be written as JSON without loss; :func:`segments_of` is the inverse."""
    return [vars(segment) for segment in segments]


def segments_of(data: Iterable[Mapping[str, Any]]) -> tuple[TranscribedSegment, ...]:
    """Return the segments of dicts that :func:`as_data` has returned."""
    return tuple(TranscribedSegment(**{
        **segment, "words": tuple(Word(*word) for word in segment["words"]),
        "speaker": None if segment["speaker"] is None else tuple(segment["speaker"])}) for segment in data)


_SEARCH, _CARRIED, _SHARED = "search", "carried", "shared"      # kinds of objects that are not pickled as such
# Modules and classes whose objects belong to one stream, and numpy's functions for arrays, numbers and generators.
_READABLE = ("nnet3py.feat.", "nnet3py.ivectors.online", "nnet3py.runtime.frame_buffer", *(
    f"nnet3py.recognition.{name}" for name in ("stream", "stream_decoder", "pipeline", "silence", "options",
                                               "ivector_stream", "speaker")))
_ALSO = {("nnet3py.runtime.looped", "LoopedStream"), ("builtins", "object"), ("builtins", "slice"),
         ("copyreg", "_reconstructor"), ("collections", "deque")}
_OF_NUMPY = ("ndarray", "dtype", "_reconstruct", "scalar", "_frombuffer", "__generator_ctor", "__bit_generator_ctor",
             "Generator", "PCG64", "Philox", "SeedSequence")


def state_of(stream: Stream) -> bytes:
    """Serialize a stream between two segments (:attr:`Stream.can_be_kept`); :func:`stream_from` is the inverse.

    Raises Nnet3Error within a segment, or for a network on a GPU.
    """
    if not stream.can_be_kept:
        raise Nnet3Error("the state of a stream can be saved only between two segments")
    if not isinstance(stream._decoder._looped._states.buffer, np.ndarray):
        raise Nnet3Error("the state of a stream on a GPU cannot be saved")
    target = io.BytesIO()
    _Writer(target, stream).dump(stream)
    return target.getvalue()


def stream_from(state: bytes, like: Stream) -> Stream:
    """Return a stream that continues from a saved state.

    ``state``: bytes of :func:`state_of`. ``like``: a stream without sound, of the same model and with the same
    settings.

    Raises Nnet3Error for damaged bytes, or the state of another model.
    """
    try:
        stream = _Reader(io.BytesIO(state), like).load()
    except Exception as error:            # damaged bytes can raise anything
        raise Nnet3Error(f"the state of a stream cannot be read: {error}") from None
    if type(stream) is not type(like):
        raise Nnet3Error(f"expected the state of a stream, found {type(stream).__name__}")
    return stream


class _Writer(pickle.Pickler):
    def __init__(self, target: io.BytesIO, stream: Stream) -> None:
        super().__init__(target, protocol=5)
        self._names = {id(shared): name for name, shared in _shared_by(stream)}
        self._states = stream._decoder._looped._states

    def persistent_id(self, item: Any) -> Any:
        name = self._names.get(id(item))
        if name is not None:
            return _SHARED, name
        if isinstance(item, LatticeDecoder):
            return (_SEARCH,)
        if isinstance(item, StreamState):
            width = self._states.width
            row = self._states.buffer.reshape(-1)[item.slot * width:(item.slot + 1) * width]
            return _CARRIED, item.num_chunks, row.copy()
        return None


class _Reader(pickle.Unpickler):
    def __init__(self, source: io.BytesIO, like: Stream) -> None:
        super().__init__(source)
        self._decoder = like._decoder
        self._shared: dict[str, Any] = {}
        for name, shared in _shared_by(like):
            self._shared.setdefault(name, shared)

    def persistent_load(self, pid: Any) -> Any:
        kind, *rest = pid
        if kind == _SHARED:
            return self._shared[rest[0]]
        if kind == _SEARCH:
            return LatticeDecoder(self._decoder._graph, self._decoder.search.options)
        num_chunks, row = rest
        states = self._decoder._looped._states
        state = StreamState(states)
        states.reserve()
        if len(row) != states.width:
            raise ValueError("the network has a memory of another size")
        states.buffer.reshape(-1)[state.slot * states.width:(state.slot + 1) * states.width] = row
        state.num_chunks = num_chunks
        return state

    def find_class(self, module: str, name: str) -> Any:
        is_numpys = module.partition(".")[0] == "numpy" and name in _OF_NUMPY
        if not (is_numpys or (module, name) in _ALSO or (module.startswith(_READABLE) and "." not in name)):
            raise ValueError(f"{module}.{name} is not part of a stream")
        value = super().find_class(module, name)
        if module.startswith(_READABLE) and not isinstance(value, type):
            raise ValueError(f"{module}.{name} is not part of a stream")
        return value


def _shared_by(stream: Stream) -> Iterator[tuple[str, Any]]:
    """Yield (name, object) for all objects and arrays that a stream shares with others.

    A name is the path of attributes and items that leads to the object, such as ``models.ivectors``.
    """
    decoder = stream._decoder
    whole = {"looped": decoder._looped, "graph": decoder._graph, "model": decoder._model, "results": stream._results}
    yield from whole.items()
    visited = {id(part) for part in whole.values()}
    parts = {"models": decoder.pipeline.models, "search options": decoder.search.options,
             "endpoint options": decoder.endpoint_options, "determinize": stream._determinize,
             "speakers": None if stream._speaker is None else stream._speaker._model}
    waiting = deque(parts.items())
    while waiting:
        name, part = waiting.popleft()
        if id(part) in visited or not (isinstance(part, np.ndarray | dict | list | tuple) or _is_ours(part)):
            continue
        visited.add(id(part))
        yield name, part
        if isinstance(part, dict):
            waiting.extend((f"{name}[{key}]", value) for key, value in part.items())
        elif isinstance(part, list | tuple):
            waiting.extend((f"{name}[{place}]", value) for place, value in enumerate(part))
        elif not isinstance(part, np.ndarray):
            waiting.extend((f"{name}.{key}", value) for key, value in _attributes(part))


def _is_ours(part: Any) -> bool:
    return type(part).__module__.startswith("nnet3py.") and not isinstance(part, type)


def _attributes(part: Any) -> list[tuple[str, Any]]:
    fields = [field.name for field in dataclasses.fields(part)] if dataclasses.is_dataclass(part) else []
    return sorted({**{name: getattr(part, name) for name in fields}, **getattr(part, "__dict__", {})}.items())


logger = logging.getLogger(__name__)

Progress = Callable[[Listed, float, float], None]
"""``progress(sound, seconds, duration)`` is called when seconds of a sound were decoded; duration 0: not known."""

_PIECE_SECONDS = 0.1           # of sound that a stream takes at a time, so that none waits when a segment ends
_KEPT = ".kept"                # ending of the names of files with the saved state of a sound


class RecognizerLike(Protocol):
    """The methods of :class:`~nnet3py.recognition.recognizer.Recognizer` that this module calls."""

    @property
    def folder(self) -> ModelFolder: ...
    @property
    def keeps_state(self) -> bool: ...
    def stream(self, sample_rate: float | None = None, *, phrases: Sequence[str] = (),
               boost: Mapping[str, float] | None = None, endpointing: bool = True) -> Stream: ...


@dataclass(frozen=True)
class SoundOptions:
    """Options of transcribing files of sound."""

    channel: int | None = None  # number of the channel, from 0; None: the mean of the channels
    endpointing: bool = True    # whether a new segment begins after the end of an utterance
    # phrases, boost: as for :meth:`Recognizer.stream`
    phrases: tuple[str, ...] = ()
    boost: Mapping[str, float] = field(default_factory=dict)
    # function for diarization, which takes the path of a file and returns a function from words to names of speakers;
    # None: no diarization
    speakers: Callable[[str], Callable[[Word], str]] | None = None
    kept: str = ""  # folder for the state of long sounds, saved every two minutes; empty: states are not saved


def transcribe_sound(recognizer: RecognizerLike, options: SoundOptions, listed: Listed,
                     progress: Progress = lambda sound, seconds, duration: None) -> Transcript:
    """Transcribe a file of sound, or continue from its saved state if there is one.

    The words are the same with and without an interruption. A file that cannot be transcribed gives a transcript with
    an ``error``; nothing is raised. ``progress`` is called after each block.
    """
    try:
        return _transcribed(recognizer, options, listed, progress)
    except (Nnet3Error, OSError) as error:
        return Transcript(listed.path, listed.name, error=str(error))
    except Exception as error:          # the other sounds are transcribed all the same
        logger.debug("Transcribing %s failed", listed.path, exc_info=True)
        return Transcript(listed.path, listed.name, error=f"internal error: {type(error).__name__}: {error}")


def _transcribed(recognizer: RecognizerLike, options: SoundOptions, listed: Listed, progress: Progress) -> Transcript:
    sound = open_sound(listed.path, options.channel)
    with within(sound.name):
        stream = recognizer.stream(sound.rate, phrases=options.phrases, boost=options.boost,
                                   endpointing=options.endpointing)
        saved = _SavedState(recognizer, options, listed)
        stream, segments = saved.read(stream)
        sound.on_block = lambda seconds: progress(listed, seconds, sound.seconds)
        for piece in _pieces(sound, stream.num_samples):
            stream.accept_waveform(piece)
            while stream.endpoint:
                segments.append(segment_of(stream.result()))
                saved.write(stream, segments)
        segments.append(segment_of(stream.finish()))
    transcript = Transcript(listed.path, listed.name, round(stream.seconds, 3), model_name(recognizer.folder),
                            tuple(segments))
    return transcript if options.speakers is None else transcript.with_speakers(options.speakers(listed.path))


def _pieces(sound: Sound, first: int) -> Iterator[np.ndarray]:
    """Yield the samples of a sound from sample ``first`` on, in short pieces."""
    size = max(1, int(_PIECE_SECONDS * sound.rate))
    gone = 0
    for block in sound.blocks():
        skipped = min(len(block), first - gone)
        gone += skipped
        for begin in range(skipped, len(block), size):
            yield block[begin:begin + size]


def model_name(folder: ModelFolder) -> str:
    """Return the name of a model: the last part of its folder's path."""
    return os.path.basename(os.path.abspath(folder.path))


class _SavedHead(NamedTuple):
    """The first line of a file with a saved state: ``key`` (:func:`_key`) and the segments transcribed so far."""

    key: str
    segments: list[dict[str, Any]]


class _SavedState:
    """The file with the saved state of a sound; states of another model, other options or another sound are ignored."""

    def __init__(self, recognizer: RecognizerLike, options: SoundOptions, listed: Listed) -> None:
        self._path = ""
        if options.kept and listed.path != STANDARD_INPUT and recognizer.keeps_state:
            self._path = kept_path(options.kept, listed)
            self._key = _key(recognizer.folder, options, listed)

    def read(self, stream: Stream) -> tuple[Stream, list[TranscribedSegment]]:
        """Return the stream of the saved state, and its segments; without a state the given stream and no segments."""
        if not self._path:
            return stream, []
        try:
            with open(self._path, "rb") as file:
                head, state = _SavedHead(*json.loads(file.readline())), file.read()
            if head.key == self._key:
                return stream_from(state, stream), list(segments_of(head.segments))
        except FileNotFoundError:
            pass
        except (OSError, ValueError, TypeError, KeyError, Nnet3Error) as error:
            logger.warning("The saved state of a sound cannot be used, the sound begins again: %s: %s", self._path,
                           error)
        return stream, []

    def write(self, stream: Stream, segments: Sequence[TranscribedSegment]) -> None:
        """Save the state of a stream, if it can be saved now."""
        if not self._path or not stream.can_be_kept:
            return
        os.makedirs(os.path.dirname(self._path), exist_ok=True)
        unfinished = f"{self._path}.{os.getpid()}"
        with open(unfinished, "wb") as file:
            file.write(json.dumps(_SavedHead(self._key, as_data(segments))).encode() + b"\n" + state_of(stream))
        os.replace(unfinished, self._path)


def _key(folder: ModelFolder, options: SoundOptions, listed: Listed) -> str:
    """Return a hash that changes if the file of sound, the model, the options or the package's version change."""
    from nnet3py import __version__

    own = options.channel, options.endpointing, options.phrases, dict(options.boost)
    files = sorted(stamp([listed.path, folder.model, folder.graph, *filter(None, [folder.grammar])]))
    return hashlib.sha256(json.dumps([__version__, own, files, sorted(map(str, folder.options.items()))]).encode()
                          ).hexdigest()


def kept_path(folder: str, listed: Listed) -> str:
    """Return the path of the file in ``folder`` for the saved state of a sound."""
    return os.path.join(folder, hashlib.sha256(os.path.abspath(listed.path).encode("utf-8", "surrogateescape")
                                               ).hexdigest()[:32] + _KEPT)


def forget_kept(folder: str, listed: Listed) -> None:
    """Remove the saved state of a sound that is transcribed, and the folder of states if it is then empty."""
    with suppress(OSError):
        os.remove(kept_path(folder, listed))
    with suppress(OSError):
        os.rmdir(folder)
