"""i-vectors of frames that arrive in pieces: those of the whole utterance."""
from __future__ import annotations

import numpy as np
import pytest
from online_cases import base_features, ivector_models

from nnet3py.errors import UsageError
from nnet3py.ivectors.online import OnlineIvectors
from nnet3py.recognition.ivector_stream import IvectorStream

RNG = np.random.default_rng(5)
SAME = 2e-5             # posteriors are single precision, and products of other sizes round in another way


def fed(models, features, size, state=None):
    stream = IvectorStream(models, state)
    for begin in range(0, len(features), size):
        stream.accept(features[begin:begin + size])
    stream.finish()
    return stream


@pytest.mark.parametrize("settings", [{"use_most_recent": False}, {"use_most_recent": False, "period": 7},
                                      {}, {"greedy": True}, {"use_cmvn_for_stats": True}, {"max_count": 5.0}])
@pytest.mark.parametrize("size", [1, 13, 1000])
def test_the_same_as_of_the_whole_utterance(settings, size):
    models, state, reference_state = ivector_models(**settings), None, None
    for key in ("utt2", "utt1"):
        features = base_features(key)
        reference = OnlineIvectors(models, features, reference_state or fresh(models))
        stream = fed(models, features, size, state)
        assert stream.num_frames_ready == len(features)
        for frame in (0, 4, 23, 30, 31, 95, len(features) - 1):
            np.testing.assert_allclose(stream.at(frame), reference.at(frame), atol=SAME)
        state, reference_state = stream.adaptation_state(), reference.state()
        np.testing.assert_allclose(state.cmvn, reference_state.cmvn, rtol=1e-12)
        np.testing.assert_allclose(state.stats.linear, reference_state.stats.linear, rtol=SAME, atol=SAME)
        assert stream.objective_change() == pytest.approx(reference.objective_change(), rel=1e-4)


def fresh(models):
    from nnet3py.ivectors.online import AdaptationState

    return AdaptationState.fresh(models)


def test_frames_wait_for_their_context():
    stream = IvectorStream(ivector_models())
    for count in range(1, 8):
        stream.accept(base_features("utt1")[:1])
        assert stream.num_frames_ready == max(0, count - 3)
    with pytest.raises(UsageError, match="no i-vector for frame 4 yet: 4 frames are ready"):
        stream.at(4)
    stream.finish()
    assert stream.num_frames_ready == 7


@pytest.mark.parametrize("settings", [{}, {"use_most_recent": False}])
def test_weights_that_arrive_in_pieces(settings):
    models, features = ivector_models(**settings), base_features("utt2")
    # All the weights of a frame are there when it is asked for: then it is as if they had been known.
    weights = RNG.choice(np.array([0.0, 0.001, 1.0], dtype=np.float32), len(features))
    reference = OnlineIvectors(models, features, fresh(models), weights)
    stream, numbers = fed(models, features, 10), np.arange(len(features))
    order = RNG.permutation(len(features))
    stream.update_weights(numbers[order], weights[order] / 2)
    stream.update_weights(numbers, weights / 2)
    for frame in (0, 9, 10, 50, 51, len(features) - 1):
        np.testing.assert_allclose(stream.at(frame), reference.at(frame), atol=SAME)


def test_weights_that_are_corrected_later():
    models, features = ivector_models(), base_features("utt2")
    stream, numbers = fed(models, features, 10), np.arange(len(features))
    stream.update_weights(numbers, np.ones(len(features), dtype=np.float32))
    before = stream.at(50)
    stream.update_weights(numbers[:51], np.full(51, -1.0, dtype=np.float32))
    np.testing.assert_array_equal(stream.at(50), before)          # asked for again, it is the same
    last = stream.at(len(features) - 1)
    # What is left is the frames after 50, but for rounding: the same Gaussians are taken back as were put in.
    other = fed(models, features, 10)
    other.update_weights(numbers, (numbers > 50).astype(np.float32))
    np.testing.assert_allclose(last, other.at(len(features) - 1), atol=1e-3)
    assert stream.weight == pytest.approx(len(features) - 51)


def test_weights_come_first_or_never():
    stream = fed(ivector_models(), base_features("utt2"), 50)
    stream.at(10)
    with pytest.raises(UsageError, match="before the first i-vector"):
        stream.update_weights(np.arange(3), np.ones(3, dtype=np.float32))


@pytest.mark.parametrize("weighted", [False, True])
def test_memory_does_not_grow(weighted):
    models = ivector_models()
    stream, features, end = IvectorStream(models), base_features("utt1"), 0
    for _ in range(20):
        stream.accept(features)
        if weighted:
            stream.update_weights(np.arange(end, stream.num_frames_ready),
                                  np.ones(stream.num_frames_ready - end, dtype=np.float32))
            end = stream.num_frames_ready
            stream.no_changes_before(end - 100)
        stream.at(stream.num_frames_ready - 1)
    kept = stream._plain.rows.end - stream._plain.rows.first
    assert kept <= (100 + len(features) if weighted else 0)
    assert len(stream._plain.rows._rows) <= 8 * len(features)


def test_no_frames():
    models = ivector_models()
    stream = IvectorStream(models)
    stream.accept(np.zeros((0, 40), dtype=np.float32))
    stream.finish()
    assert stream.num_frames_ready == 0
    assert stream.adaptation_state().stats.count == 0
