"""Sound in the files of telephones, browsers and cameras: m4a, mp4, webm, mkv, amr, wma and others, also with video.

They are read by PyAV (the package av, which has FFmpeg's libraries in it) or by the program ``ffmpeg``.
"""
from __future__ import annotations

import io
import logging
import os
import re
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from typing import Any, NamedTuple

import numpy as np

from nnet3py.errors import FormatError, Nnet3Error

logger = logging.getLogger(__name__)

_BLOCK_SECONDS = 1
_RATES = range(1000, 1_000_000)       # samples a second; a file with another rate is damaged
# Formats whose header says how long they are; FFmpeg estimates others by their first packets.
_STATING = {"matroska", "mov", "asf", "avi", "wav", "flac", "ogg"}
_PLAYLISTS = {"hls", "dash", "concat"}
_MOST_SECONDS = 1e7                   # a longer duration in a header is not trusted
# Seconds that may be missing at the end without a warning: a packet of sound; a video may end with a still image.
_TOLERANCE, _TOLERANCE_OF_VIDEO = 0.2, 1.0
# Playlists name other files, also on other computers; only the given file is read.
_NO_OTHER_FILES = {"protocol_whitelist": "none"}
_AU_HEADER = struct.Struct(">4s5I")   # mark, offset of the samples, their bytes, their kind, rate, channels
_AU_FLOAT = 6


class ContainedSound(NamedTuple):
    """Sound of a file, which can be read once."""

    rate: float        # samples a second
    num_channels: int  # number of the file's channels
    seconds: float     # duration by the file's header; 0 if it has none
    # iterator of float32 (channels, samples) from -1 to 1; damaged parts are left out, with a warning
    blocks: Iterator[np.ndarray]


class _Part(NamedTuple):
    """Samples, float32 (channels, samples), with the sampling rate and the duration of the file."""

    samples: np.ndarray
    rate: int
    seconds: float


def media_library() -> Any:
    """Return the package av; None if it is not installed."""
    try:
        import av
    except (ImportError, OSError):                # OSError: one of its libraries in C is not there
        return None
    return av


def media_program() -> str | None:
    """Return the path of the program ffmpeg; None if there is none."""
    return shutil.which("ffmpeg")


def by_media_library(library: Any, path: str, content: bytes | None) -> ContainedSound:
    """Open a file, or its ``content``, by PyAV; of several streams of sound the first is taken.

    Raises FormatError for a file without sound, or without sound that can be decoded.
    """
    return _opened(_by_library(library, path, content), path)


def by_media_program(program: str, path: str, content: bytes | None) -> ContainedSound:
    """Open a file, or its ``content``, by the program ffmpeg, as :func:`by_media_library`.

    Raises also Nnet3Error if the program cannot be run.
    """
    return _opened(_by_program(program, path, content), path)


def _opened(parts: Iterator[_Part], path: str) -> ContainedSound:
    first = next(parts, None)
    if first is None:
        raise FormatError("expected a file of sound, found one whose sound has no samples", path=path)
    return ContainedSound(float(first.rate), len(first.samples), first.seconds, _blocks(first, parts))


def _blocks(first: _Part, parts: Iterable[_Part]) -> Iterator[np.ndarray]:
    """Join the samples of short parts, the first of which is ``first``; yield blocks of about a second."""
    kept, count = [first.samples], first.samples.shape[1]
    for part in parts:
        if count >= _BLOCK_SECONDS * first.rate:
            yield np.concatenate(kept, axis=1)
            kept, count = [], 0
        kept.append(part.samples)
        count += part.samples.shape[1]
    yield np.concatenate(kept, axis=1)


def _stated(seconds: float, names: str) -> float:
    """Return the duration in a header if its format (``names``) states durations and it is plausible, else 0."""
    return seconds if _STATING & set(names.split(",")) and 0 < seconds < _MOST_SECONDS else 0.0


def _warn_if_short(there: float, stated: float, has_video: bool, path: str) -> None:
    """Log a warning if a file has fewer seconds of samples, ``there``, than its header states (``stated``; 0: none)."""
    if stated - there > (_TOLERANCE_OF_VIDEO if has_video else _TOLERANCE):
        logger.warning("The file ends after %.1f s, expected %.1f s by its header [%s]", there, stated, path)


# -- PyAV --------------------------------------------------------------------------------------------------------------


