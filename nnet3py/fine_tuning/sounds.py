"""The sound of utterances, cut out of files of any length, and what is wrong with it."""
from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from nnet3py.errors import Nnet3Error
from nnet3py.feat.resample import resample
from nnet3py.fine_tuning.plan import Problem, Utterance
from nnet3py.formats.foreign_files import FULL_SCALE, read_wave
from nnet3py.io.object_files import read_object
from nnet3py.recognition.sound import Sound, open_sound

_AT_THE_END = 0.5              # seconds that a segment may go beyond its sound
_SILENT = 10.0 ** (-55 / 20)   # of the loudest sample, where 1 is the largest there is: quieter sound cannot be heard
_FLAT = 0.999                  # of the loudest sample: where clipping cuts off
_LOUD = 0.3                    # a level that was lowered after clipping counts only if it is as loud as this
_RUN = 3                       # so many samples in a row at the limit are clipped, fewer are a peak
_MANY_CLIPPED, _FEW_CLIPPED = 0.05, 0.001
_FASTEST = 35.0                # letters a second; a fast speaker says 20
_SLOWEST = 0.5                 # letters a second, below which most of the sound is not in the text
_MIN_RATE = 1000.0


@dataclass(frozen=True)
class Limits:
    """What utterances are checked against.

    Attributes
    ----------
    rate : samples a second of the model's sound
    min_seconds, max_seconds : how long an utterance may be
    allow_upsample : take sound of a lower rate
    """

    rate: float
    min_seconds: float = 0.3
    max_seconds: float = 40.0
    allow_upsample: bool = False


def read_sounds(utterances: Iterable[Utterance], limits: Limits) -> Iterator[
        tuple[Utterance, np.ndarray | None, list[Problem]]]:
    """Each utterance with its sound, float32 (samples,) from -1 to 1 at the model's rate, and problems.

    The sound is None where it cannot be used. Utterances of one file follow each other; a file is read up to the end of
    its last utterance, and what is longer than allowed is not read at all if that can be told.
    """
    of_sound: dict[str, list[Utterance]] = {}
    for utterance in utterances:
        of_sound.setdefault(utterance.sound, []).append(utterance)
    for name, its_utterances in of_sound.items():
        its_utterances.sort(key=lambda utterance: utterance.start)
        try:
            yield from _of_file(name, its_utterances, limits)
        except Nnet3Error as error:
            for utterance in its_utterances:
                yield utterance, None, [Problem(utterance.key, "damaged sound", str(error), True)]


def _of_file(name: str, utterances: Sequence[Utterance], limits: Limits) -> Iterator[
        tuple[Utterance, np.ndarray | None, list[Problem]]]:
    sound = _opened(name)
    if not _MIN_RATE <= sound.rate:
        raise Nnet3Error(f"{name} has {sound.rate:g} samples a second")
    blocks = _Blocks(sound)
    left = list(utterances)
    while left:
        utterance = left.pop(0)
        fault = _length_fault(utterance, sound.seconds, limits) or _rate_fault(utterance, sound.rate, limits)
        if fault is not None:
            yield utterance, None, [fault]
            continue
        try:
            samples = blocks.cut(utterance.start, utterance.end, limits.max_seconds)
        except Nnet3Error as error:
            yield utterance, None, [Problem(utterance.key, "damaged sound", str(error), True)]
            continue
        yield _judged(utterance, samples, sound.rate, limits)


def _opened(name: str) -> Sound:
    """A file of sound; or what Kaldi's wav.scp may say, a pipe or a place in an archive."""
    if os.path.exists(name) or not (name.rstrip().endswith("|") or ":" in name):
        return open_sound(name)
    wave = read_object(name, read_wave)
    return Sound(name, wave.rate, len(wave.samples), wave.duration, iter([wave.samples / np.float32(FULL_SCALE)]))


