"""Sound in WAVE files (RIFF), alone or as the values of a table. Kaldi: ``feat/wave-reader.h``.

Samples are what 16 bits would hold, from -32768 to 32767, whatever their width in the file.
"""
from __future__ import annotations

import logging
import struct
from typing import NamedTuple

import numpy as np

from nnet3py.errors import Nnet3Error
from nnet3py.formats.holders import Holder
from nnet3py.io.tokens import TokenReader, TokenWriter

logger = logging.getLogger(__name__)

_PCM, _FLOAT, _EXTENSIBLE = 1, 3, 0xFFFE
_NAMES = {2: "ADPCM", 6: "A-law", 7: "mu-law", 17: "ADPCM", 85: "MP3"}
_KINDS = {(_PCM, 8): "u1", (_PCM, 16): "i2", (_PCM, 24): "i3", (_PCM, 32): "i4", (_FLOAT, 32): "f4", (_FLOAT, 64): "f8"}
FULL_SCALE = np.float32(32768.0)           # what 1 is among samples of 16 bits
_SCALES = {"u1": 256.0, "i2": 1.0, "i3": 1 / 256, "i4": 1 / 65536, "f4": float(FULL_SCALE), "f8": float(FULL_SCALE)}

# What programs that write into a pipe (sox, ffmpeg) give as a length that they do not know yet: read to the end.
_UNKNOWN_LENGTHS = (0, 0x7FFFF000, 0x7FFFFFFF, 0xFFFFFFFF)
_MAX_BYTES = 0xFFFFFFFF - 36
_CONVERT = "convert it with sox, ffmpeg or sph2pipe, which may be a pipe in the script file"


class Wave(NamedTuple):
    """Sound.

    Attributes
    ----------
    rate : samples a second
    samples : float32 (channels, samples), of the range of 16 bits
    """

    rate: float
    samples: np.ndarray

    @property
    def duration(self) -> float:
        """Seconds."""
        return self.samples.shape[1] / self.rate


class _Form(NamedTuple):
    """What the header of a file says."""

    kind: str            # a key of _SCALES
    order: str           # byte order, as numpy writes it
    channels: int
    rate: int
    num_bytes: int | None    # of the samples; None if the file does not tell

    @property
    def frame_bytes(self) -> int:
        return self.channels * int(self.kind[1])


def read_wave(reader: TokenReader) -> Wave:
    """Read a WAVE file, of linear samples of 8, 16, 24 or 32 bits, or floating-point ones.

    A file that is shorter than its header says gives a warning. Raises FormatError. Kaldi: WaveData::Read.
    """
    form = _read_form(reader)
    data = reader.up_to(form.num_bytes)
    if form.num_bytes is not None and len(data) < form.num_bytes:
        logger.warning("Expected %d bytes of samples, found the end of the file after %d [%s]", form.num_bytes,
                       len(data), reader.path)
    count = len(data) // form.frame_bytes
    if count == 0:
        raise reader.error("the WAVE file has no samples")
    values = _numbers(memoryview(data)[:count * form.frame_bytes], form)
    samples = np.ascontiguousarray(values.reshape(count, form.channels).T, dtype=np.float32)
    samples *= np.float32(_SCALES[form.kind])
    if form.kind[0] == "f" and not np.isfinite(samples).all():
        raise reader.error("the WAVE file has samples that are NaN or infinite")
    return Wave(float(form.rate), samples)


def read_duration(reader: TokenReader) -> float:
    """The seconds that a WAVE file lasts, by its header if that tells. Raises FormatError. Kaldi: WaveInfo::Read."""
    form = _read_form(reader)
    if form.num_bytes is None:
        num_bytes = len(reader.up_to(None))
    else:
        num_bytes = form.num_bytes
        reader.skip_up_to(num_bytes)
    return num_bytes // form.frame_bytes / form.rate


