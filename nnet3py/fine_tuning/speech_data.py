"""The user's data: Kaldi data folders, folders of sounds with texts, tables; their sound, and its faults."""
from __future__ import annotations

import csv
import json
import math
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from nnet3py.errors import FormatError, Nnet3Error, UsageError
from nnet3py.feat.sound import resample
from nnet3py.fine_tuning.plan import Problem, SpeechData, Utterance
from nnet3py.formats.foreign_files import FULL_SCALE, read_wave
from nnet3py.io.object_files import read_object
from nnet3py.io.specifiers import is_token
from nnet3py.io.streams import read_text
from nnet3py.recognition.sound import ENDINGS, Sound, open_sound

TEXT_ENDINGS = (".txt", ".lab", ".trn")
TABLE_ENDINGS = (".csv", ".tsv", ".jsonl", ".json")
TO_THE_END = -1.0
_ONE_SPEAKER = "speaker"

# The names of columns in tables: Common Voice, LJ Speech, NeMo, Hugging Face.
_SOUND_COLUMNS = ("file", "path", "audio", "audio_filepath", "audio_path", "wav", "filename", "file_name",
                  "wav_filename", "sound")
_TEXT_COLUMNS = ("text", "sentence", "transcript", "transcription", "words", "normalized_text")
_SPEAKER_COLUMNS = ("speaker", "speaker_id", "client_id", "spk")
_START_COLUMNS, _END_COLUMNS, _LENGTH_COLUMNS = ("start", "offset", "begin"), ("end", "stop"), ("duration",)
_FOLDERS_OF_SOUNDS = ("", "clips", "wavs", "audio")      # folders beside a table, for the files that it names


class _Raw(NamedTuple):
    """Utterance as read from the data, before it gets a key."""

    where: str  # file and line, for messages
    sound: str  # sound file, or an entry of wav.scp
    text: str
    speaker: str = ""
    # start, end: in seconds
    start: float = 0.0
    end: float = TO_THE_END


def read_data(path: str, speaker_column: str = "speaker") -> SpeechData:
    """Read the utterances of a Kaldi data folder, a folder of sounds, or a table, without their sound.

    A data folder has wav.scp and text, perhaps segments and utt2spk; a folder of sounds has a text file of the same
    name beside each sound; a table (csv, tsv, jsonl) has columns for file and text, perhaps speaker, start and end.
    Keys begin with the speaker's name, except those of Kaldi data folders, which stay. Invalid entries become problems.
    Raises Nnet3Error for any other path, and for data without an utterance.
    """
    if os.path.isdir(path):
        is_kaldi = os.path.isfile(os.path.join(path, "wav.scp")) and os.path.isfile(os.path.join(path, "text"))
        data = _kaldi_folder(path) if is_kaldi else _folder_of_sounds(path)
    elif os.path.isfile(path):
        if not path.lower().endswith(TABLE_ENDINGS):
            raise UsageError(f"{path} is not a table: its name ends in none of {', '.join(TABLE_ENDINGS)}",
                             "give a table of file and text, or a folder")
        data = _table(path, speaker_column)
    else:
        raise UsageError(f"there is no folder or table {path}")
    if not data.utterances and not data.problems:
        raise Nnet3Error(f"{path} holds no utterances",
                         "expected wav.scp with text; or sounds with text files beside; or a table of file and text")
    data.utterances.sort(key=lambda utterance: utterance.key.encode("utf-8", "surrogateescape"))
    return data


# -- Kaldi -------------------------------------------------------------------------------------------------------------


def _kaldi_folder(path: str) -> SpeechData:
    data = SpeechData()
    sounds, texts, speakers, segments = (_kaldi_list(path, name, data.problems) for name in (
        "wav.scp", "text", "utt2spk", "segments"))
    has_segments = os.path.isfile(os.path.join(path, "segments"))
    for key, text in texts.items():
        sound, start, end = key, 0.0, TO_THE_END
        if has_segments:
            fields = segments.get(key, "").split()
            times = [_number(field) for field in fields[1:3]]
            if len(fields) < 3 or None in times:
                data.problems.append(Problem(key, "no segment", "segments has no times for this utterance", True))
                continue
            sound, (start, end) = fields[0], times      # type: ignore[assignment]
        if sound not in sounds:
            data.problems.append(Problem(key, "no sound", f"wav.scp has no line for {sound}", True))
            continue
        data.utterances.append(Utterance(key, speakers.get(key, "") or key, sounds[sound], start, end,
                                         tuple(text.split())))
    spoken = set(segments if has_segments else sounds)
    data.problems += [Problem(key, "no text", "it has sound, but no line in the file text", True)
                      for key in sorted(spoken - set(texts))]
    return data


def _kaldi_list(folder: str, name: str, problems: list[Problem]) -> dict[str, str]:
    """Read a file of lines KEY REST: key -> rest; empty if the file is missing."""
    path = os.path.join(folder, name)
    entries: dict[str, str] = {}
    if not os.path.isfile(path):
        return entries
    for number, line in enumerate(read_text(path).split("\n"), 1):
        key, _, rest = line.strip().partition(" ") if "\t" not in line else line.strip().partition("\t")
        if not line.strip():
            continue
        if key in entries or not is_token(key):
            problems.append(Problem(key[:40], "twice" if key in entries else "no name",
                                    f"line {number} of {path} is left out", False))
            continue
        entries[key] = rest.strip()
    return entries