class _Blocks:
    """A sound that is read once; parts of it are taken in the order of their beginnings."""

    def __init__(self, sound: Sound) -> None:
        self._sound, self._blocks = sound, sound.blocks()
        self._kept = np.zeros(0, dtype=np.float32)
        self._first = 0                                   # number of the first sample that is kept
        self._is_over = False

    def cut(self, start: float, end: float, longest: float) -> np.ndarray:
        """float32 (samples,) from ``start`` to ``end`` seconds; an end of -1: all, but not much more than ``longest``.

        Nnet3Error for a part that the sound does not have.
        """
        rate = self._sound.rate
        first = max(0, round(start * rate))
        last = round(end * rate) if end >= 0 else first + round((longest + 1.0) * rate)
        while self._first + len(self._kept) < last and not self._is_over:
            block = next(self._blocks, None)
            self._is_over = block is None
            if block is not None:
                behind = max(0, first - self._first)
                kept = self._kept[behind:]
                self._first += min(behind, len(self._kept))
                self._kept = np.concatenate((kept, block))
        samples = self._kept[max(0, first - self._first):last - self._first]
        if end >= 0 and (last - first - len(samples)) / rate > _AT_THE_END:
            raise Nnet3Error(f"{self._sound.name} ends before {end:g} seconds")
        return samples


def _length_fault(utterance: Utterance, seconds: float, limits: Limits) -> Problem | None:
    """What is wrong with the length, as far as that is known before anything is read."""
    if utterance.end >= 0 and utterance.end <= utterance.start or utterance.start < 0:
        return Problem(utterance.key, "odd time", f"from {utterance.start:g} to {utterance.end:g} seconds", True)
    end = utterance.end if utterance.end >= 0 else seconds or utterance.start
    length = end - utterance.start
    if length > limits.max_seconds:
        return Problem(utterance.key, "too long", f"{length:.1f} seconds, more than {limits.max_seconds:g}: cut it "
                       "into sentences, or give start and end of each", True)
    return None


def _rate_fault(utterance: Utterance, rate: float, limits: Limits) -> Problem | None:
    if rate < limits.rate and not limits.allow_upsample:
        return Problem(utterance.key, "rate", f"{rate:g} samples a second, but the model is for {limits.rate:g}: it "
                       "lacks high frequencies (--allow-upsample takes it)", True)
    return None


def _judged(utterance: Utterance, samples: np.ndarray, rate: float, limits: Limits) -> tuple[
        Utterance, np.ndarray | None, list[Problem]]:
    seconds = len(samples) / rate
    problems = list(_faults(utterance, samples, seconds, limits))
    if any(problem.is_fatal for problem in problems):
        return utterance, None, problems
    if rate != limits.rate:
        samples = resample(samples, round(rate), round(limits.rate))
    return utterance, samples.astype(np.float32), problems


def _faults(utterance: Utterance, samples: np.ndarray, seconds: float, limits: Limits) -> Iterator[Problem]:
    key = utterance.key
    if not len(samples):
        yield Problem(key, "empty sound", "it has no samples", True)
        return
    if not np.isfinite(samples).all():
        yield Problem(key, "damaged sound", "it has samples that are no numbers", True)
        return
    if seconds > limits.max_seconds:
        yield Problem(key, "too long", f"more than {limits.max_seconds:g} seconds", True)
    elif seconds < limits.min_seconds:
        yield Problem(key, "too short", f"{seconds:.2f} seconds, less than {limits.min_seconds:g}", True)
        return
    peak = float(np.abs(samples).max())
    if peak < _SILENT or float(np.ptp(samples)) < _SILENT:
        yield Problem(key, "silence", f"its loudest sample is {peak:.5f} of the largest there is", True)
        return
    clipped = _clipped(samples, peak)
    if clipped > _FEW_CLIPPED:
        yield Problem(key, "clipped", f"{100 * clipped:.1f} % of its samples are cut off", clipped > _MANY_CLIPPED)
    letters = sum(map(len, utterance.text))
    if letters / seconds > _FASTEST:
        yield Problem(key, "too much text", f"{letters} letters in {seconds:.1f} seconds", True)
    elif letters / seconds < _SLOWEST:
        yield Problem(key, "too little text", f"{letters} letters in {seconds:.1f} seconds", True)


def _clipped(samples: np.ndarray, peak: float) -> float:
    """The part of the samples that are at the limit, several in a row."""
    if peak < _LOUD:
        return 0.0
    at_limit = np.abs(samples) >= _FLAT * peak
    runs = at_limit[_RUN - 1:].copy()
    for back in range(1, _RUN):
        runs &= at_limit[_RUN - 1 - back:len(at_limit) - back]
    return float(runs.mean()) if len(runs) else 0.0
