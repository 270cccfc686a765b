"""Sound: samples of programs, files, and lists of files.

WAVE files need no package; FLAC, Ogg, MP3 and others are read by soundfile (the extra ``sound``), m4a, webm, video and
most others by PyAV (the extra ``media``) or the program ffmpeg.
"""
from __future__ import annotations

import io
import logging
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from nnet3py.errors import FormatError, Nnet3Error, NumericError, ShapeError, UsageError
from nnet3py.extras import install_command
from nnet3py.formats.foreign_files import FULL_SCALE, has_stream_size, read_wave
from nnet3py.io.object_files import token_reader
from nnet3py.io.streams import InputStream, read_lines
from nnet3py.recognition.sound_container import (
    ContainedSound,
    by_media_library,
    by_media_program,
    media_library,
    media_program,
)

Block = bytes | bytearray | memoryview | np.ndarray

_LARGEST = 32.0                # sample beyond which floats are not meant to be from -1 to 1


def samples_of(sound: Block, channel: int | None = None) -> np.ndarray:
    """Return a copy of samples as float32 (samples,) of the range of 16 bits.

    Parameters
    ----------
    sound : bytes of 16-bit samples (little-endian); or an array of int16, or of float32 or float64 from -1 to 1, of one
        channel: (samples,) or (samples, 1). With ``channel``, (samples, channels)
    channel : number of the channel to take, from 0

    Raises UsageError for another type, or floating-point samples beyond -32 to 32; ShapeError for several channels
    without ``channel``, or a channel that does not exist; NumericError for NaN or infinity.
    """
    if isinstance(sound, bytes | bytearray | memoryview):
        data = bytes(sound)
        if len(data) % 2:
            raise UsageError(f"expected bytes of 16-bit samples, two for each, found {len(data)}, an odd number")
        return np.frombuffer(data, dtype="<i2").astype(np.float32)
    if not isinstance(sound, np.ndarray) or sound.dtype.type not in (np.int16, np.float32, np.float64):
        kind = f"an array of {sound.dtype}" if isinstance(sound, np.ndarray) else type(sound).__name__
        raise UsageError(f"expected bytes of 16-bit samples, or an array of int16 or float32, found {kind}",
                         "tensor.numpy() converts a tensor" if type(sound).__name__ == "Tensor" else
                         "np.asarray(sound, np.int16) converts samples of 16 bits")
    if channel is not None and (sound.ndim != 2 or not 0 <= channel < sound.shape[1]):
        raise ShapeError(f"there is no channel {channel} in an array of shape {sound.shape}",
                         "expected (samples, channels)")
    if channel is None and sound.ndim != 1 and sound.shape[1:] != (1,):
        raise ShapeError(f"expected the samples of one channel, found an array of shape {sound.shape}",
                         "give one channel, such as array[:, 0], or their mean")
    samples = sound.reshape(-1) if channel is None else sound[:, channel]
    if samples.dtype == np.int16:
        return samples.astype(np.float32)
    if not np.isfinite(samples).all():
        raise NumericError(f"sample {int((~np.isfinite(samples)).argmax())} of a block is NaN or infinite")
    if len(samples) and float(np.abs(samples).max()) > _LARGEST:
        raise UsageError(f"expected floating-point samples from -1 to 1, found {float(np.abs(samples).max()):g}",
                         "divide samples of the range of 16 bits by 32768, or give int16")
    return samples.astype(np.float32) * FULL_SCALE


logger = logging.getLogger(__name__)

STANDARD_INPUT = "-"
# Endings of the names of files that are taken for sound in folders.
ENDINGS = (".wav", ".flac", ".ogg", ".oga", ".opus", ".mp3", ".aiff", ".aif", ".au", ".caf", ".w64", ".rf64",
           ".m4a", ".m4b", ".aac", ".amr", ".3gp", ".3g2", ".wma", ".weba", ".mka", ".ac3",
           ".mp4", ".m4v", ".mov", ".webm", ".mkv", ".avi", ".wmv", ".asf", ".flv", ".mpg", ".mpeg", ".ogv")
