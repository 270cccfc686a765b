"""nnet3py/chain/numerator.py against sums over all paths, and against finite differences of them."""
from __future__ import annotations

import dataclasses
import logging

import numpy as np
import pytest
from chain_graphs import acceptor, supervision
from graph_sums import paths

from nnet3py.chain.numerator import QueuedNumerator, compute_numerator, state_times, timed_graphs
from nnet3py.egs.chain_example import Supervision
from nnet3py.errors import Nnet3Error
from nnet3py.formats.general import SparseMatrix
from nnet3py.ops import get_ops

LOG_PROB = 1e-5        # float32 scores, summed over some tens of arcs
DERIVATIVE = 2e-5
STEP = 1e-4


def dense(found, shape):
    return SparseMatrix.from_arrays(found.row_starts, found.columns, found.values, shape[1]).to_dense()


def log_prob(found: Supervision, output: np.ndarray) -> float:
    """The log of the sum over all paths, enumerated; for each sequence its own rows."""
    total, num_frames = 0.0, found.frames_per_sequence
    fsts = found.e2e_fsts or [found.fst]
    for s, fst in enumerate(fsts):
        rows = output[s::found.num_sequences] if found.e2e_fsts else np.concatenate(
            [output[n::found.num_sequences] for n in range(found.num_sequences)])
        total += np.logaddexp.reduce([
            sum(rows[t, label - 1] for t, label in enumerate(labels)) - cost
            for labels, cost in paths(fst, len(rows)) if len(labels) == len(rows)])
    assert len(rows) == num_frames * (1 if found.e2e_fsts else found.num_sequences)
    return float(total)


@pytest.mark.parametrize("end_to_end", [False, True])
@pytest.mark.parametrize("num_sequences, num_frames, weight", [(1, 2, 1.0), (3, 3, 0.5), (2, 4, 2.0)])
def test_against_sums_over_paths(num_sequences, num_frames, weight, end_to_end):
    rng, num_pdfs = np.random.default_rng(num_frames), 5
    found = supervision(rng, num_sequences, num_frames, num_pdfs, weight, end_to_end)
    output = rng.standard_normal((num_sequences * num_frames, num_pdfs)).astype(np.float32)
    result = compute_numerator(found, output)
    # As in Kaldi, the weight is in the log-probability only where supervision has times.
    assert result.log_prob == pytest.approx(log_prob(found, output) * (1.0 if end_to_end else weight), abs=LOG_PROB)
    assert result.ok
    posteriors, wide = dense(result, output.shape), output.astype(np.float64)
    np.testing.assert_allclose(posteriors.sum(axis=1), weight, rtol=DERIVATIVE)
    for place in np.ndindex(output.shape):
        wide[place] += STEP
        above = log_prob(found, wide)
        wide[place] -= 2 * STEP
        assert posteriors[place] == pytest.approx(weight * (above - log_prob(found, wide)) / (2 * STEP), abs=DERIVATIVE)
        wide[place] += STEP


def test_times_of_states():
    fst = acceptor(5, 0, [(0, 1, 1, 0.0), (0, 1, 2, 0.0), (1, 1, 3, 0.0), (2, 1, 3, 0.0), (3, 1, 4, 0.0)], {4: 0.0})
    np.testing.assert_array_equal(state_times(fst), [0, 1, 1, 2, 3])


def two_ends(difference):
    """An FST of two sequences of two frames, with two states between them whose arcs' weights differ."""
    arcs = [(0, 1, 1, 0.5), (1, 2, 2, 0.25), (1, 3, 3, 1.5)]
    for state, more in ((2, 0.0), (3, 0.75)):
        arcs += [(state, 1, 4, 0.5 + more), (state, 2, 5, 1.0 + more + difference * (state == 3))]
    return acceptor(7, 0, [*arcs, (4, 3, 6, 0.0), (5, 1, 6, 0.5)], {6: 0.25})


@pytest.mark.parametrize("difference, num_graphs", [(0.0, 2), (0.5, 1)])
def test_sequences_are_taken_apart_where_they_can_be(difference, num_graphs):
    """The states between them may then have weights of their own; the sums are those of the long graph."""
    fst = two_ends(difference)
    assert timed_graphs(fst, 2, 2).num_graphs == num_graphs
    output = np.random.default_rng(3).standard_normal((4, 3)).astype(np.float32)
    found = Supervision(1.0, 2, 2, 3, fst)
    result = compute_numerator(found, output)
    assert result.log_prob == pytest.approx(log_prob(found, output), abs=LOG_PROB)
    np.testing.assert_allclose(dense(result, output.shape).sum(axis=1), 1.0, rtol=DERIVATIVE)


