"""Features, a model's input, voiced frames and x-vectors for Python programs: what the commands write, to the bit."""
from __future__ import annotations

from pathlib import Path

import feature_cases as cases
import numpy as np
import pytest
from io_samples import read_table

import nnet3py
from nnet3py.cli.process.command import load
from nnet3py.errors import Nnet3Error, NumericError, ShapeError, UsageError
from nnet3py.formats.holders import FLOAT_MATRIX, FLOAT_VECTOR
from nnet3py.recognition.front_end import features, front_end, vad, xvector
from nnet3py.recognition.model_folder import demo_folder

SOUND = cases.DATA / "utt2.wav"
PROGRAMS = {"mfcc": "compute-mfcc-feats", "fbank": "compute-fbank-feats", "plp": "compute-plp-feats",
            "spectrogram": "compute-spectrogram-feats", "raw-pitch": "compute-kaldi-pitch-feats",
            "pitch": "compute-and-process-kaldi-pitch-feats"}
XVECTOR = """input-node name=input dim=13
component name=stats type=StatisticsExtractionComponent input-dim=13 input-period=1 output-period=1 \
include-variance=true
component-node name=stats component=stats input=input
component name=pool type=StatisticsPoolingComponent input-dim=27 input-period=1 left-context=0 right-context=3000 \
num-log-count-features=0 output-stddevs=true
component-node name=pool component=pool input=stats
component name=affine type=NaturalGradientAffineComponent input-dim=26 output-dim=5 bias-stddev=1 param-stddev=0.1
component-node name=affine component=affine input=Round(pool, 1)
output-node name=output input=affine
"""


@pytest.fixture
def table(here: Path) -> str:
    (here / "wav.scp").write_text(f"utt2 {SOUND}\n")
    return "scp:wav.scp"


def read(name: str) -> np.ndarray:
    return read_table(f"ark:{name}", FLOAT_MATRIX)["utt2"]


@pytest.mark.parametrize("kind", PROGRAMS)
def test_feat_are_the_programs(kind: str, table: str) -> None:
    """Dither and the noise of pitch, too."""
    assert load(PROGRAMS[kind]).execute([table, "ark:out"]) == 0
    expected = read("out")
    np.testing.assert_array_equal(features(SOUND, kind=kind), expected)
    samples, rate = cases.sound()
    np.testing.assert_array_equal(features(samples.astype(np.int16), rate, kind), expected)
    np.testing.assert_array_equal(features((samples / 32768).astype(np.float32), rate, kind), expected)
    np.testing.assert_array_equal(features(samples.astype("<i2").tobytes(), rate, kind), expected)


def test_options(table: str, tmp_path: Path) -> None:
    conf = tmp_path / "mfcc.conf"
    conf.write_text("--num-ceps=20   # a comment\n--use-energy=false\n--dither=0\n")
    assert load("compute-mfcc-feats").execute([f"--config={conf}", "--vtln-warp=0.9", table, "ark:out"]) == 0
    np.testing.assert_array_equal(features(SOUND, config=conf, warp=0.9), read("out"))
    values = {"num_ceps": 20, "use-energy": False, "dither": 0}
    np.testing.assert_array_equal(features(SOUND, config=values, warp=0.9), read("out"))
    both = features(SOUND, kind="mfcc+pitch", config={**values, "delta-pitch-noise-stddev": 0, "frame-shift": 10})
    assert both.shape[1] == 23
    np.testing.assert_array_equal(both[:, 20:], features(SOUND, kind="pitch", config={"delta-pitch-noise-stddev": 0}))


@pytest.mark.parametrize("kind, config, message", [
    ("mfc", {}, "there are no features 'mfc'"), ("mfcc", {"num_cep": 20}, r"did you mean --num-ceps\?"),
    ("mfcc", {"numceps": 20}, "--numceps"), ("mfcc", {"num_ceps": 24}, "--num-ceps=24: expected 1 to 23"),
    ("mfcc", {"num_ceps": "many"}, "--num-ceps=many: expected a whole number"), ("mfcc", {"min_f0": 60}, "--min-f0"),
    ("mfcc", {"low-freq": -5}, "--low-freq=-5"), ("fbank", {"num_ceps": 20}, "--num-ceps"),
    ("mfcc+pitch", {"snip-edges": False, "frame-length": 60, "frame-shift": 30}, None)])
