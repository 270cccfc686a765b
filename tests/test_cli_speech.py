"""Commands of sound: features, copies, durations, segments; their log lines and exit codes."""
from __future__ import annotations

import numpy as np
import pytest
from command_lines import run
from io_samples import read_table
from test_feat_speech import FBANK_TOLERANCE, MFCC_TOLERANCE, reference

from nnet3py.formats.foreign_files import HTK_MATRIX, WAVE, Wave
from nnet3py.formats.holders import FLOAT_MATRIX
from nnet3py.io.object_files import token_reader
from nnet3py.io.streams import open_input
from nnet3py.io.tables import write_table

RATE = 16000
DIGITS_CONF = """--use-energy=false   # as egs/digits/conf/mfcc.conf
--num-mel-bins=40
--num-ceps=40
--low-freq=20
--high-freq=-400
--dither=0
"""


@pytest.fixture
def sounds(here):
    """wav.ark and wav.scp in the current folder; c has two channels, e is shorter than a window."""
    rng = np.random.default_rng(5)
    shapes = {"a": (1, 8000), "b": (1, 5000), "c": (2, 6000), "d": (1, 16000), "e": (1, 300)}
    made = {key: Wave(RATE, np.rint(rng.normal(0, 2000, shape)).astype(np.float32)) for key, shape in shapes.items()}
    write_table("ark,scp:wav.ark,wav.scp", WAVE, made)
    (here / "mfcc.conf").write_text(DIGITS_CONF)
    return made


def read(name: str, holder=FLOAT_MATRIX):
    return read_table(f"ark:{name}", holder)


# -- features --------------------------------------------------------------------------------------------------------


def test_mfcc_by_a_config_file(sounds, capfd, tmp_path):
    run("compute-mfcc-feats", "--config=mfcc.conf", "--write-utt2dur=ark,t:utt2dur", "scp:wav.scp", "ark:out")
    found = read("out")
    assert list(found) == list(sounds)
    for key in "abcd":
        expected = reference("mfcc", sounds[key].samples[0], bins=40, ceps=40, energy=False, high=-400.0)
        np.testing.assert_allclose(found[key], expected, rtol=MFCC_TOLERANCE, atol=MFCC_TOLERANCE)
    assert found["e"].shape == (0, 0)
    assert (tmp_path / "utt2dur").read_text() == "a 0.5 \nb 0.3125 \nc 0.375 \nd 1 \ne 0.01875 \n"
    said = capfd.readouterr().err
    assert "Channel not specified but you have data with 2 channels; defaulting to zero [c]" in said
    assert "WARNING" in said and "Utterance e is shorter than a window" in said
    assert said.endswith(") " + " Done 5 out of 5 utterances.\n")


def test_fbank_with_options(sounds):
    run("compute-fbank-feats", "--dither=0", "--subtract-mean=true", "--snip-edges=false", "--use-energy=true",
        "--window-type=hamming", "--frame-length=20", "ark:wav.ark", "ark:out")
    expected = reference("fbank", sounds["a"].samples[0], snip_edges=False, energy=True, window="hamming", length=20.0)
    np.testing.assert_allclose(read("out")["a"], expected - expected.mean(axis=0), rtol=FBANK_TOLERANCE,
                               atol=2 * FBANK_TOLERANCE)


def test_channels_and_short_utterances(sounds, capfd):
    run("compute-mfcc-feats", "--dither=0", "--channel=1", "ark:wav.ark", "ark:out")
    found = read("out")
    assert list(found) == ["c"]
    np.testing.assert_allclose(found["c"], reference("mfcc", sounds["c"].samples[1]), rtol=MFCC_TOLERANCE,
                               atol=MFCC_TOLERANCE)
    said = capfd.readouterr().err
    assert "File with id a has 1 channels but you specified channel 1, producing no output." in said
    assert " Done 1 out of 5 utterances." in said
    run("compute-mfcc-feats", "--min-duration=0.5", "ark:wav.ark", "ark:out")
    assert list(read("out")) == ["a", "d"]
    assert "File: b is too short (0.3125 sec): producing no output." in capfd.readouterr().err
    run("compute-mfcc-feats", "--min-duration=5", "ark:wav.ark", "ark:out", status=1)


def test_another_sampling_rate(sounds, capfd):
    run("compute-mfcc-feats", "--sample-frequency=8000", "ark:wav.ark", "ark:out", status=1)
    assert "Failed to compute features for utterance a: the sound has 16000 samples a second" in capfd.readouterr().err
    run("compute-mfcc-feats", "--sample-frequency=8000", "--allow-downsample=true", "ark:wav.ark", "ark:out")
    assert len(read("out")["a"]) == 48