def _by_library(library: Any, path: str, content: bytes | None) -> Iterator[_Part]:
    faults = (library.error.FFmpegError, ValueError, OSError, RuntimeError, LookupError, ArithmeticError, TypeError,
              MemoryError)
    with ExitStack() as stack:
        source = stack.enter_context(open(path, "rb")) if content is None else io.BytesIO(content)
        try:
            container = stack.enter_context(library.open(source, metadata_errors="replace", options=_NO_OTHER_FILES))
            stream = next((stream for stream in container.streams if stream.type == "audio"), None)
            kinds = sorted({stream.type for stream in container.streams} - {"audio"})
        except faults as error:
            raise FormatError(f"expected a file of sound: {_reason(error)}", path=path) from None
        if stream is None:
            raise FormatError(f"expected a file of sound, found one without sound ({', '.join(kinds) or 'empty'})",
                              path=path)
        if stream.codec_context is None:
            raise FormatError("expected a file of sound, found a kind of sound that PyAV cannot decode", path=path)
        seconds = _stated((container.duration or 0) / library.time_base, container.format.name)
        decoder = _Decoder(library, stream, faults)
        for samples in decoder.samples(container):
            yield _Part(samples, decoder.rate, seconds)
        if not decoder.rate:
            raise FormatError("expected a file of sound, found one that cannot be decoded: "
                              f"{decoder.fault or 'it has no samples'}", path=path)
        if decoder.num_damaged:
            logger.warning("The sound is damaged: %d of %d packets are left out (%s) [%s]", decoder.num_damaged,
                           decoder.num_packets, decoder.fault, path)
        _warn_if_short(decoder.end - (container.start_time or 0) / library.time_base, seconds, "video" in kinds, path)


class _Decoder:
    """A decoder of one stream of sound in a container, by PyAV.

    Attributes
    ----------
    rate, num_channels : sampling rate and channels of the first samples, to which later samples are converted; 0 before
        the first samples
    end : time in seconds at which the last packet of any stream ends
    num_packets, num_damaged : number of packets of sound, and of those that could not be decoded
    fault : error message of the last packet that could not be decoded
    """

    def __init__(self, library: Any, stream: Any, faults: tuple[type[BaseException], ...]) -> None:
        self._library, self._stream, self._faults = library, stream, faults
        self._resampler: Any = None
        self._resampler_form: tuple[Any, ...] = ()
        self._layout = ""
        self.rate = self.num_channels = self.num_packets = self.num_damaged = 0
        self.end, self.fault = 0.0, ""

    def samples(self, container: Any) -> Iterator[np.ndarray]:
        """Yield samples, float32 (channels, samples) from -1 to 1, packet after packet."""
        for packet in self._packets(container):
            self.num_packets += packet is not None
            try:
                frames = [self._converted(frame) for frame in self._stream.codec_context.decode(packet)]
            except self._faults as error:
                self.num_damaged += packet is not None
                self.fault = self.fault if packet is None else _reason(error)
                continue
            yield from (samples for samples in frames if samples.size)

    def _packets(self, container: Any) -> Iterator[Any]:
        """Yield the packets of the stream, then None, with which a decoder returns its last frames."""
        packets = container.demux()
        while True:
            try:
                packet = next(packets, None)
                if packet is None:
                    break
                time = packet.dts if packet.pts is None else packet.pts
                if time is not None and packet.time_base is not None:
                    self.end = max(self.end, float((time + (packet.duration or 0)) * packet.time_base))
                is_ours = packet.size and packet.stream.index == self._stream.index
            except self._faults as error:          # what follows is not found any more
                self.num_packets += 1
                self.num_damaged += 1
                self.fault = _reason(error)
                break
            if is_ours:
                yield packet
        yield None

    def _converted(self, frame: Any) -> np.ndarray:
        """Return a frame's samples, float32 (channels, samples) from -1 to 1, converted to the form of the first frame.

        The form is the number of channels and the sampling rate. Raises ValueError for NaN or infinity.
        """
        values = _values(frame)
        if not self.rate:
            if frame.sample_rate not in _RATES or not len(values):
                raise ValueError(f"{frame.sample_rate} samples a second, {len(values)} channels")
            self.rate, self.num_channels, self._layout = frame.sample_rate, len(values), frame.layout.name
        elif (frame.sample_rate, len(values)) != (self.rate, self.num_channels):
            form = (frame.sample_rate, frame.layout.name, frame.format.name)
            if form != self._resampler_form:
                self._resampler = self._library.AudioResampler("fltp", self._layout, self.rate)
                self._resampler_form = form
            parts = [_values(part) for part in self._resampler.resample(frame)]
            values = np.concatenate([np.zeros((self.num_channels, 0), np.float32), *parts], axis=1)
        if not np.isfinite(values).all():
            raise ValueError("NaN or infinite samples")
        return np.clip(values, -1.0, 1.0)