# -- folders -----------------------------------------------------------------------------------------------------------


def _folder_of_sounds(path: str) -> SpeechData:
    raw, problems = [], []
    for here, folders, names in os.walk(path):
        folders.sort()
        for name in sorted(names):
            stem, ending = os.path.splitext(name)
            if ending.lower() not in ENDINGS:
                continue
            sound = os.path.join(here, name)
            texts = (os.path.join(here, stem + ending) for ending in TEXT_ENDINGS)
            text = next(filter(os.path.isfile, texts), "")
            if not text:
                problems.append(Problem(sound, "no text", f"there is no {stem}{TEXT_ENDINGS[0]} beside it", True))
                continue
            below = os.path.relpath(here, path)
            raw.append(_Raw(sound, sound, " ".join(read_text(text).split()), "" if below == "." else below))
    return _with_keys(raw, problems)


# -- tables ------------------------------------------------------------------------------------------------------------


def _table(path: str, speaker_column: str) -> SpeechData:
    problems: list[Problem] = []
    speaker_columns = (speaker_column, *_SPEAKER_COLUMNS)
    raw = []
    for number, row in _rows(path, problems):
        where = f"line {number} of {path}"
        sound, text = _column(row, _SOUND_COLUMNS), _column(row, _TEXT_COLUMNS)
        if sound is None or text is None:
            names = ", ".join(map(str, row))[:80]
            raise FormatError(f"line {number}: expected columns for the file ({', '.join(_SOUND_COLUMNS[:4])} …) and "
                              f"the text ({', '.join(_TEXT_COLUMNS[:4])} …), found {names}", path=path)
        start = _number(_column(row, _START_COLUMNS) or "0")
        end = _number(_column(row, _END_COLUMNS) or str(TO_THE_END))
        length = _column(row, _LENGTH_COLUMNS)
        if length and end == TO_THE_END and start:
            end = start + (_number(length) or 0.0)
        if start is None or end is None:
            problems.append(Problem(where, "odd time", "expected start and end in seconds", True))
            continue
        raw.append(_Raw(where, _beside(path, sound), " ".join(text.split()), _column(row, speaker_columns) or "", start,
                        end))
    return _with_keys(raw, problems)