def test_htk_output(sounds, tmp_path):
    run("compute-mfcc-feats", "--dither=0", "ark:wav.ark", "ark:out")
    (tmp_path / "out.scp").write_text("a a.htk\nb b.htk\n")
    run("compute-mfcc-feats", "--dither=0", "--output-format=htk", "ark:wav.ark", "scp,p:out.scp")
    assert (tmp_path / "a.htk").read_bytes()[:12].hex() == "00000030" "000186a0" "0034" "0046"
    with open_input("b.htk") as stream:
        np.testing.assert_array_equal(HTK_MATRIX.read_value(token_reader(stream)), read("out")["b"])


def test_warping(sounds, capfd, tmp_path):
    """By an option, by factors of utterances, by those of speakers; utterances without one are left out."""
    run("compute-mfcc-feats", "--dither=0", "ark:wav.ark", "ark:plain")
    run("compute-mfcc-feats", "--dither=0", "--vtln-warp=0.9", "ark:wav.ark", "ark:warped")
    (tmp_path / "map").write_text("s 1.0\nt 0.9\n")
    (tmp_path / "utt2spk").write_text("a s\nb s\nc u\nd t\ne s\n")
    run("compute-mfcc-feats", "--dither=0", "--vtln-map=ark:map", "--utt2spk=ark:utt2spk", "ark:wav.ark", "ark:out")
    assert "No vtln-map entry for utterance-id (or speaker-id) c" in capfd.readouterr().err
    found, plain, warped = read("out"), read("plain"), read("warped")
    assert list(found) == ["a", "b", "d", "e"]
    np.testing.assert_array_equal(found["a"], plain["a"])
    np.testing.assert_array_equal(found["d"], warped["d"])
    assert np.abs(warped["a"] - plain["a"]).max() > 1
    (tmp_path / "map").write_text("a 1.0\nb 100\n")
    run("compute-plp-feats", "--vtln-map=ark:map", "ark:wav.ark", "ark:out")
    assert list(read("out")) == ["a"] and "the warp factor 100 is too far from 1" in capfd.readouterr().err
    run("compute-mfcc-feats", "--utt2spk=ark:utt2spk", "ark:wav.ark", "ark:out", status=255)


