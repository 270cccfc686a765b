"""Recognition of a microphone or a file in real time: blocks of sound, and the words after each block."""
from __future__ import annotations

import logging
import queue
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nnet3py.errors import Nnet3Error
from nnet3py.extras import load

if TYPE_CHECKING:
    from nnet3py.recognition.stream import Stream

logger = logging.getLogger(__name__)

BLOCK_SECONDS = 0.1
MOST_SECONDS_BEHIND = 30.0     # of a microphone's sound that may wait to be decoded; later sound is lost


class Heard(NamedTuple):
    """The text of a segment: complete if ``is_over``, otherwise of the sound so far."""

    text: str
    is_over: bool


def heard(stream: Stream, blocks: Iterable[Any]) -> Iterator[Heard]:
    """Pass blocks of sound to a stream; yield the current segment's text after each, and each finished segment's.

    Finished segments without words are left out.
    """
    for block in blocks:
        stream.accept_waveform(block)
        while stream.endpoint:
            text = stream.result().text
            if text:
                yield Heard(text, True)
        yield Heard(stream.partial, False)
    text = stream.finish().text
    if text:
        yield Heard(text, True)


def short_blocks(blocks: Iterable[np.ndarray], rate: float, in_real_time: bool = False) -> Iterator[np.ndarray]:
    """Cut blocks of samples, (samples,), into blocks of at most BLOCK_SECONDS, and yield these.

    ``rate``: samples a second. ``in_real_time``: whether each block is held back until the time when a microphone would
    have recorded it.
    """
    size = max(1, int(rate * BLOCK_SECONDS))
    begun, count = time.monotonic(), 0
    for block in blocks:
        for first in range(0, len(block), size):
            piece = block[first:first + size]
            count += len(piece)
            if in_real_time:
                time.sleep(max(0.0, begun + count / rate - time.monotonic()))
            yield piece


class Microphone:
    """The sound of a microphone; made by :func:`find_microphone`.

    Attributes
    ----------
    rate : samples a second
    name : name of the device
    """

    def __init__(self, rate: float, name: str) -> None:
        self.rate, self.name = rate, name
        self._blocks: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()      # a signal handler may put into it
        self._lost = 0

    def put(self, block: bytes) -> None:
        """Add a block of 16-bit samples to the queue of :meth:`blocks`; called in a thread of sounddevice.

        Blocks are dropped while the queue holds ``MOST_SECONDS_BEHIND`` or more.
        """
        if self._blocks.qsize() * BLOCK_SECONDS < MOST_SECONDS_BEHIND:
            self._blocks.put(block)
        else:
            self._lost += 1

    def stop(self) -> None:
        """End :meth:`blocks` after the blocks that were recorded so far; may be called by a signal handler."""
        self._blocks.put(None)

    def blocks(self) -> Iterator[bytes]:
        """Yield blocks of 16-bit samples as they are recorded, until :meth:`stop` is called."""
        while (block := self._blocks.get()) is not None:
            yield block
            if self._lost:
                logger.warning("Recognition is slower than speech: %.1f seconds are lost", self._lost * BLOCK_SECONDS)
                self._lost = 0


def find_microphone(device: str = "") -> Microphone:
    """Find a microphone, without opening it: the default one, or the one with a number or a name (or part of it).

    Raises Nnet3Error if there is none, or if the package sounddevice or its library is missing.
    """
    with _faults(device) as library:
        description = library.query_devices(_number_or_name(device), "input")
    return Microphone(float(description["default_samplerate"]), str(description["name"]))


@contextmanager
def opened(microphone: Microphone, device: str = "") -> Iterator[None]:
    """Open the microphone, and put its sound into ``microphone`` until the context ends.

    Raises Nnet3Error if the device cannot be opened.
    """
    with _faults(device) as library:
        stream = library.RawInputStream(
            samplerate=microphone.rate, blocksize=int(microphone.rate * BLOCK_SECONDS), device=_number_or_name(device),
            channels=1, dtype="int16", callback=lambda data, frames, moment, status: microphone.put(bytes(data)))
        stream.start()
    with stream:
        yield


def _number_or_name(device: str) -> int | str | None:
    return int(device) if device.isdigit() else device or None


@contextmanager
def _faults(device: str) -> Iterator[Any]:
    """Yield the package sounddevice; convert its errors within the context to Nnet3Error."""
    library = sounddevice()
    try:
        yield library
    except (library.PortAudioError, ValueError) as error:
        raise Nnet3Error(f"no microphone{f' {device!r}' if device else ''} can be opened: {error}",
                         "--list-devices lists the devices; --file takes a file of sound instead") from None


def device_list() -> str:
    """Return the sound devices as text, one per line; ``>`` stands before the default microphone."""
    return str(sounddevice().query_devices()) or "There are no devices for sound."


def sounddevice() -> Any:
    """Return the package sounddevice. Raises Nnet3Error if it or its library is missing."""
    try:
        return load("sounddevice", "a microphone needs", "listen")
    except OSError as error:
        raise Nnet3Error(f"sounddevice cannot load its library: {error}",
                         "install PortAudio, such as with apt-get install libportaudio2") from None
