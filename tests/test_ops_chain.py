"""nnet3py/ops/cpu/chain.py against the slow references."""
from __future__ import annotations

import numpy as np
import ops_cases
import pytest
from chain_graphs import random_graph

from nnet3py.chain.den_graph import DenominatorGraph
from nnet3py.ops import get_ops

ops = get_ops("cpu")
RECURSION = 2e-5      # float32 over a few frames, against float64
SHAPES = [(1, 1, 1), (3, 1, 5), (2, 3, 4), (4, 5, 7)]      # frames, sequences, pdfs


@pytest.mark.parametrize("num_frames, num_sequences, num_pdfs", SHAPES)
def test_exp(rng, num_frames, num_sequences, num_pdfs):
    src = 20 * ops_cases.matrix(rng, num_frames * num_sequences, num_pdfs)
    src.flat[:3] = [np.nan, np.inf, -np.inf][:src.size]
    for first, width in ((0, num_sequences), (num_sequences - 1, 1)):
        ops_cases.check(ops, "chain_exp", ops_cases.matrix(rng, num_frames * num_pdfs, width), src, 30.0, first,
                        num_sequences)


@pytest.mark.parametrize("num_frames, num_sequences, num_pdfs", SHAPES)
def test_add_posteriors(rng, num_frames, num_sequences, num_pdfs):
    for first, width in ((0, num_sequences), (num_sequences - 1, 1)):
        ops_cases.check(ops, "chain_add_posteriors", ops_cases.matrix(rng, num_frames * num_sequences, num_pdfs),
                        ops_cases.matrix(rng, num_frames * num_pdfs, width), first, num_sequences, -0.5)


@pytest.mark.parametrize("rows, cols", ops_cases.SIZES)
def test_out_of_range(rng, rows, cols):
    ops_cases.check(ops, "chain_out_of_range", ops_cases.matrix(rng, rows, cols),
                    2 * ops_cases.matrix(rng, rows, cols), 1.5, 0.25)


@pytest.mark.parametrize("num_frames, width, num_pdfs", SHAPES)
def test_denominator(rng, num_frames, width, num_pdfs):
    graph = DenominatorGraph(random_graph(rng, 6, num_pdfs), num_pdfs)
    y = np.exp(ops_cases.matrix(rng, num_frames * num_pdfs, width))
    sums, alpha = (ops_cases.matrix(rng, rows, width) for rows in (num_frames + 1, graph.num_states))
    arriving = ops_cases.matrix(rng, num_frames * graph.num_entries, width, strided=False)
    ops_cases.check(ops, "chain_forward", sums, alpha, arriving, y, graph.initial, graph.into.probs, graph.into.starts,
                    graph.into.others, graph.state_entries, graph.entry_pdfs, 0.1, tolerance=RECURSION)
    beta = ops_cases.matrix(rng, graph.num_states + 2, width)
    ops_cases.check(ops, "chain_backward", y, arriving, beta, sums, graph.initial, graph.out_of.probs,
                    graph.out_of.starts, graph.out_of.others, graph.pdf_starts, graph.pdf_entries, graph.entry_pdfs,
                    graph.entry_states, 0.1, tolerance=RECURSION)
    np.testing.assert_allclose(y.reshape(num_frames, num_pdfs, width).sum(axis=1), 1.0, rtol=RECURSION)


def test_gather(rng):
    rows, columns = rng.integers(0, 5, 9).astype(np.int32), rng.integers(0, 4, 9).astype(np.int32)
    ops_cases.check(ops, "chain_gather", ops_cases.vector(rng, 9), ops_cases.matrix(rng, 5, 4), rows, columns)
    ops_cases.check(ops, "chain_gather", ops_cases.vector(rng, 0), ops_cases.matrix(rng, 5, 4), rows[:0], columns[:0])


def test_log_probs_and_checks(rng):
    num_states, num_pdfs, width = 5, 3, 4
    sums, beta, y = (np.abs(ops_cases.matrix(rng, rows, width)) for rows in (6, num_states + 2, 7))
    initial, found = np.abs(ops_cases.vector(rng, num_states)), np.zeros((3, width))
    ops_cases.check(ops, "chain_log_probs", found, sums, initial, 0.1, tolerance=RECURSION)
    ops_cases.check(ops, "chain_checks", found, beta, y, sums, initial, num_pdfs, 0.1, tolerance=RECURSION)
    sums[2, 0], sums[3, 1] = 0.0, np.nan
    with np.errstate(divide="ignore"):
        ops_cases.check(ops, "chain_log_probs", found, sums, initial, 0.1, tolerance=RECURSION)


# -- sparse supervision ------------------------------------------------------------------------------------------------


def sparse(rng: np.random.Generator, rows: int, cols: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    counts = rng.integers(0, 3, rows) if cols else np.zeros(rows, dtype=np.int64)
    row_starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    columns = rng.integers(0, max(cols, 1), row_starts[-1]).astype(np.int32)
    return row_starts, columns, ops_cases.vector(rng, row_starts[-1])


@pytest.mark.parametrize("rows, cols", ops_cases.SIZES)
def test_copy_from_sparse(rows, cols):
    rng = np.random.default_rng(1)
    ops_cases.check(get_ops(), "copy_from_sparse", ops_cases.matrix(rng, rows, cols), *sparse(rng, rows, cols))


@pytest.mark.parametrize("rows, cols", ops_cases.SIZES)
def test_sum_product_sparse(rows, cols):
    rng = np.random.default_rng(2)
    src = ops_cases.matrix(rng, rows, cols)
    total = ops_cases.check(get_ops(), "sum_product_sparse", src, *sparse(rng, rows, cols))
    assert isinstance(total, float)
