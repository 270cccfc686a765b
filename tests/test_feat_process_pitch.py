"""What is made of pitch, against Kaldi's and as it arrives."""
from __future__ import annotations

import feature_cases as cases
import numpy as np
import pytest

from nnet3py.errors import ShapeError, UsageError
from nnet3py.feat.pitch import compute_pitch, frames_of_sound, pitch_options
from nnet3py.feat.pitch_options import PitchOptions, ProcessPitchOptions
from nnet3py.feat.process_pitch import ProcessedPitchStream, process_pitch, process_pitch_options
from nnet3py.option_fields import settings_of

AGREE, NEAR = 0.99, 1e-3         # as in test_feat_pitch


def of(values: dict[str, object]) -> dict[str, object]:
    names = {setting.name for setting in settings_of(ProcessPitchOptions)}
    return {name: value for name, value in values.items() if name in names}


def test_kaldis() -> None:
    cases.assert_near(process_pitch(cases.kaldis("pitch-default"), process_pitch_options(cases.PROCESSED)),
                      cases.kaldis("process-scales"))


def test_kaldis_as_it_arrives() -> None:
    how, process = pitch_options(cases.ONLINE), process_pitch_options(of(cases.ONLINE))
    found = frames_of_sound(ProcessedPitchStream(how, process), *cases.sound(), how)
    expected = cases.kaldis("pitch-and-process-online")
    assert found.shape == expected.shape
    assert ((np.abs(found - expected) <= NEAR * np.abs(expected).max(axis=0)).mean(axis=0) >= AGREE).all()


@pytest.mark.parametrize("delay", [0, 4])
def test_a_stream_ends_as_the_whole(delay: int) -> None:
    """With noise, which is that of the frame however often it is asked for."""
    how, process = PitchOptions(nccf_ballast_online=True), ProcessPitchOptions(delay=delay)
    samples, rate = cases.sound()
    expected = process_pitch(compute_pitch(samples, rate, how), process)
    stream = ProcessedPitchStream(how, process)
    for begin in range(0, len(samples), 1000):
        stream.accept(samples[begin:begin + 1000])
        stream.frames(0, stream.num_ready)
    assert stream.num_ready == len(expected) - 75 or stream.num_ready < len(expected)
    stream.finish()
    assert stream.num_ready == len(expected) and stream.dim == expected.shape[1] == 3
    np.testing.assert_allclose(stream.frames(0, len(expected)), expected, atol=1e-5)
    np.testing.assert_allclose(stream.frames(90, 100), expected[90:100], atol=1e-5)
    if delay:
        np.testing.assert_array_equal(expected[:delay, 0], expected[delay, 0])


def test_a_delay_beyond_the_context_makes_no_frames_of_nothing() -> None:
    stream = ProcessedPitchStream(PitchOptions(), ProcessPitchOptions(delay=20, normalization_right_context=5))
    assert stream.num_ready == 0
    stream.accept(np.zeros(16000, dtype=np.float32))
    assert stream.num_ready > 20 and np.isfinite(stream.frames(0, stream.num_ready)).all()


def test_each_column_by_its_formula() -> None:
    raw = np.array([[0.9, 100.0], [-0.2, 110.0], [1.0, 90.0], [0.3, 120.0]], dtype=np.float32)
    options = ProcessPitchOptions(delta_pitch_noise_stddev=0.0, normalization_left_context=1,
                                  normalization_right_context=1, delta_window=1, add_raw_log_pitch=True)
    found, logs = process_pitch(raw, options), np.log(raw[:, 1])
    size = np.abs(raw[:, 0])
    odds = -5.2 + 5.4 * np.exp(7.5 * (size - 1)) + 4.8 * size - 2 * np.exp(-10 * size) + 4.2 * np.exp(20 * (size - 1))
    weight = 1 / (1 + np.exp(-odds))
    for row in range(4):
        near = slice(max(0, row - 1), row + 2)
        mean = (weight[near] * logs[near]).sum() / weight[near].sum()
        change = (logs[min(row + 1, 3)] - logs[max(row - 1, 0)]) / 2
        np.testing.assert_allclose(found[row], [
            2 * ((1.0001 - raw[row, 0]) ** 0.15 - 1), 2 * (logs[row] - mean), 10 * change, logs[row]],
            rtol=1e-4, atol=1e-5)


def test_unusable() -> None:
    with pytest.raises(ShapeError, match="expected NCCF and pitch"):
        process_pitch(np.ones((3, 3), dtype=np.float32), ProcessPitchOptions())
    with pytest.raises(UsageError, match="interpolate-pitch fills"):
        process_pitch(np.zeros((3, 2), dtype=np.float32), ProcessPitchOptions())
    assert process_pitch(np.zeros((0, 2), dtype=np.float32), ProcessPitchOptions()).shape == (0, 3)
    for values, message in (({"delta-window": 0}, "--delta-window=0"),
                            ({"add-pov-feature": False, "add-normalized-log-pitch": False, "add-delta-pitch": False},
                             "all pitch features are switched off")):
        with pytest.raises(UsageError, match=message):
            process_pitch_options(values)
