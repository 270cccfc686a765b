"""How far the transcribing of many sounds is, and how much time is left."""
from __future__ import annotations

import os
import time
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from nnet3py import log

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nnet3py.recognition.sound import Listed
    from nnet3py.recognition.transcribing import Transcript

_SECONDS_BETWEEN = 0.2       # between two changes of a terminal's last line
_LOG_SECONDS = 30.0          # between two lines of a log, where there is no terminal


class Progress:
    """Shows on a terminal, or now and then in the log, how far the work on sounds is; call it with each step.

    How long a sound lasts is known once it is opened; until then its bytes are taken to last as long as those of other
    sounds with the same ending.
    """

    def __init__(self, sounds: Sequence[Listed]) -> None:
        self._bytes = {sound: size_of(sound) for sound in sounds}
        self._durations: dict[Listed, float] = {}
        self._running: dict[Listed, float] = {}          # seconds that were decoded
        self._num_done = self._num_failed = 0
        self._seconds = 0.0                              # of sounds that are done
        self._begun = self._shown = self._logged = time.monotonic()

    def __call__(self, sound: Listed, seconds: float, duration: float) -> None:
        """Note that ``seconds`` of a sound were decoded, which lasts ``duration`` seconds; 0: not known."""
        self._running[sound] = seconds
        if duration:
            self._durations[sound] = max(duration, seconds)
        now = time.monotonic()
        if now - self._shown < _SECONDS_BETWEEN:
            return
        self._shown = now
        text = self._text()
        length = self._durations.get(sound, 0.0)
        part = f" ({100 * min(1.0, seconds / length):.0f} %)" if length else ""
        if not log.show_status(f"{text}: {sound.path}{part}") and now - self._logged >= _LOG_SECONDS:
            self._logged = now
            log.log(text)

    def done(self, sound: Listed, transcript: Transcript) -> None:
        """Note that the work on a sound is over."""
        self._running.pop(sound, None)
        if transcript.error:
            self._num_failed += 1
            self._bytes.pop(sound, None)
            self._durations.pop(sound, None)
        else:
            self._num_done += 1
            self._durations[sound] = transcript.duration
            self._seconds += transcript.duration

    def interrupted(self, goes_on: bool) -> None:
        """Log what was done when the user has interrupted it; ``goes_on``: whether the same command does the rest."""
        log.show_status("")
        log.log(f"Interrupted: {self._num_done} of {len(self._bytes) + self._num_failed} sounds are done"
                + ("; the same command does the rest" if goes_on else ""))

    def end(self) -> int:
        """Log what was done; returns the exit status."""
        log.show_status("")
        taken = max(time.monotonic() - self._begun, 1e-3)
        log.log(f"Transcribed {count_of_sounds(self._num_done)}, {self._seconds:.1f} s, in {taken:.1f} s"
                + (f"; {self._num_failed} failed" if self._num_failed else ""))
        return 1 if self._num_failed else 0

    def _text(self) -> str:
        decoded = self._seconds + sum(self._running.values())
        taken = max(time.monotonic() - self._begun, 1e-3)
        left = max(0.0, self._total() - decoded) * taken / decoded if decoded else 0.0
        return (f"{self._num_done + self._num_failed} of {len(self._bytes) + self._num_failed} sounds, "
                f"{log.clock_time(decoded)} of sound, {decoded / taken:.1f} times real time, "
                f"{log.clock_time(left)} left")

    def _total(self) -> float:
        """Seconds of all sounds, as far as is known."""
        seconds: defaultdict[str, float] = defaultdict(float)
        sizes, unknown = Counter[str](), Counter[str]()
        for sound, duration in self._durations.items():
            for kind in (_ending(sound), ""):
                seconds[kind] += duration
                sizes[kind] += self._bytes.get(sound, 0)
        for sound, size in self._bytes.items():
            if sound not in self._durations:
                unknown[_ending(sound)] += size
        total = seconds[""]
        for ending, size in unknown.items():
            kind = ending if sizes[ending] else ""
            total += size * seconds[kind] / sizes[kind] if sizes[kind] else 0.0
        return total


def _ending(sound: Listed) -> str:
    return os.path.splitext(sound.path)[1].lower() or "."


def size_of(sound: Listed) -> int:
    """Return the bytes of a file of sound; 0 if it is not there."""
    try:
        return os.path.getsize(sound.path)
    except OSError:
        return 0


def count_of_sounds(count: int) -> str:
    """Return a number with its noun."""
    return f"{count} sound{'s' * (count != 1)}"
