"""A file of sound becomes a transcript; what is done of a long one is kept, so that it need not be done again."""
from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np

from nnet3py.errors import Nnet3Error, within
from nnet3py.recognition.model_folder import ModelFolder
from nnet3py.recognition.results import Word
from nnet3py.recognition.sound import STANDARD_INPUT, Sound, open_sound
from nnet3py.recognition.sound_list import Listed
from nnet3py.recognition.stream import Stream
from nnet3py.recognition.stream_state import state_of, stream_from
from nnet3py.recognition.transcript import TranscribedSegment, Transcript, as_data, segment_of, segments_of

logger = logging.getLogger(__name__)

Progress = Callable[[Listed, float, float], None]
"""``progress(sound, seconds, duration)``: so much of a sound was decoded; its duration is 0 where not known."""

_PIECE_SECONDS = 0.1           # of sound that a stream is given at a time: nothing of it waits when a segment ends
_KEPT = ".kept"                # the end of the names of files with what is done of a sound


class RecognizerLike(Protocol):
    """The part of a recognizer that is used here."""

    @property
    def folder(self) -> ModelFolder: ...
    @property
    def keeps_state(self) -> bool: ...
    def stream(self, sample_rate: float | None = None, *, phrases: Sequence[str] = (),
               boost: Mapping[str, float] | None = None, endpointing: bool = True) -> Stream: ...


@dataclass(frozen=True)
class SoundOptions:
    """How sounds are transcribed.

    Attributes
    ----------
    channel : the channel to take, from 0; None: the mean of all
    endpointing : whether a new segment begins where an utterance is over
    phrases, boost : as for a stream
    speakers : function that looks at a file and returns one that names a word's speaker; None: speakers are not named
    kept : folder for what is done of long sounds, every two minutes of them; empty: nothing is kept
    """

    channel: int | None = None
    endpointing: bool = True
    phrases: tuple[str, ...] = ()
    boost: Mapping[str, float] = field(default_factory=dict)
    speakers: Callable[[str], Callable[[Word], str]] | None = None
    kept: str = ""


def transcribe_sound(recognizer: RecognizerLike, options: SoundOptions, listed: Listed,
                     progress: Progress = lambda sound, seconds, duration: None) -> Transcript:
    """Transcribe a file of sound, from where its kept state ends if there is one.

    The words are those that a stream finds, interrupted or not. A file that cannot be read gives a transcript with an
    ``error``; nothing else that may be wrong with it is raised.
    """
    try:
        return _transcribed(recognizer, options, listed, progress)
    except (Nnet3Error, OSError) as error:
        return Transcript(listed.path, listed.name, error=str(error))
    except Exception as error:          # other sounds are to be transcribed all the same
        logger.debug("Transcribing %s failed", listed.path, exc_info=True)
        return Transcript(listed.path, listed.name, error=f"internal error: {type(error).__name__}: {error}")


def _transcribed(recognizer: RecognizerLike, options: SoundOptions, listed: Listed, progress: Progress) -> Transcript:
    sound = open_sound(listed.path, options.channel)
    with within(sound.name):
        stream = recognizer.stream(sound.rate, phrases=options.phrases, boost=options.boost,
                                   endpointing=options.endpointing)
        kept = _Kept(recognizer, options, listed)
        stream, segments = kept.read(stream)
        sound.on_block = lambda seconds: progress(listed, seconds, sound.seconds)
        for piece in _pieces(sound, stream.num_samples):
            stream.accept_waveform(piece)
            while stream.endpoint:
                segments.append(segment_of(stream.result()))
                kept.write(stream, segments)
        segments.append(segment_of(stream.finish()))
    transcript = Transcript(listed.path, listed.name, round(stream.seconds, 3), model_name(recognizer.folder),
                            tuple(segments))
    return transcript if options.speakers is None else transcript.with_speakers(options.speakers(listed.path))


def _pieces(sound: Sound, first: int) -> Iterator[np.ndarray]:
    """The samples of a sound from a number on, in short pieces."""
    size = max(1, int(_PIECE_SECONDS * sound.rate))
    gone = 0
    for block in sound.blocks():
        skipped = min(len(block), first - gone)
        gone += skipped
        for begin in range(skipped, len(block), size):
            yield block[begin:begin + size]


def model_name(folder: ModelFolder) -> str:
    """Return the name of a model: that of its folder."""
    return os.path.basename(os.path.abspath(folder.path))


class _Begun(NamedTuple):
    """The first lines of a file with what is done of a sound: what it was, and its segments."""

    key: str
    segments: list[dict[str, Any]]


class _Kept:
    """What is done of a sound, in a file. One of another model, of other options or another sound is not used."""

    def __init__(self, recognizer: RecognizerLike, options: SoundOptions, listed: Listed) -> None:
        self._path = ""
        if options.kept and listed.path != STANDARD_INPUT and recognizer.keeps_state:
            self._path = kept_path(options.kept, listed)
            self._key = _key(recognizer.folder, options, listed)

    def read(self, stream: Stream) -> tuple[Stream, list[TranscribedSegment]]:
        """The stream that goes on, and the segments until then; the given stream and none, if nothing was kept."""
        if not self._path:
            return stream, []
        try:
            with open(self._path, "rb") as file:
                begun, state = _Begun(*json.loads(file.readline())), file.read()
            if begun.key == self._key:
                return stream_from(state, stream), list(segments_of(begun.segments))
        except FileNotFoundError:
            pass
        except (OSError, ValueError, TypeError, KeyError, Nnet3Error) as error:
            logger.warning("What was kept of a sound cannot be used, which begins again: %s: %s", self._path, error)
        return stream, []

    def write(self, stream: Stream, segments: Sequence[TranscribedSegment]) -> None:
        """Keep where a stream stands, if that is possible here."""
        if not self._path or not stream.can_be_kept:
            return
        os.makedirs(os.path.dirname(self._path), exist_ok=True)
        unfinished = f"{self._path}.{os.getpid()}"
        with open(unfinished, "wb") as file:
            file.write(json.dumps(_Begun(self._key, as_data(segments))).encode() + b"\n" + state_of(stream))
        os.replace(unfinished, self._path)


def _key(folder: ModelFolder, options: SoundOptions, listed: Listed) -> str:
    """What tells a sound, a model and options from others: also later versions of them."""
    from nnet3py import __version__
    from nnet3py.recognition.served_models import stamp

    own = options.channel, options.endpointing, options.phrases, dict(options.boost)
    files = sorted(stamp([listed.path, folder.model, folder.graph, *filter(None, [folder.grammar])]))
    return hashlib.sha256(json.dumps([__version__, own, files, sorted(map(str, folder.options.items()))]).encode()
                          ).hexdigest()


def kept_path(folder: str, listed: Listed) -> str:
    """Return the file for what is done of a sound."""
    return os.path.join(folder, hashlib.sha256(os.path.abspath(listed.path).encode("utf-8", "surrogateescape")
                                               ).hexdigest()[:32] + _KEPT)


def forget_kept(folder: str, listed: Listed) -> None:
    """Remove what was kept of a sound, which is done; and the folder if it is empty then."""
    with suppress(OSError):
        os.remove(kept_path(folder, listed))
    with suppress(OSError):
        os.rmdir(folder)
