"""Sound in m4a, webm, mkv, mp4 and others: by PyAV, by the program ffmpeg, and with neither."""
from __future__ import annotations

import io
import logging
import shutil
import sys
import threading
import time
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from recognition_cases import RATE, SOUNDS, samples_of

from nnet3py.errors import FormatError, Nnet3Error
from nnet3py.recognition import sound, sound_container
from nnet3py.recognition.sound import ENDINGS, Sound, open_sound

SECONDS = 3
# Ending of the name, codec, samples a second, channels, whether there is a video too.
FORMS = [("m4a", "aac", 44100, 2, False), ("webm", "libopus", 48000, 1, False), ("mkv", "ac3", 48000, 1, False),
         ("mp4", "aac", 16000, 1, True), ("mov", "pcm_s16le", 16000, 2, True), ("aac", "aac", 22050, 1, False),
         ("wma", "wmav2", 16000, 1, False), ("3gp", "libopencore_amrnb", 8000, 1, False),
         ("amr", "libopencore_amrnb", 8000, 1, False), ("avi", "mp3", 16000, 1, True), ("mkv", "flac", 16000, 3, False)]
FAKE = """#!{python}
import struct, sys
words = sys.argv[1:]
source = words[words.index("-i") + 1]
assert words[words.index("-map") + 1] == "0:a:0" and words[-3:] == ["-f", "au", "-"], words
assert words[words.index("-protocol_whitelist") + 1] == "file" and "-nostdin" in words, words
data = open(source.removeprefix("file:"), "rb").read()
sys.stderr.write("[info] Input #0, mov,mp4,m4a, from 'x':\\n[info]   Duration: 00:00:00.50, start: 0\\n")
sys.stderr.write("[info]   Stream #0:0: " + ("Video: x\\n" if data == b"video" else "Audio: aac\\n"))
if data in (b"video", b"broken"):
    sys.stderr.write("[mov @ 0x1] [fatal] moov atom not found\\n")
    sys.exit(1)
sys.stderr.flush()
out = sys.stdout.buffer
out.write(b".snd" + struct.pack(">5I", 28, 0xffffffff, 6, 8000, 2) + b"none")
count = 2000 if data == b"cut" else 4000
for first in range(0, count, 100):
    out.write(b"".join(struct.pack(">2f", i / 4000, float("nan") if data == b"nan" else -2.0) for i in
                       range(first, first + 100)))
sys.exit(1 if data == b"late" else 0)
"""


def tone(rate: int, channels: int, seconds: float = SECONDS) -> np.ndarray:
    """float32 (channels, samples): a tone in each, the first one louder."""
    at = np.arange(int(seconds * rate)) / rate
    tones = [np.sin(2 * np.pi * (300 + 200 * i) * at) / (2 + 2 * i) for i in range(channels)]
    return np.stack(tones).astype(np.float32)


def encode(path: Path, codec: str, samples: np.ndarray, rate: int, video: bool = False,
           faststart: bool = False) -> Path:
    """Write a file by PyAV; skips the test where there is no such encoder."""
    av = pytest.importorskip("av", reason="the extra media")
    layout = {1: "mono", 2: "stereo", 3: "2.1"}[len(samples)]
    try:
        av.Codec(codec, "w")
    except ValueError:
        pytest.skip(f"PyAV has no encoder {codec}")
    with av.open(str(path), "w", options={"movflags": "faststart"} if faststart else {}) as container:
        pictures = container.add_stream("mpeg4", rate=10) if video else None
        stream = container.add_stream(codec, rate=rate)
        stream.layout = layout
        if codec == "wmav2":
            stream.bit_rate = 64000
        resampler = av.AudioResampler(stream.codec_context.format.name, layout, rate)
        if pictures is not None:
            pictures.width, pictures.height, pictures.pix_fmt = 64, 48, "yuv420p"
            for _ in range(int(10 * samples.shape[1] / rate)):
                picture = av.VideoFrame.from_ndarray(np.zeros((48, 64, 3), np.uint8), "rgb24")
                container.mux(pictures.encode(picture))
            container.mux(pictures.encode())
        size = 160 if rate == 8000 else 1024
        for first in range(0, samples.shape[1], size):
            frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(samples[:, first:first + size]), "fltp", layout)
            frame.sample_rate, frame.pts, frame.time_base = rate, first, Fraction(1, rate)
            for part in resampler.resample(frame):
                container.mux(stream.encode(part))
        container.mux(stream.encode())
    return path


