"""Files of other systems: sound in WAVE files (RIFF), feature files of HTK and Sphinx.

Samples have the range of 16 bits, -32768 to 32767, whatever their width in the file. Files of HTK and Sphinx are
big-endian and have no ``\\0B``; only writing for Sphinx is little-endian, as in Kaldi, since Sphinx detects it.
Kaldi: ``feat/wave-reader.h``, HtkMatrixHolder, SphinxMatrixHolder.
"""
from __future__ import annotations

import logging
import struct
from typing import NamedTuple

import numpy as np

from nnet3py.errors import Nnet3Error, ShapeError
from nnet3py.formats.holders import Holder
from nnet3py.formats.matrices import write_matrix
from nnet3py.io.tokens import TokenReader, TokenWriter

logger = logging.getLogger(__name__)

_PCM, _FLOAT, _EXTENSIBLE = 1, 3, 0xFFFE
_NAMES = {2: "ADPCM", 6: "A-law", 7: "mu-law", 17: "ADPCM", 85: "MP3"}
_KINDS = {(_PCM, 8): "u1", (_PCM, 16): "i2", (_PCM, 24): "i3", (_PCM, 32): "i4", (_FLOAT, 32): "f4", (_FLOAT, 64): "f8"}
FULL_SCALE = np.float32(32768.0)           # what 1 is among samples of 16 bits
_SCALES = {"u1": 256.0, "i2": 1.0, "i3": 1 / 256, "i4": 1 / 65536, "f4": float(FULL_SCALE), "f8": float(FULL_SCALE)}

_CHUNK = 8               # bytes of the head of a chunk: its name and its length
# What recorders, and programs that write into a pipe (arecord, sox, ffmpeg), give as a length that they do not know
# yet: 0, or about the most that 31 or 32 bits hold, rounded down to whole samples or without the header.
_UNKNOWN_LENGTHS = (range(1), range(0x7FFFEF00, 0x80000001), range(0xFFFFEF00, 0x100000000))
_RF64_HEADER = struct.Struct("<QQQ")     # lengths of the file and of the samples, number of samples
_MAX_BYTES = 0xFFFFFFFF - 36
_MAX_FRAME_BYTES = 0xFFFF
_MAX_RATE = 10_000_000              # samples a second; more is a damaged file
_CONVERT = "convert it with sox, ffmpeg or sph2pipe, which may be a pipe in the script file"


class Wave(NamedTuple):
    """The sound of a WAVE file."""

    rate: float                 # samples per second
    samples: np.ndarray         # float32 (channels, samples), of the range of 16 bits, -32768 to 32767

    @property
    def duration(self) -> float:
        """Duration of the sound in seconds."""
        return self.samples.shape[1] / self.rate


class _Form(NamedTuple):
    """The format of a file's samples, from its header."""

    kind: str            # a key of _SCALES
    order: str           # byte order, as numpy writes it
    channels: int
    rate: int
    num_bytes: int | None    # of the samples; None if the file does not tell

    @property
    def frame_bytes(self) -> int:
        return self.channels * int(self.kind[1])


