"""WAVE files: widths, channels, unknown lengths, damage, tables."""
from __future__ import annotations

import io
import logging
import struct
import wave

import io_samples
import numpy as np
import pytest
from io_samples import read_table
from paths import DATA

from nnet3py.errors import FormatError, Nnet3Error
from nnet3py.formats.foreign_files import (
    WAVE,
    WAVE_DURATION,
    Wave,
    has_stream_size,
    read_duration,
    read_wave,
    write_wave,
)
from nnet3py.io.tables import RandomAccessReader, write_table
from nnet3py.io.tokens import TokenReader, TokenWriter


def chunk(name: bytes, data: bytes, order: str = "<", size: int | None = None) -> bytes:
    return name + struct.pack(f"{order}I", len(data) if size is None else size) + data + b"\0" * (len(data) % 2)


def form(code: int, channels: int, rate: int, bits: int, order: str = "<", extra: bytes = b"") -> bytes:
    width = channels * bits // 8
    return chunk(b"fmt ", struct.pack(f"{order}HHIIHH", code, channels, rate, rate * width, width, bits) + extra, order)


def wave_bytes(fmt: bytes, data: bytes, order: str = "<", size: int | None = None, name: bytes | None = None,
               before: bytes = b"") -> bytes:
    body = b"WAVE" + fmt + before + chunk(b"data", data, order, size)
    return (name or (b"RIFX" if order == ">" else b"RIFF")) + struct.pack(f"{order}I", len(body)) + body


def read(data: bytes) -> Wave:
    return read_wave(TokenReader(io.BytesIO(data), "a.wav"))


def written(sound: Wave) -> bytes:
    return io_samples.written(write_wave, sound, binary=True)


RAMP = np.array([[0, 1, -1, 32767, -32768], [5, 4, 3, 2, 1]], dtype=np.int16)


def test_agrees_with_the_standard_library():
    data = written(Wave(8000.0, RAMP.astype(np.float32)))
    with wave.open(io.BytesIO(data)) as theirs:
        assert theirs.getparams()[:4] == (2, 2, 8000, 5)
        assert theirs.readframes(5) == RAMP.T.astype("<i2").tobytes()
    target = io.BytesIO()
    with wave.open(target, "wb") as theirs:
        theirs.setparams((2, 2, 8000, 5, "NONE", ""))
        theirs.writeframes(RAMP.T.astype("<i2").tobytes())
    assert target.getvalue() == data
    sound = read(data)
    assert sound.rate == 8000 and sound.duration == 5 / 8000
    assert sound.samples.dtype == np.float32 and sound.samples.flags.c_contiguous
    np.testing.assert_array_equal(sound.samples, RAMP)


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("code, bits, values, expected", [
    (1, 8, np.array([0, 128, 255], np.uint8), [-32768, 0, 32512]),
    (1, 16, np.array([-32768, 7, 32767], np.int16), [-32768, 7, 32767]),
    (1, 32, np.array([-2**31, 65536, 32768], np.int32), [-32768, 1, 0.5]),
    (3, 32, np.array([-1, 0.5, 0], np.float32), [-32768, 16384, 0]),
    (3, 64, np.array([-1, 0.5, 0], np.float64), [-32768, 16384, 0])])
def test_widths(order, code, bits, values, expected):
    data = values.astype(values.dtype.newbyteorder(order)).tobytes()
    np.testing.assert_array_equal(read(wave_bytes(form(code, 1, 16000, bits, order), data, order)).samples, [expected])


@pytest.mark.parametrize("order", ["little", "big"])
def test_24_bits(order):
    values = [-2**23, -256, -1, 0, 1, 128, 2**23 - 1]
    data = b"".join(value.to_bytes(3, order, signed=True) for value in values)
    mark = "<" if order == "little" else ">"
    np.testing.assert_array_equal(read(wave_bytes(form(1, 1, 16000, 24, mark), data, mark)).samples[0],
                                  np.array(values, np.float32) / 256)


def test_extensible_header_and_other_chunks():
    extra = struct.pack("<HHI", 22, 16, 3) + struct.pack("<H", 1) + b"\0\0\0\0\x10\0\x80\0\0\xaa\0\x38\x9b\x71"
    data = RAMP.T.astype("<i2").tobytes()
    sound = read(wave_bytes(form(0xFFFE, 2, 16000, 16, extra=extra), data, before=chunk(b"LIST", b"odd")) + b"more")
    np.testing.assert_array_equal(sound.samples, RAMP)


@pytest.mark.parametrize("size", [0, 0x7FFFF000, 0x7FFFFFFE, 0x7FFFFFFF, 0x80000000, 0xFFFFFFDB, 0xFFFFFFFF])
@pytest.mark.parametrize("name", [b"RIFF", b"RF64"])
def test_length_that_a_pipe_did_not_know(size, name):
    data = wave_bytes(form(1, 2, 16000, 16), RAMP.T.astype("<i2").tobytes(), size=size, name=name)
    np.testing.assert_array_equal(read(data).samples, RAMP)
    assert read_duration(TokenReader(io.BytesIO(data))) == 5 / 16000


