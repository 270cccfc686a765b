"""Files of sound: WAVE files, and with the package soundfile (the extra ``sound``) FLAC, Ogg, MP3 and others."""
from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from nnet3py.errors import FormatError, Nnet3Error, UsageError
from nnet3py.extras import install_command
from nnet3py.formats.wave_file import FULL_SCALE, read_wave
from nnet3py.io.object_files import token_reader
from nnet3py.io.streams import InputStream

STANDARD_INPUT = "-"
# Endings of the names of files of sound, for folders of them.
ENDINGS = (".wav", ".flac", ".ogg", ".oga", ".opus", ".mp3", ".aiff", ".aif", ".au", ".caf", ".w64", ".rf64")
_RIFF = (b"RIFF", b"RIFX", b"RF64")
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

    ``channel``: which one to take, from 0; None for their mean. Raises FormatError for anything but sound, Nnet3Error
    for what needs the package soundfile, UsageError for a channel that the file does not have.
    """
    content = io.BytesIO(sys.stdin.buffer.read()) if path == STANDARD_INPUT else None
    if content is None and not os.path.isfile(path):
        raise Nnet3Error(f"there is no file {path}" if not os.path.isdir(path) else f"{path} is a folder")
    library = _library()
    is_wave = _beginning(path, content) in _RIFF
    if is_wave and (library is None or content is not None):
        sound = _wave(path, content)
    elif library is None:
        raise Nnet3Error(f"{path} is no WAVE file, and reading others needs soundfile, which is not installed",
                         install_command("sound"))
    else:
        sound = _by_library(path, content, library)
    if channel is not None and not 0 <= channel < sound.num_channels:
        raise UsageError(f"{path} has no channel {channel}", f"there are {sound.num_channels}, counted from 0")
    sound._channel = channel
    return sound


def _beginning(path: str, content: io.BytesIO | None) -> bytes:
    try:
        if content is not None:
            return content.getvalue()[:4]
        with open(path, "rb") as stream:
            return stream.read(4)
    except OSError as error:
        raise Nnet3Error(f"{path} cannot be read: {error.strerror}") from None


def _wave(path: str, content: io.BytesIO | None) -> Sound:
    """A WAVE file, read whole by our own reader."""
    with InputStream(open(path, "rb") if content is None else content, path) as stream:   # noqa: SIM115 (it closes it)
        wave = read_wave(token_reader(stream))
    blocks = iter([wave.samples / FULL_SCALE])
    return Sound(path, wave.rate, len(wave.samples), wave.duration, blocks)


def _by_library(path: str, content: io.BytesIO | None, library: Any) -> Sound:
    """A file of any form that soundfile reads, a part at a time."""
    try:
        opened = library.SoundFile(path if content is None else content)
    except (RuntimeError, TypeError, OSError) as error:
        raise FormatError(f"expected a file of sound: {error}", path=path) from None
    rate = float(opened.samplerate)

    def blocks() -> Iterator[np.ndarray]:
        with opened:
            while True:
                try:
                    block = opened.read(int(_BLOCK_SECONDS * rate), dtype="float32", always_2d=True)
                except RuntimeError as error:
                    raise FormatError(f"the sound is damaged: {error}", path=path) from None
                if not len(block):
                    return
                yield np.ascontiguousarray(block.T)

    frames = max(0, int(opened.frames))
    return Sound(path, rate, int(opened.channels), frames / rate if frames < 1 << 60 else 0.0, blocks())


def _library() -> Any:
    try:
        import soundfile
    except (ImportError, OSError):                # OSError: its library in C is not there
        return None
    return soundfile