def read_wave(reader: TokenReader) -> Wave:
    """Read a WAVE file of linear 8, 16, 24 or 32-bit samples, or of floating-point samples. Kaldi: WaveData::Read.

    A file that is shorter than its header says gives a warning. Raises FormatError.
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
    with np.errstate(all="ignore"):
        samples = np.ascontiguousarray(values.reshape(count, form.channels).T, dtype=np.float32)
        samples *= np.float32(_SCALES[form.kind])
    if form.kind[0] == "f" and not np.isfinite(samples).all():
        raise reader.error("the WAVE file has samples that are NaN, infinite or too large")
    return Wave(float(form.rate), samples)


def read_duration(reader: TokenReader) -> float:
    """Return the duration of a WAVE file in seconds, from its header where that has it. Kaldi: WaveInfo::Read.

    Raises FormatError.
    """
    form = _read_form(reader)
    if form.num_bytes is None:
        num_bytes = len(reader.up_to(None))
    else:
        num_bytes = form.num_bytes
        reader.skip_up_to(num_bytes)
    return num_bytes // form.frame_bytes / form.rate


def write_wave(writer: TokenWriter, wave: Wave) -> None:
    """Write 16-bit samples; fractions are truncated, and values that are too large are clipped, with a warning.

    Raises Nnet3Error for sound that does not fit into a WAVE file. Kaldi: WaveData::Write.
    """
    channels, count = wave.samples.shape
    rate = int(wave.rate)
    if 2 * channels * count > _MAX_BYTES:
        raise Nnet3Error(f"{channels} channels of {count} samples are too long for a WAVE file")
    if 2 * channels > _MAX_FRAME_BYTES or not 0 < rate <= _MAX_RATE:
        raise Nnet3Error(f"{channels} channels of {rate} samples a second do not fit into the header of a WAVE file")
    if not np.isfinite(wave.samples).all():
        raise Nnet3Error("the sound has samples that are NaN or infinite, which 16 bits cannot hold")
    limits = np.iinfo(np.int16)
    whole = np.trunc(wave.samples)
    clipped = int(np.count_nonzero((whole < limits.min) | (whole > limits.max)))
    if clipped:
        logger.warning("Clipped %d of %d samples to 16 bits", clipped, whole.size)
    data = np.ascontiguousarray(np.clip(whole, limits.min, limits.max).T.astype("<i2")).tobytes()
    form = struct.pack("<HHIIHH", _PCM, channels, rate, min(rate * channels * 2, 0xFFFFFFFF), channels * 2, 16)
    writer.raw(b"RIFF" + struct.pack("<I", 36 + len(data)) + b"WAVEfmt " + struct.pack("<I", len(form)) + form
               + b"data" + struct.pack("<I", len(data)) + data)


def has_stream_size(begin: bytes) -> bool:
    """Return whether the header of a WAVE file does not state its length, as in files that pipes and recorders write.

    Such files are read to their end. ``begin`` is the first 4 kB of the file, or more; False for other files.
    """
    if begin[:4] not in (b"RIFF", b"RIFX", b"RF64") or begin[8:12] != b"WAVE":
        return False
    order = ">" if begin[:4] == b"RIFX" else "<"
    whole: int = struct.unpack_from(f"{order}I", begin, 4)[0]
    if begin[:4] != b"RF64" and _is_unknown(whole):           # of RF64, it is in the chunk 'ds64'
        return True
    of_samples = None
    at = 12
    while at + _CHUNK <= len(begin):
        name, size = struct.unpack_from(f"{order}4sI", begin, at)
        at += _CHUNK
        if name == b"data":
            return _is_unknown(size) and of_samples is None
        if name == b"ds64":
            of_samples = _long_length(begin[at:at + size])
        at += size + size % 2
    return False


def _is_unknown(size: int) -> bool:
    return any(size in lengths for lengths in _UNKNOWN_LENGTHS)


def _long_length(data: bytes) -> int | None:
    """Return the number of bytes of samples from chunk 'ds64' of an RF64 file; None if it is not there."""
    if len(data) < _RF64_HEADER.size:
        return None
    size: int = _RF64_HEADER.unpack_from(data)[1]
    return size if 0 < size < 1 << 62 else None


def _read_form(reader: TokenReader) -> _Form:
    """Read the header of a WAVE file, up to the first sample."""
    mark = bytes(reader.raw(4))
    if mark not in (b"RIFF", b"RIFX", b"RF64"):
        raise reader.unexpected_bytes(mark, "'RIFF', which begins a WAVE file", hint=_CONVERT)
    order = ">" if mark == b"RIFX" else "<"
    reader.raw(4)                                  # the length of the rest, which pipes do not know
    found_mark = bytes(reader.raw(4))
    if found_mark != b"WAVE":
        raise reader.unexpected_bytes(found_mark, "'WAVE'", hint=_CONVERT)
    form: _Form | None = None
    of_samples: int | None = None
    while True:
        name, size = struct.unpack(f"{order}4sI", reader.raw(_CHUNK))
        if name == b"data":
            break
        if name == b"fmt ":
            form = _parse_form(reader, bytes(reader.raw(size)), order)
        elif name == b"ds64" and mark == b"RF64":
            of_samples = _long_length(bytes(reader.raw(size)))
        else:
            reader.skip(size)
        reader.skip(size % 2)
    if form is None:
        raise reader.error("the WAVE file has no 'fmt ' before its 'data'")
    return form._replace(num_bytes=of_samples if _is_unknown(size) else size)


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
    if not channels or not 0 < rate <= _MAX_RATE or frame_bytes != form.frame_bytes:
        raise reader.error(f"the WAVE file has {channels} channels of {bits} bits, {rate} samples a second, "
                           f"{frame_bytes} bytes for the samples of a time: that cannot be")
    return form


def _numbers(data: memoryview, form: _Form) -> np.ndarray:
    """Return the samples as in the file; unsigned ones are shifted to be around 0."""
    if form.kind == "u1":
        return np.frombuffer(data, dtype=np.uint8).astype(np.int16) - 128
    if form.kind == "i3":
        parts = np.frombuffer(data, dtype=np.uint8).reshape(-1, 3).astype(np.int32)
        low, middle, high = parts.T if form.order == "<" else parts.T[::-1]
        return (high.astype(np.int8).astype(np.int32) << 16) | (middle << 8) | low
    return np.frombuffer(data, dtype=np.dtype(form.kind).newbyteorder("<" if form.order == "<" else ">"))


def _cannot_write(writer: TokenWriter, value: float) -> None:
    raise Nnet3Error("only sound can be written as a WAVE file, not a duration")


WAVE: Holder[Wave] = Holder("sound", read_wave, write_wave, has_header=False)
WAVE_DURATION: Holder[float] = Holder("sound", read_duration, _cannot_write, has_header=False)


SPHINX_DIM = 13                 # the file does not tell
_HTK_HEADER = struct.Struct(">iihH")   # samples, period in units of 100 ns, bytes per sample, kind
_COMPRESSED, _CHECKSUM, _BASE_KIND = 0o2000, 0o10000, 0o77
TEN_MILLISECONDS = 100000
_LARGEST_SAMPLE = 0x7FFF        # bytes
_WAVEFORMS = (0, 5)             # WAVEFORM and IREFC hold samples, not vectors


def _big_endian(reader: TokenReader, dtype: str, count: int) -> np.ndarray:
    return reader.array("u1", count * np.dtype(dtype).itemsize).view(dtype)


def read_htk_matrix(reader: TokenReader) -> np.ndarray:
    """Read a parameter file of HTK, float32 (frames, dim). Raises FormatError.

    Compressed files (kind _C) are decoded, checksums are skipped.
    """
    num_samples, _, sample_bytes, kind = _HTK_HEADER.unpack(reader.raw(_HTK_HEADER.size))
    compressed = bool(kind & _COMPRESSED)
    value_bytes = 2 if compressed else 4
    if kind & _BASE_KIND in _WAVEFORMS or num_samples < 0 or sample_bytes <= 0 or sample_bytes % value_bytes:
        raise reader.error(f"expected an HTK parameter file, found a header of {num_samples} samples of {sample_bytes} "
                           f"bytes, kind {kind}")
    dim = sample_bytes // value_bytes
    if compressed:
        if num_samples < 4:
            raise reader.error(f"a compressed HTK file begins with 4 samples of factors, found {num_samples}")
        factors = _big_endian(reader, ">f4", 2 * dim).reshape(2, dim).astype(np.float32)
        rows = num_samples - 4
        values = _big_endian(reader, ">i2", rows * dim).reshape(rows, dim)
        matrix = (values + factors[1]) / factors[0]
    else:
        matrix = _big_endian(reader, ">f4", num_samples * dim).reshape(num_samples, dim)
    if kind & _CHECKSUM:
        reader.raw(2)
    return np.ascontiguousarray(matrix, dtype=np.float32)


def read_sphinx_matrix(reader: TokenReader) -> np.ndarray:
    """Read a feature file of Sphinx, float32 (frames, 13). Raises FormatError."""
    (count,) = struct.unpack(">i", reader.raw(4))
    if count < 0 or count % SPHINX_DIM:
        raise reader.error(f"expected a Sphinx file of {SPHINX_DIM} numbers a frame, found {count} numbers")
    return _big_endian(reader, ">f4", count).reshape(-1, SPHINX_DIM).astype(np.float32)


def htk_holder(kind: int, period: int = TEN_MILLISECONDS) -> Holder[np.ndarray]:
    """Return the holder of HTK files with the given ``kind``, such as 6 for MFCC, and ``period`` in units of 100 ns.

    Writing raises ShapeError for more columns than such files can have. Kaldi: WriteHtk.
    """
    def write(writer: TokenWriter, matrix: np.ndarray) -> None:
        if 4 * matrix.shape[1] > _LARGEST_SAMPLE:
            raise ShapeError(f"features of {matrix.shape[1]} columns do not fit into an HTK file, which has at most "
                             f"{_LARGEST_SAMPLE // 4}")
        writer.raw(_HTK_HEADER.pack(matrix.shape[0], period, 4 * matrix.shape[1], kind))
        writer.raw(matrix.astype(">f4").tobytes())

    return Holder("HTK matrix", read_htk_matrix, write, has_header=False)


def write_sphinx_matrix(writer: TokenWriter, matrix: np.ndarray) -> None:
    """Write a feature file of Sphinx. The file does not store the number of columns. Kaldi: WriteSphinx."""
    writer.raw(struct.pack("<i", matrix.size))
    writer.raw(matrix.astype("<f4").tobytes())


HTK_MATRIX: Holder[np.ndarray] = Holder("HTK matrix", read_htk_matrix, write_matrix, has_header=False)
SPHINX_MATRIX: Holder[np.ndarray] = Holder("Sphinx matrix", read_sphinx_matrix, write_matrix, has_header=False)
