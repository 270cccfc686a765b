"""Windows of sound that arrives in pieces are those of the whole sound, to the bit; features, too."""
from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nnet3py.feat.frame_windows import FrameOptions, FrameWindows
from nnet3py.feat.speech import SpeechFeatures, speech_options


def options(snip_edges: bool, length: float = 25.0, shift: float = 10.0) -> FrameOptions:
    return FrameOptions(1000.0, length, shift, 0.0, 0.97, True, "povey", True, 0.42, snip_edges)


@settings(max_examples=80, deadline=None, derandomize=True)
@given(st.integers(0, 130), st.lists(st.integers(0, 60), max_size=6), st.booleans(),
       st.sampled_from([(25.0, 10.0), (8.0, 15.0), (20.0, 5.0)]))
def test_pieces(size: int, cuts: list[int], snip_edges: bool, lengths: tuple[float, float]) -> None:
    how = options(snip_edges, *lengths)
    samples = np.arange(size, dtype=np.float32) + 1
    count = how.num_frames(size, True)
    expected = np.zeros((count, how.size), dtype=np.float32)
    for row in range(count):
        for column in range(how.size):
            place = how.first_sample(row) + column
            while not 0 <= place < size:                                  # mirrored at both ends
                place = -place - 1 if place < 0 else 2 * size - 1 - place
            expected[row, column] = samples[place]
    windows, parts = FrameWindows(how), []
    for begin, end in zip([0, *np.cumsum(cuts)], [*np.cumsum(cuts), size], strict=True):
        windows.accept(samples[begin:max(begin, end)])
        parts.append(windows.take(1000))
    parts.append(windows.take(1000, True))
    np.testing.assert_array_equal(np.concatenate(parts), expected)


@pytest.mark.parametrize("kind", ["mfcc", "fbank", "plp", "spectrogram"])
@pytest.mark.parametrize("snip_edges", [True, False])
def test_feat_do_not_depend_on_pieces(kind: str, snip_edges: bool) -> None:
    """With dither, too: the noise of a window is the same however the sound comes."""
    computer = SpeechFeatures(speech_options(kind, {"snip-edges": snip_edges}))
    samples = (1000 * np.random.default_rng(1).standard_normal(12345)).astype(np.float32)
    whole = computer.compute(samples, 16000)
    for step in (100, 160, 1601):
        stream = computer.begin()
        parts = []
        for begin in range(0, len(samples), step):
            stream.accept(samples[begin:begin + step])
            parts.append(stream.take())
        np.testing.assert_array_equal(np.concatenate([*parts, stream.finish()]), whole)