def channels_of(opened: Sound) -> np.ndarray:
    """float32 (channels, samples)."""
    return np.concatenate(list(opened._read), axis=1)


@pytest.fixture
def no_soundfile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sound, "_library", lambda: None)


@pytest.fixture
def no_av(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "av", None)


@pytest.fixture
def nothing(no_av: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/none")


@pytest.fixture
def fake_program(no_av: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "ffmpeg").write_text(FAKE.format(python=sys.executable))
    (folder / "ffmpeg").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    return folder


def from_standard_input(content: bytes, monkeypatch: pytest.MonkeyPatch) -> Sound:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    return open_sound("-")


def check(opened: Sound, original: np.ndarray, rate: int) -> None:
    """Whether a sound is the original, but for what codecs lose and add at its ends."""
    found = channels_of(opened)
    assert (opened.rate, opened.num_channels, found.dtype) == (rate, len(original), np.float32)
    length = original.shape[1] / rate
    assert found.shape[1] / rate == pytest.approx(length, abs=0.13)
    assert opened.seconds == 0 or opened.seconds == pytest.approx(length, abs=0.13)
    assert np.abs(found).max() <= 1
    for mine, its in zip(found, original, strict=True):
        assert np.sqrt(np.square(mine).mean()) == pytest.approx(np.sqrt(np.square(its).mean()), rel=0.15)
        mine, its = (np.argmax(np.abs(np.fft.rfft(one[rate:2 * rate]))) for one in (mine, its))
        assert mine == pytest.approx(its, abs=1)                # its pitch, in Hz


@pytest.mark.parametrize("form", FORMS, ids=lambda form: f"{form[0]}-{form[1]}")
def test_forms_by_pyav(form: tuple[str, str, int, int, bool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                       caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> None:
    ending, codec, rate, channels, video = form
    original = tone(rate, channels)
    path = encode(tmp_path / f"a.{ending}", codec, original, rate, video)
    assert f".{ending}" in ENDINGS
    check(open_sound(str(path)), original, rate)
    check(from_standard_input(path.read_bytes(), monkeypatch), original, rate)
    last = np.concatenate(list(open_sound(str(path), channels - 1).blocks()))
    assert np.sqrt(np.square(last).mean()) == pytest.approx(0.5 ** 0.5 / (2 * channels), rel=0.15)
    assert not caplog.records and capfd.readouterr() == ("", "")


@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="the program ffmpeg")
@pytest.mark.parametrize("form", FORMS[:5], ids=lambda form: f"{form[0]}-{form[1]}")
def test_forms_by_ffmpeg(form: tuple[str, str, int, int, bool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                         caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> None:
    ending, codec, rate, channels, video = form
    original = tone(rate, channels)
    path = encode(tmp_path / f"a.{ending}", codec, original, rate, video)
    monkeypatch.setitem(sys.modules, "av", None)
    check(open_sound(str(path)), original, rate)
    check(from_standard_input(path.read_bytes(), monkeypatch), original, rate)
    assert not caplog.records and capfd.readouterr() == ("", "")


def test_lossless_samples_are_exact(no_soundfile: None, tmp_path: Path) -> None:
    samples = samples_of(SOUNDS[0])
    path = encode(tmp_path / "a.flac", "flac", (samples / 32768)[None].astype(np.float32), RATE)
    opened = open_sound(str(path))
    assert opened.seconds == pytest.approx(len(samples) / RATE)
    assert np.array_equal(channels_of(opened)[0] * 32768, samples)


def test_what_soundfile_reads_without_it(no_soundfile: None, tmp_path: Path) -> None:
    original = tone(16000, 1)
    check(open_sound(str(encode(tmp_path / "a.mp3", "mp3", original, 16000))), original, 16000)
    check(open_sound(str(encode(tmp_path / "a.opus", "libopus", tone(48000, 1), 48000))), tone(48000, 1), 48000)
    check(open_sound(str(encode(tmp_path / "a.wav", "adpcm_ima_wav", original, 16000))), original, 16000)


def test_a_video_without_sound(tmp_path: Path) -> None:
    av = pytest.importorskip("av", reason="the extra media")
    with av.open(str(tmp_path / "a.mp4"), "w") as container:
        stream = container.add_stream("mpeg4", rate=10)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        container.mux(stream.encode(av.VideoFrame.from_ndarray(np.zeros((48, 64, 3), np.uint8), "rgb24")))
        container.mux(stream.encode())
    with pytest.raises(FormatError, match=r"found one without sound \(video\) .*a.mp4"):
        open_sound(str(tmp_path / "a.mp4"))


def test_the_first_of_two_sounds(tmp_path: Path) -> None:
    av = pytest.importorskip("av", reason="the extra media")
    with av.open(str(tmp_path / "a.mkv"), "w") as container:
        streams = [container.add_stream("pcm_s16le", rate=8000, layout="mono") for _ in range(2)]
        for stream, value in zip(streams, (100, 200), strict=True):
            frame = av.AudioFrame.from_ndarray(np.full((1, 800), value, np.int16), "s16", "mono")
            frame.sample_rate, frame.pts = 8000, 0
            container.mux(stream.encode(frame))
            container.mux(stream.encode())
    assert np.array_equal(channels_of(open_sound(str(tmp_path / "a.mkv"))), np.full((1, 800), 100 / 32768, np.float32))


@pytest.mark.parametrize(("samples", "values"), [
    (np.array([[0, 255, 128, 64]], np.uint8), [[-1.0, 0.0], [127 / 128, -0.5]]),
    (np.array([[-32768, 16384, 0, 8192]], np.int16), [[-1.0, 0.0], [0.5, 0.25]])])
def test_interleaved_samples(samples: np.ndarray, values: list[list[float]]) -> None:
    frame = SimpleNamespace(to_ndarray=lambda: samples, samples=2, format=SimpleNamespace(is_planar=False))
    np.testing.assert_array_equal(sound_container._values(frame), np.float32(values))


def test_a_form_that_changes(tmp_path: Path) -> None:
    """As radio stations do between their parts."""
    parts = [encode(tmp_path / f"{rate}.aac", "aac", tone(rate, channels), rate).read_bytes()
             for rate, channels in ((44100, 1), (22050, 2), (44100, 1))]
    (tmp_path / "all.aac").write_bytes(b"".join(parts))
    opened = open_sound(str(tmp_path / "all.aac"))
    found = channels_of(opened)
    assert (opened.rate, len(found)) == (44100, 1) and found.shape[1] / 44100 == pytest.approx(3 * SECONDS, abs=0.4)


def test_a_playlist_opens_nothing_else(tmp_path: Path) -> None:
    pytest.importorskip("av", reason="the extra media")
    encode(tmp_path / "a.aac", "aac", tone(16000, 1), 16000)
    (tmp_path / "a.m4a").write_text("#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:9,\n"
                                    f"{tmp_path}/a.aac\n#EXT-X-ENDLIST\n")
    with pytest.raises(FormatError, match="a.m4a"):
        open_sound(str(tmp_path / "a.m4a"))


@pytest.mark.parametrize("ending,codec", [("webm", "libopus"), ("m4a", "aac"), ("mkv", "ac3"), ("aac", "aac")])
def test_a_file_that_ends_too_early(ending: str, codec: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rate = 48000
    whole = encode(tmp_path / f"a.{ending}", codec, tone(rate, 1), rate, faststart=ending == "m4a").read_bytes()
    (tmp_path / f"cut.{ending}").write_bytes(whole[:len(whole) // 2 + 7])
    found = channels_of(open_sound(str(tmp_path / f"cut.{ending}")))
    assert 0.3 * SECONDS < found.shape[1] / rate < 0.7 * SECONDS
    assert caplog.records and all(f"cut.{ending}" in record.message for record in caplog.records)


def test_a_file_without_its_index(tmp_path: Path) -> None:
    whole = encode(tmp_path / "a.m4a", "aac", tone(16000, 1), 16000).read_bytes()
    (tmp_path / "cut.m4a").write_bytes(whole[:len(whole) // 2])
    with pytest.raises(FormatError, match=r"expected a file of sound: .*cut.m4a"):
        open_sound(str(tmp_path / "cut.m4a"))


@pytest.mark.parametrize("ending,codec", [("m4a", "aac"), ("webm", "libopus")])
def test_damaged_files(ending: str, codec: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Samples or a FormatError, soon, and nothing on standard error."""
    whole = encode(tmp_path / f"a.{ending}", codec, tone(48000, 1, 0.5), 48000).read_bytes()
    generator = np.random.default_rng(1)
    path, good, begun = tmp_path / f"damaged.{ending}", 0, time.monotonic()
    for number in range(200):
        data = bytearray(whole)
        places = generator.integers(len(data) if number % 2 else 600, size=generator.integers(1, 12))
        for place in places:
            data[-place if number % 4 == 1 else place] = generator.integers(256)
        path.write_bytes(data)
        try:
            found = channels_of(open_sound(str(path)))
            assert np.isfinite(found).all() and np.abs(found).max(initial=0) <= 1
            good += 1
        except FormatError:
            pass
    assert 10 < good < 200 and time.monotonic() - begun < 120
    assert capfd.readouterr() == ("", "")


def test_samples_of_the_program(fake_program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "-a b'.m4a").write_bytes(b"good")
    expected = np.stack([np.arange(4000) / 4000, np.full(4000, -1)]).astype(np.float32)
    for opened in open_sound(str(tmp_path / "-a b'.m4a")), from_standard_input(b"good", monkeypatch):
        assert (opened.rate, opened.num_channels, opened.seconds) == (8000, 2, 0.5)
        assert np.array_equal(channels_of(opened), expected)
    assert not caplog.records


def test_what_the_program_refuses(fake_program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                  caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "a.m4a"
    path.write_bytes(b"video")
    with pytest.raises(FormatError, match=r"found one without sound .*a.m4a"):
        open_sound(str(path))
    path.write_bytes(b"broken")
    with pytest.raises(FormatError, match=r"moov atom not found.*a.m4a"):
        open_sound(str(path))
    path.write_bytes(b"nan")
    assert np.isfinite(channels_of(open_sound(str(path)))).all() and not caplog.records
    for content, message in (b"late", "exit status 1"), (b"cut", "ends after 0.2 s, expected 0.5"):
        path.write_bytes(content)
        caplog.clear()
        channels_of(open_sound(str(path)))
        assert message in caplog.text and "a.m4a" in caplog.text
    (fake_program / "ffmpeg").write_text("no program")
    with pytest.raises(Nnet3Error, match="cannot be run"):
        open_sound(str(path))


def test_the_program_ends_with_the_sound(fake_program: Path, tmp_path: Path) -> None:
    """Not all is read: the program is not waited for, which would write for ever."""
    (fake_program / "ffmpeg").write_text(
        f"#!{sys.executable}\nimport struct, sys\nout = sys.stdout.buffer\n"
        "out.write(b'.snd' + struct.pack('>5I', 24, 0xffffffff, 6, 8000, 1))\n"
        "while True:\n    out.write(bytes(4000))\n")
    (tmp_path / "a.m4a").write_bytes(b"good")
    opened = open_sound(str(tmp_path / "a.m4a"))
    assert next(opened.blocks()).shape == (8000,)
    done = threading.Thread(target=opened._read.close)         # type: ignore[attr-defined]
    done.start()
    done.join(20)
    assert not done.is_alive()


def test_neither_is_there(nothing: None, tmp_path: Path) -> None:
    path = tmp_path / "a.m4a"
    path.write_bytes(b"\0\0\0\x1cftypM4A \0\0\2\0")
    with pytest.raises(Nnet3Error, match=r"a.m4a.*read by PyAV or by the program ffmpeg, and neither is installed.*"
                                         r"pip install.*media.*apt install ffmpeg"):
        open_sound(str(path))


def test_nothing_at_all_is_there(nothing: None, no_soundfile: None, tmp_path: Path) -> None:
    (tmp_path / "a.flac").write_bytes(b"fLaC")
    with pytest.raises(Nnet3Error, match=r"a.flac is no WAVE file.*neither is installed"):
        open_sound(str(tmp_path / "a.flac"))
    assert np.array_equal(channels_of(open_sound(str(SOUNDS[0])))[0] * 32768, samples_of(SOUNDS[0]))


def test_addresses_and_empty_files(tmp_path: Path) -> None:
    with pytest.raises(Nnet3Error, match="there is no file http://127.0.0.1:1/a.m4a"):
        open_sound("http://127.0.0.1:1/a.m4a")
    (tmp_path / "a.m4a").write_bytes(b"")
    with pytest.raises(FormatError, match="found an empty one"):
        open_sound(str(tmp_path / "a.m4a"))


def test_pyav_logs_nothing() -> None:
    """Its log, which is FFmpeg's, would stand among the lines of a command."""
    av = pytest.importorskip("av", reason="the extra media")
    assert av.logging.get_level() is None or av.logging.get_level() < logging.ERROR
    assert sound_container.media_library() is av
