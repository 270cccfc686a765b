"""Diarization, who spoke when: clusters of speaker vectors. Kaldi: the recipes ``callhome_diarization``.

Speech is detected by its energy and cut into overlapping windows; their x-vectors are compared in pairs, by PLDA if the
model has it or else by the cosine, and clustered.
"""
from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from nnet3py.errors import FormatError, Nnet3Error
from nnet3py.ivectors.scoring import agglomerate_in_parts, dense_ratios
from nnet3py.recognition.front_end import Sounds, read_sound, speech_frames
from nnet3py.recognition.options import DiarizationOptions
from nnet3py.recognition.results import Result, Word
from nnet3py.recognition.speaker import SpeakerModel
from nnet3py.recognition.transcribing import words_of_speakers

_FRAME_SHIFT = 0.01            # seconds, of the frames by which speech is found
_TARGET_ENERGY = 0.5           # part of the variance of a recording's vectors that PLDA keeps; Kaldi's default
_COSINE_THRESHOLD, _PLDA_THRESHOLD = 0.5, 0.0
_RTTM_FIELDS = 8               # of a line, at least


class Turn(NamedTuple):
    """Speech of one speaker.

    Attributes
    ----------
    start, end : seconds from the beginning of the sound
    speaker : name of the speaker
    """

    start: float
    end: float
    speaker: str


def diarize(model: str | os.PathLike[str] | SpeakerModel, sound: Sounds, rate: float | None = None,
            options: DiarizationOptions | None = None, *, channel: int | None = None) -> list[Turn]:
    """Find out who spoke when in a sound.

    Parameters
    ----------
    model : SpeakerModel, or its folder (mfcc.conf, final.ext.raw, mean.vec, transform.mat, perhaps plda)
    sound, rate, channel : as for :func:`nnet3py.features`
    options : DiarizationOptions; None: defaults

    Returns
    -------
    list of Turn : in order of time, without overlap; speakers are called ``speaker1``, ``speaker2``, … as they appear

    Raises
    ------
    UsageError : options out of range
    Nnet3Error : the folder lacks files; the sound cannot be read
    """
    options = options or DiarizationOptions()
    options.check()
    if not isinstance(model, SpeakerModel):
        model = SpeakerModel.read(model)
    samples, rate = read_sound(sound, rate, channel)
    frames = model.features.compute(samples, rate)
    length = len(frames) * model.features.frame_shift
    segments = [(begin, min(end, length)) for begin, end in speech_segments(speech_frames(samples, rate), options)
                if begin < length]
    windows = [_windows(begin, end, options) for begin, end in segments]
    pieces = [window for of_segment in windows for window in of_segment]
    if not pieces:
        return []
    shift = model.features.frame_shift
    vectors = model.vectors(frames, [(round(begin / shift), round(end / shift)) for begin, end in pieces])
    labels = _clusters(model, vectors, options).tolist()
    turns: list[Turn] = []
    names: dict[int, str] = {}
    for (begin, end), of_segment in zip(segments, windows, strict=True):
        own, labels = labels[:len(of_segment)], labels[len(of_segment):]
        centers = [(first + last) / 2 for first, last in of_segment]
        borders = [begin, *((before + after) / 2 for before, after in zip(centers[:-1], centers[1:], strict=True)), end]
        for label, first, last in zip(own, borders[:-1], borders[1:], strict=True):
            name = names.setdefault(label, f"speaker{len(names) + 1}")
            if turns and turns[-1].speaker == name and turns[-1].end == first:
                turns[-1] = turns[-1]._replace(end=last)
            else:
                turns.append(Turn(first, last, name))
    return [Turn(round(turn.start, 3), round(turn.end, 3), turn.speaker) for turn in turns]


def _clusters(model: SpeakerModel, vectors: np.ndarray, options: DiarizationOptions) -> np.ndarray:
    """Cluster x-vectors, float (vectors, dim); return the cluster (speaker) of each, int (vectors,)."""
    if model.plda is not None:
        likeness, threshold = dense_ratios(model.plda, vectors, _TARGET_ENERGY), _PLDA_THRESHOLD
    else:
        directions = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-20)
        likeness, threshold = directions @ directions.T, _COSINE_THRESHOLD
    if options.threshold is not None:
        threshold = options.threshold
    return agglomerate_in_parts(-likeness, np.inf if options.num_speakers else -threshold,
                                max(1, min(options.num_speakers, len(vectors))))


def speech_segments(voiced: np.ndarray, options: DiarizationOptions) -> list[tuple[float, float]]:
    """Return start and end, in seconds, of each segment of speech.

    ``voiced`` is bool (frames,), one for each 10 ms. Pauses below ``options.max_pause`` do not end a segment; segments
    below ``options.min_speech`` are left out.
    """
    edges = np.flatnonzero(np.diff(np.concatenate(([0], voiced.astype(np.int8), [0]))))
    segments: list[tuple[float, float]] = []
    for begin, end in (edges.reshape(-1, 2) * _FRAME_SHIFT).tolist():
        if segments and begin - segments[-1][1] < options.max_pause:
            segments[-1] = segments[-1][0], end
        else:
            segments.append((begin, end))
    return [(begin, end) for begin, end in segments if end - begin >= options.min_speech]