@pytest.mark.parametrize("name, bits, is_stream", [
    ("size0", 16, True), ("size7f", 16, True), ("sizeff", 16, True), ("chunk", 16, False), ("cut", 16, False),
    ("b24", 24, False), ("f32", 32, False), ("b8", 8, False)])
def test_headers_of_recorders_and_pipes(name, bits, is_stream, caplog):
    """All hold the same sound, of which the files here are the beginning."""
    data = (DATA / "features" / "tools" / f"{name}.wav").read_bytes()
    assert has_stream_size(data) == is_stream
    with caplog.at_level(logging.WARNING, "nnet3py"):
        samples = read(data).samples
    assert ("found the end of the file" in caplog.text) == (not is_stream)
    same = read((DATA / "features" / "tools" / "size0.wav").read_bytes()).samples
    count = min(samples.shape[1], same.shape[1])
    assert count >= 50 and samples.shape[0] == 1
    np.testing.assert_allclose(samples[:, :count], same[:, :count], atol=260 if bits == 8 else 1)


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("size", [0, 0x7FFFF000, 0x7FFFFFFF, 0xFFFFFFFF])
def test_what_says_that_it_is_a_stream(size, order):
    fmt, data = form(1, 1, 16000, 16, order), b"\0" * 6000
    whole = wave_bytes(fmt, data, order)
    assert not has_stream_size(whole) and not has_stream_size(whole[:40]) and not has_stream_size(whole[:11])
    assert has_stream_size(wave_bytes(fmt, data, order, size)[:4096])
    assert has_stream_size(wave_bytes(fmt, data, order, size, before=chunk(b"LIST", b"odd", order))[:4096])
    assert has_stream_size(whole[:4] + struct.pack(f"{order}I", size) + whole[8:])       # the file's length
    assert not has_stream_size(b"FORM" + whole[4:]) and not has_stream_size(whole[:8] + b"AVI " + whole[12:])
    assert not has_stream_size(wave_bytes(fmt, data, order, before=chunk(b"LIST", b"\0" * 5000, order))[:4096])


def test_length_in_a_chunk_of_its_own():
    """RF64 says how long it is in the chunk 'ds64'; what follows the samples is no sound."""
    data = RAMP.T.astype("<i2").tobytes()
    for size, expected in ((len(data), RAMP), (1 << 40, None), (0, None), (1 << 62, None), (1 << 63, None)):
        sizes = chunk(b"ds64", struct.pack("<QQQI", 999, size, 5, 0))
        content = wave_bytes(sizes + form(1, 2, 16000, 16), data, size=0xFFFFFFFF, name=b"RF64") + b"more"
        assert has_stream_size(content) == (size in (0, 1 << 62, 1 << 63))
        samples = read(content).samples
        np.testing.assert_array_equal(samples[:, :5], RAMP)
        assert samples.shape[1] == (5 if expected is not None else 6)
    assert read_duration(TokenReader(io.BytesIO(wave_bytes(
        chunk(b"ds64", struct.pack("<QQQI", 999, len(data), 5, 0)) + form(1, 2, 16000, 16), data, size=0xFFFFFFFF,
        name=b"RF64")))) == 5 / 16000


def test_file_that_is_too_short(caplog):
    data = wave_bytes(form(1, 2, 16000, 16), RAMP.T.astype("<i2").tobytes())
    with caplog.at_level(logging.WARNING, "nnet3py"):
        sound = read(data[:-3])
    assert "Expected 20 bytes of samples, found the end of the file after 17" in caplog.text
    np.testing.assert_array_equal(sound.samples, RAMP[:, :4])


@pytest.mark.parametrize("data, message", [
    (b"", "expected 4 more bytes"),
    (b"NIST_1A\n", r"expected 'RIFF'.*found 'NIST'.*sph2pipe"),
    (b"RIFF\0\0\0\0AVI LIST", "expected 'WAVE'"),
    (wave_bytes(b"", b"ab"), "no 'fmt ' before its 'data'"),
    (wave_bytes(form(1, 1, 16000, 16), b""), "no samples"),
    (wave_bytes(form(1, 2, 16000, 16), b"abc"), "no samples"),
    (wave_bytes(form(7, 1, 8000, 8), b"ab"), r"8-bit samples of format 7 \(mu-law\).*convert it with sox"),
    (wave_bytes(form(1, 1, 16000, 12), b"ab"), "12-bit samples of format 1"),
    (wave_bytes(form(1, 0, 16000, 16), b"ab"), "0 channels"),
    (wave_bytes(form(1, 1, 0, 16), b"ab"), "0 samples a second"),
    (wave_bytes(chunk(b"fmt ", struct.pack("<HHIIHH", 1, 1, 8000, 8000, 3, 16)), b"ab"), "3 bytes for the samples"),
    (wave_bytes(chunk(b"fmt ", b"short"), b"ab"), "has 5 bytes, expected 16"),
    (wave_bytes(chunk(b"fmt ", b"short", size=2**31), b"ab"), "2147483648 bytes|only .* bytes follow"),
    (wave_bytes(form(1, 1, 2**31, 8), b"ab"), "2147483648 samples a second"),
    (wave_bytes(form(3, 1, 16000, 32), struct.pack("<f", 3e38)), "too large"),
    (wave_bytes(form(3, 1, 16000, 64), struct.pack("<d", 1e300)), "too large"),
    (wave_bytes(form(3, 1, 16000, 32), struct.pack("<f", float("nan"))), "NaN")])