@pytest.mark.parametrize("arcs, finals, complaint", [
    ([(0, 1, 1, 0.0), (1, 0, 2, 0.0)], {2: 0.0}, "holds epsilons, so it is not normalized .*without the normaliz"),
    ([(0, 1, 1, 0.0), (1, 4, 2, 0.0)], {2: 0.0}, "of 3 pdfs has the label 4, expected 1 to 3"),
    ([(0, 1, 1, 0.0), (1, -1, 2, 0.0)], {2: 0.0}, "has the label -1"),
    ([(0, 1, 2, 0.0), (2, 1, 1, 0.0)], {1: 0.0}, "not sorted"),
    ([(0, 1, 1, 0.0), (1, 1, 2, 0.0), (0, 1, 2, 0.0)], {2: 0.0}, "paths of different lengths to the same state"),
    ([(0, 1, 2, 0.0), (0, 1, 2, 0.0)], {2: 0.0}, "states that cannot be reached"),
    ([(0, 1, 1, 0.0), (1, 1, 2, 0.0)], {1: 0.0, 2: 0.0}, "final states that are not in the last frame"),
    ([(0, 1, 1, 0.0), (1, 1, 2, 0.0)], {}, "has no final state"),
    ([], {0: 0.0}, "has no arcs"),
])
def test_bad_fsts(arcs, finals, complaint):
    found = Supervision(1.0, 1, 2, 3, acceptor(3, 0, arcs, finals))
    with pytest.raises(Nnet3Error, match=complaint):
        compute_numerator(found, np.zeros((2, 3), np.float32))


def test_supervision_of_another_output():
    found = supervision(np.random.default_rng(0), 2, 3, 4)
    with pytest.raises(Nnet3Error, match="of 4 pdfs, but the network's output has the dimension 5"):
        compute_numerator(found, np.zeros((6, 5), np.float32))
    with pytest.raises(Nnet3Error, match="2 sequences of 3 frames, but the network's output has 8 rows"):
        compute_numerator(found, np.zeros((8, 4), np.float32))
    shorter = dataclasses.replace(found, frames_per_sequence=4)
    with pytest.raises(Nnet3Error, match="have 6 arcs, expected one for each frame: 2 times 4"):
        compute_numerator(shorter, np.zeros((8, 4), np.float32))


def test_an_utterance_too_short_for_its_phones():
    """End to end a sequence may have no path; the minibatch then fails, without an error."""
    chain = acceptor(5, 0, [(i, 1, i + 1, 0.0) for i in range(4)], {4: 0.0})
    found = Supervision(1.0, 1, 2, 3, None, [chain])
    result = compute_numerator(found, np.zeros((2, 3), np.float32))
    assert result.log_prob == -np.inf and not result.ok


@pytest.mark.parametrize("end_to_end", [False, True])
def test_nan_in_the_output(end_to_end):
    found = supervision(np.random.default_rng(1), 2, 3, 4, end_to_end=end_to_end)
    result = compute_numerator(found, np.full((6, 4), np.nan, np.float32))
    assert np.isnan(result.log_prob)


@pytest.mark.parametrize(("backward", "warns"), [(-7.01, False), (-7.02, True)])
def test_passes_that_disagree_are_named(backward, warns, caplog):
    """By more than 2 in 1000, as in Kaldi, whose place in the code the line has."""
    halved = dataclasses.replace(supervision(np.random.default_rng(1), 2, 3, 4), weight=0.5)
    queued = QueuedNumerator(get_ops("cpu"), halved, None, ())
    with caplog.at_level(logging.WARNING):
        assert queued.result(np.array([[-4.0, backward + 3.0], [-3.0, -3.0]])) == (-3.5, True)
    assert [(record.getMessage(), record.kaldi_place) for record in caplog.records] == [
        ("Disagreement in forward/backward log-probs: -7.02 vs. -7", ("Backward", "chain-numerator.cc", 150))][:warns]
