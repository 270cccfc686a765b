"""nnet3py/chain/denominator.py against plain sums over paths, and against finite differences of them."""
from __future__ import annotations

import logging

import numpy as np
import pytest
from chain_graphs import random_graph, three_phones
from graph_sums import denominator_log_prob

from nnet3py.chain import denominator
from nnet3py.chain.den_graph import DenominatorGraph
from nnet3py.chain.denominator import DenominatorComputation
from nnet3py.engine import threads
from nnet3py.errors import ShapeError
from nnet3py.ops import get_ops

LOG_PROB = 1e-6        # float32 sums of few terms, relative to the sum over frames
DERIVATIVE = 1e-5      # finite differences in float64 of a function of order 1, and float32 posteriors
STEP = 1e-5


def computation(fst, num_pdfs, leaky=0.1):
    return DenominatorComputation(get_ops("cpu"), DenominatorGraph(fst, num_pdfs), leaky)


def outputs(rng, num_frames, num_sequences, num_pdfs):
    return (2 * rng.standard_normal((num_frames * num_sequences, num_pdfs))).astype(np.float32)


def test_the_worked_example():
    """One frame and output 0: log(1.1 * 0.873428), as the data sheet has it."""
    found = computation(three_phones(), 6).compute(np.zeros((1, 6), np.float32), 1)
    assert found.log_prob == pytest.approx(-0.040020, abs=2e-6)
    assert found.ok


@pytest.mark.parametrize("leaky", [1e-5, 0.1])
@pytest.mark.parametrize("num_frames, num_sequences, num_states, num_pdfs", [(1, 1, 2, 3), (4, 3, 7, 5), (9, 2, 5, 11)])
def test_against_sums_over_paths(num_frames, num_sequences, num_states, num_pdfs, leaky):
    rng = np.random.default_rng(num_frames)
    fst, output = random_graph(rng, num_states, num_pdfs), outputs(rng, num_frames, num_sequences, num_pdfs)
    deriv = np.full_like(output, 0.25)
    found = computation(fst, num_pdfs, leaky).compute(output, num_sequences, deriv, -2.0)
    wide = output.astype(np.float64)

    def log_prob():
        return sum(denominator_log_prob(fst, wide[s::num_sequences], leaky) for s in range(num_sequences))

    assert found.log_prob == pytest.approx(log_prob(), abs=LOG_PROB * num_frames * num_sequences * 5)
    assert found.ok
    for place in np.ndindex(output.shape):
        wide[place] += STEP
        above = log_prob()
        wide[place] -= 2 * STEP
        slope = (above - log_prob()) / (2 * STEP)
        wide[place] += STEP
        assert deriv[place] == pytest.approx(0.25 - 2.0 * slope, abs=DERIVATIVE)


def test_the_number_of_threads_changes_nothing(monkeypatch):
    rng = np.random.default_rng(7)
    fst, output, results = random_graph(rng, 9, 6), outputs(rng, 5, 7, 6), []
    for count, widest in ((1, 32), (2, 32), (3, 2), (1, 1), (5, 4)):
        monkeypatch.setattr(threads, "num_threads", lambda count=count: count)
        monkeypatch.setattr(denominator, "WIDEST_BLOCK", widest)
        deriv = np.zeros_like(output)
        found = computation(fst, 6).compute(output, 7, deriv)
        results.append((found.log_prob, deriv.tobytes()))
    assert len(set(results)) == 1


@pytest.mark.parametrize("num_sequences, num_workers, widest", [(1, 1, 32), (1, 4, 32), (64, 2, 32), (65, 2, 32),
                                                                (7, 3, 2), (128, 16, 32)])
def test_blocks_cover_the_sequences(num_sequences, num_workers, widest):
    blocks = denominator._blocks(num_sequences, num_workers, widest)
    assert [first for first, _ in blocks] == list(np.cumsum([0] + [width for _, width in blocks])[:-1])
    assert sum(width for _, width in blocks) == num_sequences
    assert 1 <= min(width for _, width in blocks) and max(width for _, width in blocks) <= widest


def test_memory_is_kept():
    rng = np.random.default_rng(3)
    found = computation(random_graph(rng, 4, 3), 3)
    found.compute(outputs(rng, 6, 2, 3), 2)
    memory = [id(block) for block in found._memory]
    found.compute(outputs(rng, 5, 2, 3), 2)
    assert [id(block) for block in found._memory] == memory


def test_values_out_of_range_are_clipped():
    rng = np.random.default_rng(8)
    fst = random_graph(rng, 4, 3)
    output = outputs(rng, 3, 1, 3)
    output[0] = [np.nan, 1000.0, -np.inf]
    clipped = np.clip(np.nan_to_num(output, nan=-30.0, neginf=-30.0), -30.0, 30.0)
    deriv, expected = np.zeros_like(output), np.zeros_like(output)
    assert computation(fst, 3).compute(output, 1, deriv) == computation(fst, 3).compute(clipped, 1, expected)
    np.testing.assert_array_equal(deriv, expected)


@pytest.mark.parametrize("sums, warnings, ok", [((4.0, 4.0), 0, True), ((4.1, 4.0), 1, True), ((4.0, 7.0), 2, False),
                                                ((np.nan, 4.0), 1, True)])
def test_checks_of_the_first_frame(caplog, sums, warnings, ok):
    results = np.array([np.zeros(4), np.full(4, sums[0] / 4), np.full(4, sums[1] / 4)])
    with caplog.at_level(logging.WARNING):
        assert denominator._is_sound(results) is ok
    assert len(caplog.records) == warnings


def test_what_does_not_fit():
    found = computation(three_phones(), 6)
    with pytest.raises(ShapeError, match="dimension 5, but the denominator graph was made for 6 pdfs"):
        found.compute(np.zeros((4, 5), np.float32), 2)
    with pytest.raises(ShapeError, match="5 rows for 2 sequences"):
        found.compute(np.zeros((5, 6), np.float32), 2)