def write_wave(writer: TokenWriter, wave: Wave) -> None:
    """Write 16-bit samples; fractions are cut off, and values that are too large are clipped, with a warning.

    Raises Nnet3Error for what does not fit into a WAVE file. Kaldi: WaveData::Write.
    """
    channels, count = wave.samples.shape
    if 2 * channels * count > _MAX_BYTES:
        raise Nnet3Error(f"{channels} channels of {count} samples are too long for a WAVE file")
    limits = np.iinfo(np.int16)
    whole = np.trunc(wave.samples)
    clipped = int(np.count_nonzero((whole < limits.min) | (whole > limits.max)))
    if clipped:
        logger.warning("Clipped %d of %d samples to 16 bits", clipped, whole.size)
    data = np.ascontiguousarray(np.clip(whole, limits.min, limits.max).T.astype("<i2")).tobytes()
    rate = int(wave.rate)
    form = struct.pack("<HHIIHH", _PCM, channels, rate, rate * channels * 2, channels * 2, 16)
    writer.raw(b"RIFF" + struct.pack("<I", 36 + len(data)) + b"WAVEfmt " + struct.pack("<I", len(form)) + form
               + b"data" + struct.pack("<I", len(data)) + data)


def _read_form(reader: TokenReader) -> _Form:
    """Read up to the first sample."""
    mark = bytes(reader.raw(4))
    if mark not in (b"RIFF", b"RIFX", b"RF64"):
        raise reader.unexpected_bytes(mark, "'RIFF', which begins a WAVE file", hint=_CONVERT)
    order = ">" if mark == b"RIFX" else "<"
    reader.raw(4)                                  # the length of the rest, which pipes do not know
    mark = bytes(reader.raw(4))
    if mark != b"WAVE":
        raise reader.unexpected_bytes(mark, "'WAVE'", hint=_CONVERT)
    form: _Form | None = None
    while True:
        name, size = struct.unpack(f"{order}4sI", reader.raw(8))
        if name == b"data":
            break
        if name == b"fmt ":
            form = _parse_form(reader, bytes(reader.raw(size)), order)
            reader.skip(size % 2)
        else:
            reader.skip(size + size % 2)
    if form is None:
        raise reader.error("the WAVE file has no 'fmt ' before its 'data'")
    return form._replace(num_bytes=None if size in _UNKNOWN_LENGTHS else size)


def _parse_form(reader: TokenReader, data: bytes, order: str) -> _Form:
    if len(data) < 16:
        raise reader.error(f"the 'fmt ' of the WAVE file has {len(data)} bytes, expected 16 or more")
    code, channels, rate, _, frame_bytes, bits = struct.unpack_from(f"{order}HHIIHH", data)
    if code == _EXTENSIBLE and len(data) >= 26:
        (code,) = struct.unpack_from(f"{order}H", data, 24)
    kind = _KINDS.get((code, bits))
    if kind is None:
        raise reader.error(f"the WAVE file has {bits}-bit samples of format {code}"
                           f"{f' ({_NAMES[code]})' if code in _NAMES else ''}, expected linear ones (format 1) of 8, "
                           "16, 24 or 32 bits, or floating-point ones (format 3)", hint=_CONVERT)
    form = _Form(kind, order, channels, rate, None)
    if not channels or not rate or frame_bytes != form.frame_bytes:
        raise reader.error(f"the WAVE file has {channels} channels of {bits} bits, {rate} samples a second, "
                           f"{frame_bytes} bytes for the samples of a time: that cannot be")
    return form


def _numbers(data: memoryview, form: _Form) -> np.ndarray:
    """The samples as they are in the file, but unsigned ones around 0."""
    if form.kind == "u1":
        return np.frombuffer(data, dtype=np.uint8).astype(np.int16) - 128
    if form.kind == "i3":
        parts = np.frombuffer(data, dtype=np.uint8).reshape(-1, 3).astype(np.int32)
        low, middle, high = parts.T if form.order == "<" else parts.T[::-1]
        return (high.astype(np.int8).astype(np.int32) << 16) | (middle << 8) | low
    return np.frombuffer(data, dtype=np.dtype(form.kind).newbyteorder("<" if form.order == "<" else ">"))


def _cannot_write(writer: TokenWriter, value: float) -> None:
    raise Nnet3Error("a duration is not sound and cannot be written as such")


WAVE: Holder[Wave] = Holder("sound", read_wave, write_wave, has_header=False)
WAVE_DURATION: Holder[float] = Holder("sound", read_duration, _cannot_write, has_header=False)
