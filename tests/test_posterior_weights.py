"""nnet3py/formats/posterior_weights.py: against slow twins on lists."""
from __future__ import annotations

import math

import numpy as np
import pytest

from nnet3py.errors import Nnet3Error
from nnet3py.formats.posteriors import (
    Posterior,
    frame_sums,
    of_log_probs,
    scaled_frames,
    summed_by_id,
    weighted_entries,
    weighted_frames,
)
from nnet3py.random_sequence import CRandom

SINGLE = 1e-6          # one rounding to float32
FRAMES = [[(1, 0.25), (5, 0.75)], [], [(2, 1.0)], [(3, 0.5), (1, 0.5), (1, 1.0)]]
POSTERIOR = Posterior.from_lists(FRAMES)
MARKED = np.isin(POSTERIOR.ids, [1, 2])


def test_entries() -> None:
    assert list(weighted_entries(POSTERIOR, MARKED, 0.5)) == [
        [(i, w * 0.5 if i in (1, 2) else w) for i, w in frame] for frame in FRAMES]
    assert list(weighted_entries(POSTERIOR, MARKED, 0.0)) == [
        [(i, w) for i, w in frame if i not in (1, 2)] for frame in FRAMES]


def test_frames() -> None:
    found = weighted_frames(POSTERIOR, MARKED, 0.1)
    for frame, before in zip(found, FRAMES, strict=True):
        silence, total = (sum(w for i, w in before if i in which) for which in ((1, 2), range(9)))
        factor = (0.1 * silence + total - silence) / total if total else 1.0
        assert [i for i, _ in frame] == [i for i, _ in before]
        assert [w for _, w in frame] == pytest.approx([w * factor for _, w in before], rel=SINGLE)
    assert [len(frame) for frame in weighted_frames(POSTERIOR, MARKED, 0.0)] == [2, 0, 0, 3]
    with pytest.raises(Nnet3Error, match="negative"):
        weighted_frames(Posterior.from_lists([[(1, -0.5)]]), np.array([True]), 0.5)


def test_a_factor_for_each_frame() -> None:
    found = scaled_frames(POSTERIOR, np.array([0.5, 2.0, 0.0, -1.0], dtype=np.float32))
    assert list(found) == [[(1, 0.125), (5, 0.375)], [], [], [(3, -0.5), (1, -0.5), (1, -1.0)]]


def test_sums() -> None:
    assert frame_sums(POSTERIOR).tolist() == [1.0, 0.0, 1.0, 2.0]
    assert frame_sums(Posterior.from_lists([])).tolist() == []
    new_ids = np.array([7, 7, 4, 2, 2, 1])
    assert list(summed_by_id(POSTERIOR, new_ids)) == [[(7, 1.0)], [], [(4, 1.0)], [(1, 1.0), (2, 1.0)]]
    assert list(summed_by_id(Posterior.from_lists([[(1, 0.5), (2, -0.5)]]), np.array([3, 3]))) == [[]]


def test_of_log_probs() -> None:
    log_probs = np.log(np.array([[0.5, 0.3, 0.2], [0.9, 0.05, 0.05]], dtype=np.float32))
    assert [[i for i, _ in frame] for frame in of_log_probs(log_probs, 0.25, None)] == [[0, 1], [0]]
    many = np.full((4000, 2), math.log(0.02), dtype=np.float32)
    drawn = of_log_probs(many, 0.1, CRandom().uniform)
    assert set(drawn.weights.tolist()) == {np.float32(0.1)}
    assert len(drawn.ids) / many.size == pytest.approx(0.2, abs=0.02)
    with pytest.raises(Nnet3Error, match="log-probabilities"):
        of_log_probs(np.array([[200.0]], dtype=np.float32), 0.1, None)