def _rows(path: str, problems: list[Problem]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield the number and the columns of each line; without a header line, columns are file, text and speaker."""
    text = read_text(path)
    if path.lower().endswith((".jsonl", ".json")):
        for number, line in enumerate(text.split("\n"), 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except ValueError as error:
                problems.append(Problem(f"line {number} of {path}", "no JSON", str(error), True))
                continue
            if isinstance(row, dict):
                yield number, {str(name).lower(): value for name, value in row.items()}
            else:
                problems.append(Problem(f"line {number} of {path}", "no JSON", "expected an object", True))
        return
    lines = text.splitlines()
    first = lines[0] if lines else ""
    separator = "\t" if path.lower().endswith(".tsv") or "\t" in first else max("|;,", key=first.count)
    try:
        rows = (list(csv.reader(lines, delimiter=separator, quoting=csv.QUOTE_NONE)) if separator in "\t|" else
                list(csv.reader(lines, delimiter=separator)))
    except csv.Error as error:
        raise FormatError(f"expected a table: {error}", path=path) from None
    names = [name.strip().lower() for name in rows[0]] if rows else []
    has_names = any(name in _SOUND_COLUMNS for name in names) and any(name in _TEXT_COLUMNS for name in names)
    if not has_names:
        names = ["file", "text", "speaker"]
    for number, fields in enumerate(rows[has_names:], 1 + has_names):
        if not any(field.strip() for field in fields):
            continue
        if len(fields) < 2:
            problems.append(Problem(f"line {number} of {path}", "no text", "it has one column only", True))
            continue
        yield number, dict(zip(names, map(str.strip, fields), strict=False))


def _column(row: Mapping[str, Any], names: tuple[str, ...]) -> str | None:
    """Return the value of the first of ``names`` that the row has; None if it has none of them.

    Of a value that is a mapping, as Hugging Face's column of sounds, the element ``path`` is returned.
    """
    for name in names:
        value = row.get(name)
        if isinstance(value, dict):
            value = value.get("path")
        if value is not None:
            return str(value)
    return None


def _beside(table: str, sound: str) -> str:
    """Find a sound file that a table names: in the table's folder or a usual subfolder, perhaps without its ending.

    Returns the name unchanged if there is no such file.
    """
    folder = os.path.dirname(os.path.abspath(table))
    for place in (*(os.path.join(folder, name) for name in _FOLDERS_OF_SOUNDS), ""):
        for ending in ("", ".wav", ".flac", ".mp3"):
            path = os.path.join(place, sound + ending)
            if os.path.isfile(path):
                return path
    return sound


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


# -- keys --------------------------------------------------------------------------------------------------------------


def _with_keys(raw: list[_Raw], problems: list[Problem]) -> SpeechData:
    """Make utterances with unique keys that begin with the speaker's name."""
    taken: Counter[str] = Counter()
    utterances = []
    for row in raw:
        speaker = _plain(row.speaker) or _ONE_SPEAKER
        name = _plain(os.path.splitext(os.path.basename(row.sound))[0]) or "sound"
        key = name if name.startswith(f"{speaker}-") else f"{speaker}-{name}"
        taken[key] += 1
        if taken[key] > 1:
            key = f"{key}-{taken[key]}"
        utterances.append(Utterance(key, speaker, row.sound, row.start, row.end, tuple(row.text.split())))
    return SpeechData(utterances, problems)


def _plain(name: str) -> str:
    """Replace blanks, slashes and special characters of a shell, for Kaldi's lists."""
    return re.sub(r"[^\w.+-]+", "_", name).strip("_.")


# -- sounds ------------------------------------------------------------------------------------------------------------

_AT_THE_END = 0.5              # seconds by which a segment may exceed its sound
_SILENT = 10.0 ** (-55 / 20)   # peak, of full scale 1, below which sound counts as silence: -55 dBFS
_FLAT = 0.999                  # fraction of the peak from which on samples count as clipped
_LOUD = 0.3                    # peak, of full scale 1, below which clipping is not looked for
_RUN = 3                       # clipped samples come in runs of at least so many; fewer are a natural peak
_MANY_CLIPPED, _FEW_CLIPPED = 0.05, 0.001
_FASTEST = 35.0                # letters per second; fast speakers have 20
_SLOWEST = 0.5                 # letters per second, below which most of the speech is not in the text
_MIN_RATE = 1000.0


@dataclass(frozen=True)
class Limits:
    """Limits for the sound of utterances."""

    rate: float  # sample rate of the model in Hz
    # min_seconds, max_seconds: shortest and longest utterance
    min_seconds: float = 0.3
    max_seconds: float = 40.0
    allow_upsample: bool = False  # whether sound with a lower rate is accepted


def read_sounds(utterances: Iterable[Utterance], limits: Limits) -> Iterator[
        tuple[Utterance, np.ndarray | None, list[Problem]]]:
    """Yield each utterance with its sound, float32 (samples,) from -1 to 1 at the model's rate, and its problems.

    The sound is None if it cannot be used. Utterances of one file follow each other; a file is read up to the end of
    its last utterance, and utterances that are known to be too long are not read.
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
        raise Nnet3Error(f"{name} has {sound.rate:g} samples a second; expected {_MIN_RATE:g} or more")
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
        yield _checked_utterance(utterance, samples, sound.rate, limits)


def _opened(name: str) -> Sound:
    """Open a sound file, or an entry of Kaldi's wav.scp: a pipe or a place in an archive."""
    if os.path.exists(name) or not (name.rstrip().endswith("|") or ":" in name):
        return open_sound(name)
    wave = read_object(name, read_wave)
    return Sound(name, wave.rate, len(wave.samples), wave.duration, iter([wave.samples / np.float32(FULL_SCALE)]))


class _Blocks:
    """Sound file that is read once, block by block; its segments must be cut in the order of their beginnings."""

    def __init__(self, sound: Sound) -> None:
        self._sound, self._blocks = sound, sound.blocks()
        self._kept = np.zeros(0, dtype=np.float32)
        self._first = 0                                   # number of the first sample that is kept
        self._is_over = False

    def cut(self, start: float, end: float, longest: float) -> np.ndarray:
        """Return the samples from ``start`` to ``end`` seconds: float32 (samples,).

        With an end of -1, all samples from ``start`` on are returned, but at most ``longest`` + 1 seconds. Raises
        Nnet3Error for a segment that ends after the sound.
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
    """Return the problem of an utterance with invalid times or too long a segment, None if there is none.

    ``seconds`` : duration of the sound file, 0 if unknown
    """
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


def _checked_utterance(utterance: Utterance, samples: np.ndarray, rate: float, limits: Limits) -> tuple[
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
        yield Problem(key, "damaged sound", "it has NaN or infinite samples", True)
        return
    if seconds > limits.max_seconds:
        yield Problem(key, "too long", f"more than {limits.max_seconds:g} seconds", True)
    elif seconds < limits.min_seconds:
        yield Problem(key, "too short", f"{seconds:.2f} seconds, less than {limits.min_seconds:g}", True)
        return
    peak = float(np.abs(samples).max())
    if peak < _SILENT or float(np.ptp(samples)) < _SILENT:
        yield Problem(key, "silence", f"its peak is {peak:.5f} of full scale", True)
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
    """Return the fraction of samples that are clipped: the last of several successive samples near the ``peak``."""
    if peak < _LOUD:
        return 0.0
    at_limit = np.abs(samples) >= _FLAT * peak
    runs = at_limit[_RUN - 1:].copy()
    for back in range(1, _RUN):
        runs &= at_limit[_RUN - 1 - back:len(at_limit) - back]
    return float(runs.mean()) if len(runs) else 0.0