def _values(frame: Any) -> np.ndarray:
    """Return the samples of a frame of any format, float32 (channels, samples)."""
    values = frame.to_ndarray()
    if not frame.format.is_planar:
        values = values.reshape(frame.samples, -1).T
    if values.dtype.kind == "u":
        values = (values.astype(np.float32) - 128) / 128
    elif values.dtype.kind == "i":
        values = values / np.float32(-float(np.iinfo(values.dtype).min))
    return np.ascontiguousarray(values, dtype=np.float32)


def _reason(error: BaseException) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


# -- the program ffmpeg ------------------------------------------------------------------------------------------------


def _by_program(program: str, path: str, content: bytes | None) -> Iterator[_Part]:
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        source, log = path, os.path.join(folder, "log")
        if content is not None:                    # a file: the index of an mp4 may stand at its end
            source = os.path.join(folder, "sound")
            with open(source, "wb") as copy:
                copy.write(content)
        process = stack.enter_context(_started(program, source, log))
        stack.callback(process.kill)               # before it is waited for, if not all is read
        channels, rate = _au_form(process.stdout, program, log, path)
        seconds, count = _seconds_said(_report(log), path), 0
        frame_bytes = 4 * channels
        while data := process.stdout.read(frame_bytes * rate * _BLOCK_SECONDS):
            values = np.frombuffer(data[:len(data) // frame_bytes * frame_bytes], dtype=">f4").reshape(-1, channels)
            count += len(values)
            if len(values):
                samples = np.nan_to_num(values.T.astype(np.float32), posinf=1.0, neginf=-1.0)
                yield _Part(np.clip(samples, -1.0, 1.0, order="C"), rate, seconds)
        process.wait()
        said = _report(log)
        faults = _faults_said(said)
        if not count:
            raise _refusal(said, path)
        if faults or process.returncode:
            logger.warning("The sound is damaged, what ffmpeg can decode of it is used (%s) [%s]",
                           faults[-1] if faults else f"exit status {process.returncode}", path)
        elif "Video:" not in said:
            _warn_if_short(count / rate, seconds, False, path)


def _started(program: str, source: str, log: str) -> Any:
    """Start ffmpeg; return the process, which writes the file's first stream of sound in the format AU to a pipe."""
    command = [program, "-nostdin", "-hide_banner", "-nostats", "-loglevel", "level+info",
               "-protocol_whitelist", "file", "-i", f"file:{source}",
               "-map", "0:a:0", "-map_metadata", "-1", "-c:a", "pcm_f32be", "-f", "au", "-"]
    try:
        with open(log, "wb") as messages:
            return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=messages)
    except OSError as error:
        raise Nnet3Error(f"{program} cannot be run: {error.strerror}") from None


def _au_form(stream: Any, program: str, log: str, path: str) -> tuple[int, int]:
    """Read an AU header; return the number of channels and the sampling rate. Raises FormatError if there is none."""
    head = stream.read(_AU_HEADER.size)
    if len(head) < _AU_HEADER.size:                # the program has closed its output, and is about to end
        stream.read()
        raise _refusal(_report(log), path)
    mark, begin, _, kind, rate, channels = _AU_HEADER.unpack(head)
    if mark != b".snd" or kind != _AU_FLOAT or rate not in _RATES or not channels or begin < len(head):
        raise FormatError(f"expected sound from {program}, found {head!r}", path=path)
    stream.read(begin - len(head))
    return channels, rate


def _report(log: str) -> str:
    """Return ffmpeg's messages so far, from its log file."""
    with open(log, encoding="utf-8", errors="replace") as stream:
        return stream.read()


def _faults_said(said: str) -> list[str]:
    """Return the errors in ffmpeg's messages, and the warning that a file ended prematurely."""
    return re.findall(r"\[(?:error|fatal|panic|warning(?=.*ended prematurely))\] (.*)", said)


def _seconds_said(said: str, path: str) -> float:
    """Return the duration, in seconds, in ffmpeg's messages; 0 for none. Raises FormatError for a playlist."""
    form, times = re.search(r"Input #0, (\S+), from", said), re.search(r"Duration: (\d+):(\d+):(\d+\.\d+)", said)
    if form and _PLAYLISTS & set(form[1].split(",")):
        raise FormatError(f"expected a file of sound, found a list of other files ({form[1]})", path=path)
    if not form or not times:
        return 0.0
    hours, minutes, seconds = times.groups()
    return _stated(3600.0 * int(hours) + 60.0 * int(minutes) + float(seconds), form[1])


def _refusal(said: str, path: str) -> FormatError:
    """Return the error to raise for a file without samples, by ffmpeg's messages."""
    if "Stream #0" in said and "Audio:" not in said:
        return FormatError("expected a file of sound, found one without sound", path=path)
    faults = _faults_said(said)
    return FormatError(f"expected a file of sound: ffmpeg says {faults[0]!r}" if faults
                       else "expected a file of sound, found none that ffmpeg can decode", path=path)
