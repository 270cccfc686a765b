"""Where utterances are cut: against Kaldi's own logs, and against the rules for any length."""
from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nnet3py.egs.options import SplitOptions
from nnet3py.egs.splitter import UtteranceSplitter, split_pools
from nnet3py.errors import Nnet3Error

# Lengths of the utterances behind Kaldi's logs in the reference material (tools/get-egs*).
LENGTHS = [202, 155, 232, 346, 277, 229, 242, 206, 236, 274, 288, 162]
HEAD = "Split 12 utts, with total length 2849 frames (0.00791389 hours assuming 100 frames per second) into "
REPORTS = {
    "8": [HEAD + "356 chunks.",
          "Average chunk length was 8 frames; overlap between adjacent chunks was 0.4212% of input length; length of "
          "output was 99.9649% of input length (minus overlap = 99.5437%)."],
    "1": [HEAD + "2856 chunks.",
          "Average chunk length was 1 frames; overlap between adjacent chunks was 0.2457% of input length; length of "
          "output was 100.246% of input length (minus overlap = 100%)."],
    "40,30,20": [HEAD + "77 chunks.",
                 "Average chunk length was 37.2727 frames; overlap between adjacent chunks was 1.0179% of input "
                 "length; length of output was 100.737% of input length (minus overlap = 99.7192%).",
                 "Output frames are distributed among chunk-sizes as follows: 20 = 5.575%, 30 = 5.226%, 40 = 89.2%"],
}


@pytest.mark.parametrize("num_frames", list(REPORTS))
def test_kaldis_own_reports(num_frames):
    splitter = UtteranceSplitter(SplitOptions.parse(num_frames))
    for length in LENGTHS:
        splitter.chunks(length)
    assert splitter.report() == REPORTS[num_frames]


def test_kaldis_chunk_sizes_and_overlaps():
    """Utterances of tools/get-egs-variable whose chunks overlap, so that nothing about their place is random."""
    splitter = UtteranceSplitter(SplitOptions.parse("40,30,20", left_context=4, right_context=3, left_context_initial=0,
                                                    right_context_final=0))
    found = [splitter.chunks(length) for length in LENGTHS]
    assert [(c.first_frame, c.num_frames) for c in found[1]] == [(0, 40), (38, 40), (76, 40), (115, 40)]
    assert [(c.first_frame, c.num_frames) for c in found[7]][:3] == [(0, 20), (19, 30), (48, 40)]
    contexts = [(c.left_context, c.right_context) for c in found[1]]
    assert contexts == [(0, 3), (4, 3), (4, 3), (4, 0)]
    assert found[1][0].output_weights.tolist() == [1.0] * 38 + [0.5] * 2
    assert found[1][1].output_weights.tolist() == [0.5] * 2 + [1.0] * 36 + [0.5] * 2


@settings(deadline=None, max_examples=150)
@given(st.integers(1, 700), st.sampled_from(["8", "40,30,20", "150,110,90", "20,13", "1", "-1", "9,6"]),
       st.integers(0, 5), st.sampled_from([1, 3]))
def test_chunks_lie_within_the_utterance(length, num_frames, overlap, factor):
    options = SplitOptions.parse(num_frames, num_frames_overlap=overlap if num_frames not in ("1",) else 0,
                                 frame_subsampling_factor=factor)
    splitter = UtteranceSplitter(options)
    chunks = splitter.chunks(length)
    if num_frames == "-1":
        assert [(c.first_frame, c.num_frames) for c in chunks] == [(0, length)]
        return
    if not chunks:
        assert length < min(options.num_frames)
        return
    assert chunks[0].first_frame >= 0
    assert chunks[-1].first_frame + chunks[-1].num_frames < length + factor
    for before, after in itertools.pairwise(chunks):
        assert before.first_frame < after.first_frame or before.num_frames == 1
    assert {c.num_frames for c in chunks} <= set(options.num_frames)
    total = sum(float(c.output_weights.sum()) for c in chunks)
    covered = np.zeros(-(-length // factor), dtype=bool)
    for c in chunks:
        assert c.first_frame % factor == 0
        covered[c.first_frame // factor:(c.first_frame + c.num_frames) // factor] = True
    assert total == pytest.approx(covered.sum())      # every covered frame counts once


def test_pools_hold_the_cheapest_splits():
    pools = split_pools(SplitOptions(num_frames=(40, 30, 20)))
    assert pools[40] == [(20, 20), (40,)] and pools[19] == [] and (20,) in pools[20]
    assert pools[60] == [(20, 40), (30, 30)]
    assert len(pools) == 2 * 40 + 40 + 1


def test_rounding_and_bad_options(caplog):
    caplog.set_level("INFO", logger="nnet3py")
    assert SplitOptions.parse("20,8", frame_subsampling_factor=3).num_frames == (21, 9)
    assert "Rounding up --num-frames=20,8 to multiples of --frame-subsampling-factor=3, to: 21,9" in caplog.text
    for bad in ("", "0", "a", "8,", "8,-1", "-2"):
        with pytest.raises(Nnet3Error, match="num-frames"):
            SplitOptions.parse(bad)
    with pytest.raises(Nnet3Error, match="overlap"):
        SplitOptions.parse("8", num_frames_overlap=8)
    with pytest.raises(Nnet3Error, match="subsampling"):
        SplitOptions.parse("8", frame_subsampling_factor=0)


def test_length_checks(caplog):
    splitter = UtteranceSplitter(SplitOptions.parse("8"))
    assert splitter.lengths_match("utt", 100, 98, tolerance=2) and not caplog.records
    assert not splitter.lengths_match("utt", 100, 97, tolerance=2)
    assert "utterance utt: expected length = 100, got 97" in caplog.text
    assert not UtteranceSplitter(SplitOptions.parse("9", frame_subsampling_factor=3)).lengths_match("utt", 100, 99)
    assert "expected length = (100 + 3 - 1) / 3 = 34, got: 99 (note: --frame-subsampling-factor=3)" in caplog.text