def test_unusable_options(kind: str, config: dict[str, object], message: str | None) -> None:
    if message is None:
        assert features(SOUND, kind=kind, config=config).shape[1] == 16
        return
    with pytest.raises(UsageError, match=message):
        features(SOUND, kind=kind, config=config)


def test_sounds() -> None:
    samples, rate = cases.sound()
    stereo = np.stack((samples, 0 * samples), axis=1).astype(np.int16)
    np.testing.assert_array_equal(features(stereo, rate, channel=0), features(SOUND))
    with pytest.raises(ShapeError, match=r"expected the samples of one channel.*\[:, 0\]"):
        features(stereo, rate)
    with pytest.raises(ShapeError, match="there is no channel 2"):
        features(stereo, rate, channel=2)
    with pytest.raises(UsageError, match="give it after them"):
        features(samples.astype(np.int16))
    with pytest.raises(UsageError, match="expected floating-point samples from -1 to 1"):
        features(samples, rate)
    with pytest.raises(NumericError, match="sample 3 of a block is NaN"):
        features(np.array([0, 0, 0, np.nan], dtype=np.float32), rate)
    with pytest.raises(UsageError, match="found an array of int64"):
        features(samples.astype(np.int64), rate)
    with pytest.raises(Nnet3Error, match="there is no file"):
        features("none.wav")
    assert features(np.zeros(100, dtype=np.int16), rate).shape == (0, 13)
    assert features(np.zeros(0, dtype=np.int16), rate, "mfcc+pitch").shape == (0, 16)
    slow = features((samples[::2] / 32768).astype(np.float32), rate / 2, config={"high-freq": 3000.0})
    near = features(SOUND, config={"high-freq": 3000.0})
    assert len(slow) == len(near) and np.corrcoef(slow[:, 0], near[:, 0])[0, 1] > 0.99


def test_front_end_of_a_model(table: str) -> None:
    """What compute-online-feats writes; posteriors of a model are two lines."""
    folder = Path(demo_folder())
    make = front_end(folder)
    found = make(SOUND)
    (Path("mfcc.conf")).write_text((folder / "conf" / "mfcc.conf").read_text() + "\n--dither=0\n")
    words = ["--mfcc-config=mfcc.conf", table, "ark:ivectors", "ark:out"]
    assert load("compute-online-feats").execute(words) == 0
    np.testing.assert_array_equal(found.features, read("out"))
    assert found.features.shape[1] == make.dim and (found.ivector is None) == (make.ivector_dim == 0)
    samples, rate = cases.sound()
    again = make(samples.astype(np.int16), rate)
    np.testing.assert_array_equal(again.features, found.features)
    posteriors = nnet3py.compute(folder / "am" / "final.mdl", *make(SOUND))
    assert len(posteriors) >= len(found.features) // 3 and np.isfinite(posteriors).all()
    assert "dim=" in repr(make)
    with pytest.raises(Nnet3Error):
        front_end(folder / "none")


def test_voiced_frames(table: str) -> None:
    frames = features(SOUND)
    assert load("compute-mfcc-feats").execute([table, "ark:feats"]) == 0
    assert load("compute-vad").execute(["--vad-frames-context=2", "ark:feats", "ark:vad"]) == 0
    expected = read_table("ark:vad", FLOAT_VECTOR)["utt2"]
    found = vad(frames, frames_context=2)
    assert found.dtype == bool and 0 < found.sum() < len(found)
    np.testing.assert_array_equal(found, expected > 0)
    with pytest.raises(ShapeError, match="expected features"):
        vad(frames[:, 0])
    with pytest.raises(UsageError, match="--vad-proportion-threshold=1.5: expected above 0 and below 1"):
        vad(frames, proportion_threshold=1.5)


def test_vectors_of_speakers() -> None:
    nnet = nnet3py.Nnet.from_config(XVECTOR)
    found = xvector(nnet, SOUND)
    assert found.shape == (5,) and np.isfinite(found).all()
    samples, rate = cases.sound()
    np.testing.assert_array_equal(xvector(nnet, samples.astype(np.int16), rate), found)
    with pytest.raises(Nnet3Error, match="no voiced frame"):
        xvector(nnet, np.zeros(10, dtype=np.int16), 16000)