def test_damaged_files(data, message):
    with pytest.raises(FormatError, match=message):
        read(data)


def test_every_beginning_of_a_file_is_an_error_or_a_warning(caplog):
    data = written(Wave(16000.0, np.ones((1, 10), np.float32)))
    for length in range(44 + 2):
        with pytest.raises(FormatError):
            read(data[:length])
    assert read(data[:46]).samples.shape == (1, 1)


def test_writing_clips_and_cuts_off(caplog):
    sound = Wave(16000.0, np.array([[40000, -40000, 1.9, -1.9]], np.float32))
    with caplog.at_level(logging.WARNING, "nnet3py"):
        data = written(sound)
    np.testing.assert_array_equal(read(data).samples, [[32767, -32768, 1, -1]])
    assert "Clipped 2 of 4 samples" in caplog.text


def test_too_long_for_a_file():
    samples = np.broadcast_to(np.float32(0), (2, 2**31))
    with pytest.raises(Nnet3Error, match="too long for a WAVE file"):
        written(Wave(16000.0, samples))


@pytest.mark.parametrize("sound, message", [
    (Wave(16000.0, np.array([[1, np.nan]], np.float32)), "NaN or infinite"),
    (Wave(16000.0, np.array([[-np.inf]], np.float32)), "NaN or infinite"),
    (Wave(0.5, np.ones((1, 1), np.float32)), "1 channels of 0 samples a second"),
    (Wave(2e7, np.ones((1, 1), np.float32)), "20000000 samples a second"),
    (Wave(16000.0, np.ones((40000, 1), np.float32)), "40000 channels")])
def test_what_a_file_cannot_hold(sound, message):
    with pytest.raises(Nnet3Error, match=message):
        written(sound)


def sounds() -> dict[str, Wave]:
    rng = np.random.default_rng(1)
    return {f"u{n}": Wave(16000.0, rng.integers(-999, 999, (1 + n % 2, 100 + n)).astype(np.float32)) for n in range(4)}


@pytest.mark.parametrize("source", ["ark:{0}/a.ark", "scp:{0}/a.scp", "ark:cat {0}/a.ark |"])
def test_tables(tmp_path, source):
    write_table(f"ark,scp:{tmp_path}/a.ark,{tmp_path}/a.scp", WAVE, sounds())
    found = read_table(source.format(tmp_path), WAVE)
    assert list(found) == list(sounds())
    for key, sound in sounds().items():
        np.testing.assert_array_equal(found[key].samples, sound.samples)
    durations = {key: sound.duration for key, sound in sounds().items()}
    assert read_table(source.format(tmp_path), WAVE_DURATION) == durations


def test_random_access_and_pipes_in_a_script(tmp_path):
    write_table(f"ark,scp:{tmp_path}/a.ark,{tmp_path}/a.scp", WAVE, sounds())
    (tmp_path / "one.wav").write_bytes(written(sounds()["u1"]))
    (tmp_path / "pipe.scp").write_text(f"x cat {tmp_path}/one.wav |\ny {tmp_path}/one.wav\n")
    with RandomAccessReader(f"scp:{tmp_path}/pipe.scp", WAVE) as reader:
        for key in ("y", "x"):
            np.testing.assert_array_equal(reader[key].samples, sounds()["u1"].samples)
    assert read_table(f"scp:{tmp_path}/pipe.scp", WAVE_DURATION) == {"x": 101 / 16000, "y": 101 / 16000}


def test_damage_in_a_table_names_the_key(tmp_path):
    write_table(f"ark,scp:{tmp_path}/a.ark,{tmp_path}/a.scp", WAVE, sounds())
    data = (tmp_path / "a.ark").read_bytes()
    (tmp_path / "a.ark").write_bytes(data.replace(b"u2 RIFF", b"u2 RIFT"))
    with pytest.raises(FormatError, match="key u2: expected 'RIFF'"):
        read_table(f"ark:{tmp_path}/a.ark", WAVE)
    with pytest.raises(Nnet3Error, match="only sound can be written"):
        WAVE_DURATION.write(TokenWriter(io.BytesIO(), True), 1.0)