def test_plp_and_spectrograms(sounds):
    run("compute-plp-feats", "--dither=0", "ark:wav.ark", "ark:plp")
    run("compute-spectrogram-feats", "--dither=0", "ark:wav.ark", "ark:spectrogram")
    run("compute-spectrogram-feats", "--dither=0", "--return-raw-fft=true", "ark:wav.ark", "ark:raw")
    plp, found, raw = read("plp")["a"], read("spectrogram")["a"], read("raw")["a"]
    assert plp.shape[1] == 13 and found.shape[1] == 257 and raw.shape[1] == 512 and len(plp) == len(found) == len(raw)
    power = np.square(raw[:, 2::2]) + np.square(raw[:, 3::2])
    logs = np.log(np.maximum(power, np.finfo(np.float32).eps))
    np.testing.assert_allclose(found[:, 1:-1], logs, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(found[:, -1], np.log(np.square(raw[:, 1])), rtol=1e-5)
    np.testing.assert_array_equal(found[:, 0], plp[:, 0])          # the energy


@pytest.mark.parametrize("option", ["--num-ceps=99", "--output-format=x", "--low-freq=9000"])
def test_unusable_options(sounds, option, tmp_path):
    run("compute-mfcc-feats", option, "ark:wav.ark", "ark:out", status=255)
    assert not (tmp_path / "out").exists()


def test_damaged_sound(sounds, capfd, tmp_path):
    (tmp_path / "bad.wav").write_bytes(b"RIFF" + b"\0" * 50)
    (tmp_path / "bad.scp").write_text("x bad.wav\n" + (tmp_path / "wav.scp").read_text())
    run("compute-mfcc-feats", "scp:bad.scp", "ark:out", status=255)
    assert "cannot read the value of key x: expected 'WAVE'" in capfd.readouterr().err
    assert not (tmp_path / "out").exists()
    run("compute-mfcc-feats", "scp,p:bad.scp", "ark:out")
    assert "x" not in read("out")


# -- copies and durations --------------------------------------------------------------------------------------------


def test_copies(sounds, capfd, tmp_path):
    run("wav-copy", "scp:wav.scp", "ark:copy")
    assert (tmp_path / "copy").read_bytes() == (tmp_path / "wav.ark").read_bytes()
    assert "Copied 5 wave files\n" in capfd.readouterr().err
    place = (tmp_path / "wav.scp").read_text().splitlines()[1].split()[1]
    run("wav-copy", place, "one.wav")
    run("wav-copy", "cat one.wav |", "two.wav")
    assert (tmp_path / "two.wav").read_bytes() == (tmp_path / "one.wav").read_bytes()
    with open_input("one.wav") as stream:
        np.testing.assert_array_equal(WAVE.read_value(token_reader(stream)).samples, sounds["b"].samples)
    run("wav-copy", "ark:/dev/null", "ark:copy", status=1)
    run("wav-copy", "ark:wav.ark", "one.wav", status=255)


@pytest.mark.parametrize("option", ["--read-entire-file=false", "--read-entire-file=true"])
@pytest.mark.parametrize("source", ["scp:wav.scp", "ark:wav.ark", "ark:cat wav.ark |"])
def test_durations(sounds, capfd, tmp_path, option, source):
    run("wav-to-duration", option, source, "ark,t:out")
    assert (tmp_path / "out").read_text() == "a 0.5 \nb 0.3125 \nc 0.375 \nd 1 \ne 0.01875 \n"
    said = capfd.readouterr().err
    assert "Printed duration for 5 audio files.\n" in said
    assert "Mean duration was 0.44125, min and max durations were 0.01875, 1\n" in said
    run("wav-to-duration", option, "ark:/dev/null", "ark,t:out", status=1)


# -- segments --------------------------------------------------------------------------------------------------------


def test_segments(sounds, capfd, tmp_path):
    (tmp_path / "segments").write_text(
        "a1 a 0.1 0.4\na2 a 0.25 -1\nb1 b 0.1 0.6\nc1\tc 0 0.3 1\n"
        "no no 0 1\nlate d 2 3\nover b 0.1 1\nshort a 0.1 0.15\nback a 0.3 0.2\nwords a one 2\nwords a 0 two\n"
        "channel c 0 0.3 x\nchannel c 0 0.3 2\nminus a -0.1 0.3\nfour a 1\ninf a 0 inf\n")
    run("extract-segments", "scp:wav.scp", "segments", "ark:out")
    found = read("out", WAVE)
    expected = {"a1": ("a", 0, 1600, 6400), "a2": ("a", 0, 4000, 8000), "b1": ("b", 0, 1600, 5000),
                "c1": ("c", 1, 0, 4800)}
    assert list(found) == list(expected)
    for key, (recording, channel, start, end) in expected.items():
        np.testing.assert_array_equal(found[key].samples, sounds[recording].samples[channel:channel + 1, start:end])
    said = capfd.readouterr().err
    for line in ("Could not find recording no, skipping segment no",
                 "Start sample out of range 32000 [length:] 16000, skipping segment late",
                 "End sample too far out of range 16000 [length:] 5000, skipping segment over",
                 "Segment short too short, skipping it.",
                 "Invalid line in segments file [empty or invalid segment]: back a 0.3 0.2",
                 "Invalid line in segments file [bad start]: words a one 2",
                 "Invalid line in segments file [bad end]: words a 0 two",
                 "Invalid line in segments file [bad channel]: channel c 0 0.3 x",
                 "Invalid channel 2 >= 2.  processing segment channel",
                 "Invalid line in segments file [empty or invalid segment]: minus a -0.1 0.3",
                 "Invalid line in segments file: four a 1",
                 "Invalid line in segments file [empty or invalid segment]: inf a 0 inf",
                 "Successfully processed 4 lines out of 16 in the segments file. \n"):
        assert line in said


def test_segments_of_several_channels_need_one(sounds, capfd, tmp_path):
    (tmp_path / "segments").write_text("c1 c 0 0.3\n")
    run("extract-segments", "scp:wav.scp", "segments", "ark:out", status=255)
    assert "the recording c of segment c1 has 2 channels" in capfd.readouterr().err
    assert not (tmp_path / "out").exists()


def test_segment_limits(sounds, tmp_path):
    (tmp_path / "segments").write_text("s a 0.1 0.15\nover b 0.1 1\n")
    run("extract-segments", "--min-segment-length=0.01", "--max-overshoot=2", "scp:wav.scp", "segments", "ark:out")
    assert {key: sound.samples.shape[1] for key, sound in read("out", WAVE).items()} == {"s": 800, "over": 3400}
