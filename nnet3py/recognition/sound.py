"""Files of sound: WAVE files, and by packages what else there is.

FLAC, Ogg, MP3 and others by soundfile (the extra ``sound``), m4a, webm, video and most others by PyAV (the extra
``media``) or the program ffmpeg.
"""
from __future__ import annotations

import io
import logging
import os
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from nnet3py.errors import FormatError, Nnet3Error, UsageError
from nnet3py.extras import install_command
from nnet3py.formats.foreign_files import FULL_SCALE, has_stream_size, read_wave
from nnet3py.io.object_files import token_reader
from nnet3py.io.streams import InputStream
from nnet3py.recognition.sound_container import (
    ContainedSound,
    by_media_library,
    by_media_program,
    media_library,
    media_program,
)

logger = logging.getLogger(__name__)

STANDARD_INPUT = "-"
# Endings of the names of files of sound, for folders of them.
ENDINGS = (".wav", ".flac", ".ogg", ".oga", ".opus", ".mp3", ".aiff", ".aif", ".au", ".caf", ".w64", ".rf64",
           ".m4a", ".m4b", ".aac", ".amr", ".3gp", ".3g2", ".wma", ".weba", ".mka", ".ac3",
           ".mp4", ".m4v", ".mov", ".webm", ".mkv", ".avi", ".wmv", ".asf", ".flv", ".mpg", ".mpeg", ".ogv")
_RIFF = (b"RIFF", b"RIFX", b"RF64")
_BEGIN_BYTES = 4096
# What soundfile notes of a file that ends too early: WAVE, AIFF, AU, W64, RF64.
_CUT = re.compile(r"^ *(?:data|SSND|Data Size|riff|Riff size) *: (\d+) \(should be (\d+)\)", re.MULTILINE)
_UNKNOWN_BYTES = (0x7FFFFFFF, 0xFFFFFFFF)
_BLOCK_SECONDS = 10


@dataclass
class Sound:
    """A sound that is there to be read once.

    Attributes
    ----------
    name : of the file
    rate : samples a second
    num_channels : of the file
    seconds : how long it is; 0 if that is not known before it is read
    on_block : called with the number of seconds that were read so far, at each block; None for nothing
    """

    name: str
    rate: float
    num_channels: int
    seconds: float
    _read: Iterator[np.ndarray]
    _channel: int | None = None
    on_block: Callable[[float], None] | None = None

    def blocks(self) -> Iterator[np.ndarray]:
        """float32 (samples,) from -1 to 1, one block after the other, of one channel or the mean of all.

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

    WAVE files are read by our own reader or soundfile; others, also the sound of videos, by the first of these that
    is there and can: the package soundfile, the package av, the program ffmpeg.

    ``channel``: which one to take, from 0; None for their mean. Raises FormatError for anything but sound, Nnet3Error
    for what needs one of those, UsageError for a channel that the file does not have.
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
    """The sound by the first reader that can. What is wrong with a WAVE file, the first one knows best."""
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
    """What may read a file that begins so, in the order to try."""
    library = _library()
    is_stream = has_stream_size(begin)            # of which soundfile reads nothing, without an error
    if _is_wave(begin) and (library is None or content is not None or is_stream):
        yield _wave
    if library is not None and not is_stream:
        yield partial(_by_library, library)
    media = media_library()                       # only now: it takes a while to load
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
    """A WAVE file, read whole by our own reader."""
    source = open(path, "rb") if content is None else io.BytesIO(content)               # noqa: SIM115 (it closes it)
    with InputStream(source, path) as stream:
        wave = read_wave(token_reader(stream))
    blocks = iter([wave.samples / FULL_SCALE])
    return Sound(path, wave.rate, len(wave.samples), wave.duration, blocks)


def _by_library(library: Any, path: str, content: bytes | None) -> Sound:
    """A file of any form that soundfile reads, a part at a time."""
    try:
        opened = library.SoundFile(path if content is None else io.BytesIO(content))
    except (RuntimeError, TypeError, OSError) as error:
        raise FormatError("expected a file of sound, found none that soundfile can read "
                          f"({getattr(error, 'error_string', error)})", path=path) from None
    rate = float(opened.samplerate)
    frames = max(0, int(opened.frames))
    frames = frames if frames < 1 << 60 else 0            # not known
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
