"""Transcripts: what was recognized in a file of sound, as data that processes can hand to each other."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from nnet3py.recognition.results import Result, Word


@dataclass(frozen=True)
class TranscribedSegment:
    """An utterance of a sound.

    Attributes
    ----------
    words : its words, one after the other
    start, end : of the sound that was decoded, in seconds since the sound began
    speaker : a vector that tells speakers apart by its angle to others; None without a speaker model
    speaker_name : name of the speaker, where speakers were told apart
    """

    words: tuple[Word, ...]
    start: float
    end: float
    speaker: tuple[float, ...] | None = None
    speaker_name: str = ""

    @property
    def text(self) -> str:
        """The words, with blanks between them."""
        return " ".join(word.word for word in self.words)

    @property
    def segments(self) -> tuple[TranscribedSegment, ...]:
        """The segment itself."""
        return (self,)


@dataclass(frozen=True)
class Transcript:
    """Words of a file of sound. It is small: lattices and alternatives are left out.

    Attributes
    ----------
    path : the file
    name : name of its result, without ending
    duration : seconds of sound
    model : name of the model
    segments : the utterances
    error : why the file could not be transcribed; empty if it was
    """

    path: str
    name: str
    duration: float = 0.0
    model: str = ""
    segments: tuple[TranscribedSegment, ...] = ()
    error: str = ""

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
        """Seconds at which the first segment begins."""
        return self.segments[0].start if self.segments else 0.0

    @property
    def end(self) -> float:
        """Seconds at which the last segment ends."""
        return self.segments[-1].end if self.segments else 0.0

    @property
    def speaker(self) -> tuple[float, ...] | None:
        """The vector of the first segment that has one."""
        return next((segment.speaker for segment in self.segments if segment.speaker is not None), None)

    @property
    def speaker_name(self) -> str:
        """An empty name: a whole sound is no one speaker's."""
        return ""

    def __str__(self) -> str:
        return self.text

    def with_speakers(self, speaker_of: Callable[[Word], str]) -> Transcript:
        """Return a transcript whose segments end where another speaker begins, each with its ``speaker_name``.

        ``speaker_of`` names the speaker of a word.
        """
        return replace(self, segments=tuple(
            replace(segment, words=words, start=words[0].start, end=words[-1].end, speaker_name=name)
            for segment in self.segments for name, words in words_of_speakers(segment.words, speaker_of)))

    def as_data(self) -> dict[str, Any]:
        """Return the transcript as JSON can write it, for :meth:`of_data`, with all digits."""
        return {**vars(self), "segments": as_data(self.segments)}

    @classmethod
    def of_data(cls, data: Mapping[str, Any]) -> Transcript:
        """Return the transcript that :meth:`as_data` has written."""
        return cls(**{**data, "segments": segments_of(data["segments"])})


def words_of_speakers(words: Sequence[Word],
                      speaker_of: Callable[[Word], str]) -> Iterator[tuple[str, tuple[Word, ...]]]:
    """Yield the name of each speaker in turn, with the words that follow each other in that turn."""
    for name, group in groupby(words, key=speaker_of):
        yield name, tuple(group)


def segment_of(result: Result) -> TranscribedSegment:
    """Return what a transcript keeps of a segment's result."""
    speaker = None if result.speaker is None else tuple(float(value) for value in result.speaker)
    return TranscribedSegment(result.words, result.start, result.end, speaker, result.speaker_name)


def as_data(segments: Iterable[TranscribedSegment]) -> list[dict[str, Any]]:
    """Return segments as JSON can write them, for :func:`segments_of`."""
    return [vars(segment) for segment in segments]


def segments_of(data: Iterable[Mapping[str, Any]]) -> tuple[TranscribedSegment, ...]:
    """Return the segments that :func:`as_data` has written."""
    return tuple(TranscribedSegment(**{
        **segment, "words": tuple(Word(*word) for word in segment["words"]),
        "speaker": None if segment["speaker"] is None else tuple(segment["speaker"])}) for segment in data)