_RIFF = (b"RIFF", b"RIFX", b"RF64")
_BEGIN_BYTES = 4096
# Notes of soundfile about files that end too early: WAVE, AIFF, AU, W64, RF64.
_CUT = re.compile(r"^ *(?:data|SSND|Data Size|riff|Riff size) *: (\d+) \(should be (\d+)\)", re.MULTILINE)
_UNKNOWN_BYTES = (0x7FFFFFFF, 0xFFFFFFFF)
_BLOCK_SECONDS = 10


@dataclass
class Sound:
    """An opened file of sound, whose samples can be read once."""

    name: str          # name of the file
    rate: float        # samples a second
    num_channels: int  # number of the file's channels
    seconds: float     # duration; 0 if it is not known before the end
    _read: Iterator[np.ndarray]
    _channel: int | None = None
    # function that is called at each block with the number of seconds read so far; None: no call
    on_block: Callable[[float], None] | None = None

    def blocks(self) -> Iterator[np.ndarray]:
        """Yield blocks of one channel, or of the mean of all channels, float32 (samples,) from -1 to 1.

        Raises FormatError where the file is damaged.
        """
        count = 0
        for block in self._read:                      # (channels, samples)
            count += block.shape[1]
            if self.on_block is not None:
                self.on_block(count / self.rate)
            if self._channel is not None:
                yield block[self._channel]
            else:
                yield block[0] if len(block) == 1 else block.mean(axis=0, dtype=np.float32)


def open_sound(path: str, channel: int | None = None) -> Sound:
    """Open a file of sound; ``-`` is standard input.

    WAVE files are read by nnet3py's reader or soundfile; others, also the sound of videos, by the first that is
    installed and can read them: the package soundfile, the package av, the program ffmpeg.

    ``channel``: number of the channel, from 0; None: the mean of the channels.

    Raises FormatError for a file that is no sound; Nnet3Error for a file that none of the installed packages can read,
    or that does not exist; UsageError for a channel that the file does not have.
    """
    content = sys.stdin.buffer.read() if path == STANDARD_INPUT else None
    if content is None and not os.path.isfile(path):
        raise Nnet3Error(f"{path} is a folder") if os.path.isdir(path) else Nnet3Error(
            f"there is no file {path}", "addresses are not opened: fetch the file first" if "://" in path else None)
    sound = _opened(path, content)
    if channel is not None and not 0 <= channel < sound.num_channels:
        raise UsageError(f"{path} has no channel {channel}", f"there are {sound.num_channels}, counted from 0")
    sound._channel = channel
    return sound


def _opened(path: str, content: bytes | None) -> Sound:
    """Open a file, or its ``content``, by the first reader that can read it.

    If none can, the error of the first reader is raised for a WAVE file, that of the last for other files.
    """
    begin = _beginning(path, content)
    if not begin:
        raise FormatError("expected a file of sound, found an empty one", path=path)
    errors = []
    for reader in _readers(begin, content):
        try:
            return reader(path, content)
        except FormatError as error:
            errors.append(error)
    if _is_wave(begin):
        raise errors[0]
    if media_library() is not None or media_program() is not None:
        raise errors[-1]
    hint = ("m4a, webm, video and most other kinds are read by PyAV or by the program ffmpeg, and neither is installed."
            f" PyAV: {install_command('media')}; ffmpeg: with the system's packages, such as apt install ffmpeg")
    if errors:                                    # soundfile's
        errors[-1].hint = hint
        raise errors[-1]
    raise Nnet3Error(f"{path} is no WAVE file, the only kind that can be read without further packages", hint)


def _readers(begin: bytes, content: bytes | None) -> Iterator[Callable[[str, bytes | None], Sound]]:
    """Yield the readers to try, in order, for a file whose first bytes are ``begin``."""
    library = _library()
    is_stream = has_stream_size(begin)            # soundfile reads nothing of such a file, without an error
    if _is_wave(begin) and (library is None or content is not None or is_stream):
        yield _wave
    if library is not None and not is_stream:
        yield partial(_by_library, library)
    media = media_library()                       # late, since it takes long to load
    program = media_program() if media is None else None
    if media is not None:
        yield partial(_contained, by_media_library, media)
    elif program is not None:
        yield partial(_contained, by_media_program, program)


def _is_wave(begin: bytes) -> bool:
    return begin[:4] in _RIFF and begin[8:12] == b"WAVE"