def _windows(begin: float, end: float, options: DiarizationOptions) -> list[tuple[float, float]]:
    """Return start and end, in seconds, of overlapping windows that cover a segment, up to its end."""
    last = max(begin, end - options.window)
    starts = [*np.arange(begin, last, options.shift).tolist(), last]
    return [(start, min(start + options.window, end)) for start in starts]


def with_speakers(result: Result, turns: Sequence[Turn]) -> Result:
    """Return a result whose segments end where another speaker begins, each with its ``speaker_name``.

    A word belongs to the turn with which it shares most time, or else to the nearest turn.
    """
    segments = [replace(segment, words=words, start=words[0].start, end=words[-1].end, speaker_name=name, _segments=())
                for segment in result.segments
                for name, words in words_of_speakers(segment.words, lambda word: speaker_of(word, turns))]
    return replace(result, _segments=tuple(segments))


def speaker_of(word: Word, turns: Sequence[Turn]) -> str:
    """Return the speaker of the turn that overlaps most with a word, or is nearest to it; "" if there are no turns."""
    return max(turns, key=lambda turn: min(turn.end, word.end) - max(turn.start, word.start)).speaker if turns else ""


# -- RTTM, diarization error rate --------------------------------------------------------------------------------------


def rttm(name: str, turns: Iterable[Turn]) -> str:
    """Return lines of NIST's RTTM: SPEAKER, recording, channel 1, start, duration, speaker."""
    name = "_".join(name.split()) or "-"
    return "".join(f"SPEAKER {name} 1 {turn.start:.3f} {turn.end - turn.start:.3f} <NA> <NA> {turn.speaker} <NA> <NA>\n"
                   for turn in turns)


def read_rttm(text: str, path: str = "") -> dict[str, list[Turn]]:
    """Read the turns of each recording from lines SPEAKER of RTTM. Raises FormatError for an invalid line."""
    recordings: dict[str, list[Turn]] = {}
    for number, line in enumerate(text.splitlines(), 1):
        fields = line.split()
        if not fields or fields[0] != "SPEAKER":
            continue
        try:
            if len(fields) < _RTTM_FIELDS:
                raise ValueError
            start, length = float(fields[3]), float(fields[4])
        except ValueError:
            raise FormatError(f"line {number} is not SPEAKER NAME CHANNEL START DURATION <NA> <NA> SPEAKER: {line!r}",
                              path=path) from None
        recordings.setdefault(fields[1], []).append(Turn(start, start + length, fields[7]))
    return recordings


class DiarizationErrors(NamedTuple):
    """Errors of diarization in seconds of speech; ``total`` is the speech of the reference, summed over speakers."""

    missed: float
    false_alarm: float
    confused: float
    total: float

    @property
    def rate(self) -> float:
        """Diarization error rate (DER), a fraction."""
        return (self.missed + self.false_alarm + self.confused) / self.total if self.total else 0.0


def diarization_errors(reference: Sequence[Turn], found_turns: Sequence[Turn], collar: float = 0.25,
                       step: float = 0.01) -> DiarizationErrors:
    """Compare turns with a reference, under the mapping of speakers with the fewest errors. NIST: ``md-eval``.

    Parameters
    ----------
    reference : the true turns
    found_turns : the turns to score, whose speakers may have other names
    collar : seconds before and after each start and end of a reference turn that are not scored
    step : resolution of time, seconds

    Raises Nnet3Error for a reference without speech.
    """
    from scipy.optimize import linear_sum_assignment

    if not reference:
        raise Nnet3Error("the reference has no speech", "an error rate needs some")
    length = round(max(turn.end for turn in (*reference, *found_turns)) / step) + 1
    counted = np.ones(length, dtype=bool)
    for turn in reference:
        for border in (turn.start, turn.end):
            counted[max(0, round((border - collar) / step)):round((border + collar) / step)] = False
    theirs, ours = _activity(reference, length, step)[:, counted], _activity(found_turns, length, step)[:, counted]
    together = theirs.astype(np.int64) @ ours.T.astype(np.int64)
    rows, columns = linear_sum_assignment(-together)
    right = together[rows, columns].sum()
    said, claimed = theirs.sum(axis=0), ours.sum(axis=0)
    missed = np.maximum(said - claimed, 0).sum()
    false_alarm = np.maximum(claimed - said, 0).sum()
    confused = np.minimum(said, claimed).sum() - right
    return DiarizationErrors(*(float(count * step) for count in (missed, false_alarm, confused, said.sum())))


def _activity(turns: Sequence[Turn], length: int, step: float) -> np.ndarray:
    """Return which speakers speak in which step of time, bool (speakers, ``length``)."""
    speakers = sorted({turn.speaker for turn in turns})
    active = np.zeros((len(speakers), length), dtype=bool)
    for turn in turns:
        active[speakers.index(turn.speaker), round(turn.start / step):round(turn.end / step)] = True
    return active
