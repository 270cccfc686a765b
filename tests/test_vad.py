"""nnet3py/feat/vad.py: against a slow twin."""
from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nnet3py.feat.options import VadOptions
from nnet3py.feat.vad import voiced_frames


def slow_voiced(energy: list[float], options: VadOptions) -> list[float]:
    threshold = options.energy_threshold + options.energy_mean_scale * sum(energy) / len(energy)
    result = []
    for frame in range(len(energy)):
        around = energy[max(0, frame - options.frames_context):frame + options.frames_context + 1]
        loud = sum(one > threshold for one in around)
        result.append(float(loud >= len(around) * np.float32(options.proportion_threshold)))
    return result


@settings(max_examples=60, deadline=None)
@given(energy=st.lists(st.sampled_from([0.0, 4.0, 8.0, 12.0, 16.0]), min_size=1, max_size=30),
       context=st.integers(0, 4), proportion=st.sampled_from([0.12, 0.4, 0.6, 0.9]))
def test_against_slow_twin(energy: list[float], context: int, proportion: float) -> None:
    options = VadOptions(4.9, 0.45, context, proportion)
    features = np.array([[one, 7.0] for one in energy], dtype=np.float32)
    assert voiced_frames(features, options).tolist() == slow_voiced(energy, options)


@pytest.mark.parametrize("scale", [0.0, 0.5])
def test_no_frames(scale: float) -> None:
    assert voiced_frames(np.zeros((0, 2), dtype=np.float32), VadOptions(energy_mean_scale=scale)).shape == (0,)