def _beginning(path: str, content: bytes | None) -> bytes:
    try:
        if content is not None:
            return content[:_BEGIN_BYTES]
        with open(path, "rb") as stream:
            return stream.read(_BEGIN_BYTES)
    except OSError as error:
        raise Nnet3Error(f"{path} cannot be read: {error.strerror}") from None


def _wave(path: str, content: bytes | None) -> Sound:
    """Read a WAVE file as a whole by nnet3py's reader."""
    source = open(path, "rb") if content is None else io.BytesIO(content)               # noqa: SIM115 (it closes it)
    with InputStream(source, path) as stream:
        wave = read_wave(token_reader(stream))
    blocks = iter([wave.samples / FULL_SCALE])
    return Sound(path, wave.rate, len(wave.samples), wave.duration, blocks)


def _by_library(library: Any, path: str, content: bytes | None) -> Sound:
    """Open a file, or its ``content``, by soundfile (``library``), which reads it block by block."""
    try:
        opened = library.SoundFile(path if content is None else io.BytesIO(content))
    except (RuntimeError, TypeError, OSError) as error:
        raise FormatError("expected a file of sound, found none that soundfile can read "
                          f"({getattr(error, 'error_string', error)})", path=path) from None
    rate = float(opened.samplerate)
    frames = max(0, int(opened.frames))
    frames = frames if frames < 1 << 60 else 0            # unknown
    cut = _CUT.search(opened.extra_info)
    expected, there = map(int, cut.groups()) if cut else (0, 0)

    def blocks() -> Iterator[np.ndarray]:
        count = 0
        with opened:
            while True:
                try:
                    block = opened.read(int(_BLOCK_SECONDS * rate), dtype="float32", always_2d=True)
                except RuntimeError as error:
                    raise FormatError(f"the sound is damaged: {error}", path=path) from None
                if not len(block):
                    break
                count += len(block)
                yield np.ascontiguousarray(block.T)
        if not count:
            raise FormatError("expected a file of sound, found one without samples", path=path)
        if expected > there and expected not in _UNKNOWN_BYTES:
            logger.warning("Expected %d bytes of samples, found the end of the file after %d [%s]", expected, there,
                           path)
        elif frames - count > rate / 10:
            logger.warning("The sound ends after %.1f s, expected %.1f s by its header [%s]", count / rate,
                           frames / rate, path)

    return Sound(path, rate, int(opened.channels), frames / rate, blocks())


def _contained(reader: Callable[[Any, str, bytes | None], ContainedSound], tool: Any, path: str,
               content: bytes | None) -> Sound:
    sound = reader(tool, path, content)
    return Sound(path, sound.rate, sound.num_channels, sound.seconds, sound.blocks)


def _library() -> Any:
    try:
        import soundfile
    except (ImportError, OSError):                # OSError: its library in C is not there
        return None
    return soundfile


class Listed(NamedTuple):
    """A file of sound; ``name`` is the file name of its result without ending, with subfolders of the given folder."""

    path: str
    name: str


def find_sounds(paths: Iterable[str], names_differ: bool = True) -> list[Listed]:
    """Return the given files, and the files in given folders whose ending is that of sound; each once, in order.

    Subfolders are searched, too. Numbers of ignored files in folders, and repeated files, are logged. Raises UsageError
    for missing files, folders without sounds, and, if ``names_differ``, for two results with the same name.
    """
    sounds: dict[str, Listed] = {}
    for path in paths:
        for listed in _in_folder(path) if os.path.isdir(path) else [_file(path)]:
            first = sounds.setdefault(os.path.realpath(listed.path) if listed.path != STANDARD_INPUT else "", listed)
            if first.path != listed.path:
                logger.info("%s is passed over: it is the same file as %s", listed.path, first.path)
    return _with_own_names(list(sounds.values())) if names_differ else list(sounds.values())


