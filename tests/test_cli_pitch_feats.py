"""The programs of pitch: what they write is what the functions give; what they leave out, and what they say."""
from __future__ import annotations

from pathlib import Path

import feature_cases as cases
import numpy as np
import pytest
from command_lines import run
from io_samples import read_table

from nnet3py.feat.pitch import compute_pitch
from nnet3py.feat.pitch_options import InterpolationOptions, PitchOptions, ProcessPitchOptions
from nnet3py.feat.process_pitch import interpolate_linearly, interpolate_pitch, process_pitch
from nnet3py.formats.foreign_files import WAVE, Wave
from nnet3py.formats.holders import FLOAT_MATRIX
from nnet3py.io.tables import write_table
from nnet3py.random_sequence import CRandom


@pytest.fixture(autouse=True)
def sounds(here: Path) -> None:
    samples, rate = cases.sound()
    write_table("ark:wav.ark", WAVE, {
        "a": Wave(rate, samples[None]), "b": Wave(rate, np.stack((0 * samples, samples))),
        "c": Wave(8000, samples[None]), "d": Wave(rate, samples[None, :100])})


def read(name: str) -> dict[str, np.ndarray]:
    return read_table(f"ark:{name}", FLOAT_MATRIX)


def test_pitch_then_what_is_made_of_it(capfd: pytest.CaptureFixture[str]) -> None:
    run("compute-kaldi-pitch-feats", "--channel=0", "ark:wav.ark", "ark:pitch")
    said = capfd.readouterr().err
    assert "Failed to compute pitch for utterance c: the sound has 8000 samples a second" in said
    assert "Utterance d is shorter than a window" in said and "Done 3 utterances, 1 with errors." in said
    found = read("pitch")
    assert list(found) == ["a", "b", "d"] and found["d"].size == 0
    np.testing.assert_array_equal(found["a"], compute_pitch(*cases.sound(), PitchOptions()))
    assert (found["b"][:, 0] == 0).all()                                  # its first channel is silent
    run("process-kaldi-pitch-feats", "ark:pitch", "ark:out")
    made = read("out")
    np.testing.assert_array_equal(made["a"], process_pitch(found["a"], ProcessPitchOptions()))
    run("compute-and-process-kaldi-pitch-feats", "--channel=1", "ark:wav.ark", "ark:both")
    said = capfd.readouterr().err
    assert "File with id a has 1 channels but you specified channel 1" in said
    assert list(read("both")) == ["b"]
    np.testing.assert_allclose(read("both")["b"], made["a"], atol=1e-5)


def test_options_that_cannot_be_used(capfd: pytest.CaptureFixture[str]) -> None:
    run("compute-kaldi-pitch-feats", "--min-f0=500", "ark:wav.ark", "ark:out", status=255)
    assert "--min-f0=500 --max-f0=400: expected a range" in capfd.readouterr().err
    run("compute-kaldi-pitch-feats", "ark:missing", "ark:out", status=255)
    assert not Path("out").exists()


def test_interpolation(capfd: pytest.CaptureFixture[str]) -> None:
    pitch = np.array([[0.9, 100], [0.1, 0], [0.1, 0], [0.9, 130], [0.2, 0]], dtype=np.float32)
    write_table("ark:pitch", FLOAT_MATRIX, {"a": pitch, "b": pitch[:, :1]})
    run("interpolate-pitch", "--linear-interpolation=true", "ark:pitch", "ark:out")
    assert "Failed to interpolate the pitch of b: expected voicing and pitch" in capfd.readouterr().err
    # Kaldi takes a sound's first frame for none.
    np.testing.assert_allclose(read("out")["a"][:, 1], [100, 117 + 13 / 3, 117 + 26 / 3, 130, 123.5], rtol=1e-6)
    np.testing.assert_array_equal(read("out")["a"], interpolate_linearly(pitch))
    run("interpolate-pitch", "ark:pitch", "ark:out")
    assert "Over 5 frames, 60% were zero at input" in capfd.readouterr().err
    curve = interpolate_pitch(pitch, InterpolationOptions(), CRandom())
    np.testing.assert_array_equal(read("out")["a"], curve.features)
    assert curve.num_zero == 3 and (np.abs(np.diff(curve.features[:, 1])) < 20).all()
    run("interpolate-pitch", "--pitch-interval=5", "ark:pitch", "ark:new", status=255)