def listed_sounds(lines: Iterable[str]) -> list[Listed]:
    """Return the files whose paths are the lines of a list, in order; repeated and empty lines are ignored.

    The name of a result is the path in the list without its ending, so files of the same name in different folders have
    different results. Raises UsageError for an empty list, and for two results with the same name. Whether a file
    exists is not checked here.
    """
    paths = list(dict.fromkeys(line.rstrip("\r") for line in lines if line.strip()))
    if not paths:
        raise UsageError("the list of files of sound is empty")
    if STANDARD_INPUT in paths:
        raise UsageError("a list of files of sound names standard input (-)", "name files")
    return _with_own_names([Listed(path, _stem(_within(path))) for path in paths])


def _within(path: str) -> str:
    """Return a relative path, without drive, root and ``..``, so that, joined to a folder, it stays inside it."""
    parts = os.path.splitdrive(os.path.normpath(path))[1].split(os.sep)
    return os.path.join(*(part for part in parts if part not in ("", os.pardir)))


def _file(path: str) -> Listed:
    if path == STANDARD_INPUT:
        return Listed(path, "standard-input")
    if not os.path.isfile(path):
        raise UsageError(f"there is no file or folder {path}")
    return Listed(path, _stem(os.path.basename(path)))


def _in_folder(folder: str) -> list[Listed]:
    sounds = []
    skipped: Counter[str] = Counter()
    for here, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = os.path.join(here, name)
            if not os.path.isfile(path):
                skipped["not plain files, or links to nothing"] += 1
            elif name.lower().endswith(ENDINGS):
                sounds.append(Listed(path, _stem(os.path.relpath(path, folder))))
            else:
                ending = os.path.splitext(name)[1].lower()
                skipped[f"with the ending {ending}" if ending else "without an ending"] += 1
    if skipped:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(skipped.items()))
        logger.info("Files in %s that are passed over, since they are not sound by their names: %s", folder, kinds)
    if not sounds:
        raise UsageError(f"the folder {folder} has no files of sound", f"their names end in {', '.join(ENDINGS)}")
    return sounds


def _stem(name: str) -> str:
    stem, ending = os.path.splitext(name)
    return stem if ending.lower() in ENDINGS else name


def _with_own_names(sounds: list[Listed]) -> list[Listed]:
    of_name: dict[str, str] = {}
    for path, name in sounds:
        if name in of_name:
            raise UsageError(f"the results of {of_name[name]} and {path} would have the same name, {name}",
                             "rename one of them, or transcribe them into different folders")
        of_name[name] = path
    return sounds


def to_do(sounds: Sequence[Listed], folder: str, ending: str) -> list[Listed]:
    """Return the sounds whose result in a folder is missing, or older than the sound."""
    def is_done(sound: Listed) -> bool:
        try:
            return os.path.getmtime(result_path(sound, folder, ending)) >= os.path.getmtime(sound.path)
        except OSError:
            return False

    return [sound for sound in sounds if not is_done(sound)]


def result_path(sound: Listed, folder: str, ending: str) -> str:
    """Return the path of a sound's result in a folder."""
    return os.path.join(folder, sound.name + ending)


def split(sounds: Sequence[Listed], count: int) -> list[list[Listed]]:
    """Distribute sounds over at most ``count`` lists, each with about the same number of bytes, none empty."""
    sizes = [0] * count
    lists: list[list[Listed]] = [[] for _ in range(count)]
    for sound in sorted(sounds, key=lambda sound: -os.path.getsize(sound.path)):
        least = min(range(count), key=sizes.__getitem__)
        lists[least].append(sound)
        sizes[least] += max(1, os.path.getsize(sound.path))
    return [part for part in lists if part]


def write_list(sounds: Sequence[Listed], path: str) -> None:
    """Write a list of sounds for another process. Raises UsageError for a name that contains a line end."""
    lines = [field for sound in sounds for field in sound]
    if any("\n" in field or "\r" in field for field in lines):
        raise UsageError("a file of sound has a line end in its name", "rename it, or use one job")
    with open(path, "w", encoding="utf-8", errors="surrogateescape") as stream:
        stream.write("".join(f"{field}\n" for field in lines))


def read_list(path: str) -> list[Listed]:
    """Read a list that :func:`write_list` wrote."""
    lines = read_lines(path)
    if len(lines) % 2:
        raise UsageError(f"{path} is not a list of sounds, each with a line for its file and one for its name: it has "
                         f"{len(lines)} lines")
    return [Listed(*pair) for pair in zip(lines[::2], lines[1::2], strict=True)]
