"""The GPU kernels of chain training without a GPU: run in numba's simulator, and compiled to PTX.

See tests/cuda_checks.py: run as a program, in a process of its own, this file compares them with the reference.
"""
from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext

import numpy as np
import pytest
from cuda_checks import COMPUTE_CAPABILITIES, check_in_simulator, check_ptx

LAUNCHES = [((1, 1), (1, 1)), ((2, 2), (2, 3)), ((1, 3), (4, 2))]      # grid and block, off every size below
SHAPES = [(1, 1, 2, 3), (4, 5, 5, 4)]                                  # frames, sequences, states, pdfs
# name: whether in float64
KERNELS = {"chain_exp": False, "chain_add_posteriors": False, "chain_out_of_range": False, "_gather": False,
           "_forward_frame": False, "_backward_frame": False, "chain_log_probs": True, "chain_checks": True,
           "copy_from_sparse": False, "_products": True}
TOLERANCE = 2e-5      # float32 over a few frames, against float64


def test_in_the_simulator():
    check_in_simulator(__file__, len(LAUNCHES) * len(SHAPES) + 1)


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("compute_capability", COMPUTE_CAPABILITIES)
def test_compiles_to_ptx(name, compute_capability):
    from nnet3py.ops.cuda import chain
    check_ptx(chain, name, compute_capability, KERNELS[name])


def test_launches_have_places_for_their_sums():
    from nnet3py.ops.cuda.chain import _launch
    from nnet3py.ops.training_operations import CHAIN_PARTIAL_SUMS
    for num_states, width in ((1, 1), (10**5, 64), (10**4, 1), (300, 128)):
        (grid_x, grid_y), (block_x, block_y) = _launch(num_states, width)
        assert grid_x * block_x >= width and 1 <= grid_y <= CHAIN_PARTIAL_SUMS and block_x * block_y <= 256


class Both:
    """Runs an operation on the simulated device and its reference on copies; compares some of the matrices."""

    def __init__(self, ops, cuda) -> None:
        self.ops, self.cuda = ops, cuda

    def check(self, name: str, args: list, compared: tuple[int, ...] = (0,)) -> None:
        import reference

        on_device = [self.cuda.to_device(a) if isinstance(a, np.ndarray) else a for a in args]
        wide = [a.astype(np.float64) if isinstance(a, np.ndarray) and a.dtype == np.float32 else a for a in args]
        getattr(self.ops, name)(*on_device)
        getattr(reference, name)(*wide)
        for place in compared:
            args[place][...] = on_device[place].copy_to_host()
            np.testing.assert_allclose(args[place], wide[place], rtol=TOLERANCE, atol=TOLERANCE, err_msg=name)


def check_denominator(both: Both, rng: np.random.Generator, shape: tuple[int, int, int, int]) -> None:
    from chain_graphs import random_graph

    from nnet3py.chain.den_graph import DenominatorGraph
    from nnet3py.ops.training_operations import chain_work_rows

    num_frames, width, num_states, num_pdfs = shape
    graph = DenominatorGraph(random_graph(rng, num_states, num_pdfs), num_pdfs)
    y = np.exp(rng.standard_normal((num_frames * num_pdfs, width))).astype(np.float32)
    sums, arriving, alpha, beta = (np.full((rows, width), np.nan, np.float32) for rows in (
        num_frames + 1, num_frames * graph.num_entries, *[chain_work_rows(num_states)] * 2))
    forward = [graph.initial, graph.into.probs, graph.into.starts, graph.into.others, graph.state_entries,
               graph.entry_pdfs, np.float32(0.1)]
    both.check("chain_forward", [sums, alpha, arriving, y, *forward], compared=(0, 2))
    backward = [graph.initial, graph.out_of.probs, graph.out_of.starts, graph.out_of.others, graph.pdf_starts,
                graph.pdf_entries, graph.entry_pdfs, graph.entry_states, np.float32(0.1)]
    both.check("chain_backward", [y, arriving, beta, sums, *backward])
    np.testing.assert_allclose(y.reshape(num_frames, num_pdfs, width).sum(axis=1), 1.0, rtol=TOLERANCE)
    found = np.zeros((3, width))
    both.check("chain_log_probs", [found, sums, graph.initial, np.float32(0.1)])
    beta = rng.random(beta.shape).astype(np.float32)
    both.check("chain_checks", [found, beta, y, sums, graph.initial, num_pdfs, np.float32(0.1)])
    np.testing.assert_allclose(found[2], 1.0, rtol=TOLERANCE)


def simulate() -> int:
    """Compare the kernels with the reference in the simulator; returns the number of cases."""
    return check_kernels(LAUNCHES) + check_replays(*_both())


def _both() -> tuple[Both, np.random.Generator]:
    from nnet3py.ops import device, get_ops

    return Both(get_ops("cuda"), device.cuda()), np.random.default_rng(2)


def check_kernels(launches: Sequence[tuple[tuple[int, int], tuple[int, int]] | None]) -> int:
    """Compare the kernels with the reference on the device there is; a launch of None is the usual one."""
    from nnet3py.ops.cuda import launch

    both, rng = _both()

    def matrix(rows: int, cols: int) -> np.ndarray:
        return rng.standard_normal((rows, cols)).astype(np.float32)

    for grid_and_block in launches:
        for shape in SHAPES:
            num_frames, width, _, num_pdfs = shape
            rows = num_frames * (width + 2)
            output = 20 * matrix(rows, num_pdfs)
            output[0, 0] = np.nan
            with launch.forced_launch(*grid_and_block) if grid_and_block else nullcontext():
                both.check("chain_exp", [matrix(num_frames * num_pdfs, width), output, 30.0, 1, width + 2])
                both.check("chain_add_posteriors", [matrix(rows, num_pdfs), matrix(num_frames * num_pdfs, width), 1,
                                                    width + 2, np.float32(-0.5)])
                both.check("chain_out_of_range", [matrix(rows, num_pdfs), 20 * matrix(rows, num_pdfs), np.float32(15.0),
                                                  np.float32(0.25)])
                places = [rng.integers(0, n, 7).astype(np.int32) for n in (rows, num_pdfs)]
                both.check("chain_gather", [matrix(1, 7)[0], np.nan_to_num(output), *places])
                check_denominator(both, rng, shape)
    return len(launches) * len(SHAPES)


def check_replays(both: Both, rng: np.random.Generator) -> int:
    """From the second time on a pass is a graph, which computes with what then lies in its arrays."""
    import reference
    from chain_graphs import random_graph
    from test_cuda_graphs import Recorder

    from nnet3py.chain.den_graph import DenominatorGraph
    from nnet3py.ops.cuda import graphs, launch, memory
    from nnet3py.ops.training_operations import chain_work_rows

    graph, recorder = DenominatorGraph(random_graph(rng, 3, 2), 2), Recorder()
    graphs.driver, memory.stream_handle = lambda: recorder, lambda: 7
    sums, alpha, arriving, y = (np.zeros((rows, 2), np.float32) for rows in (
        4, chain_work_rows(3), 3 * graph.num_entries, 3 * 2))
    tables = [graph.initial, graph.into.probs, graph.into.starts, graph.into.others, graph.state_entries,
              graph.entry_pdfs]
    on_device = [both.cuda.to_device(a) for a in (sums, alpha, arriving, y, *tables)]
    recorder.begin()
    try:
        for _ in range(4):
            y[...] = rng.random(y.shape)
            on_device[3].copy_to_device(y)
            with launch.forced_launch((1, 1), (1, 1)):
                both.ops.chain_forward(*on_device, 0.1)
            reference.chain_forward(sums, alpha, arriving, y, *tables, 0.1)
            np.testing.assert_allclose(on_device[0].copy_to_host(), sums, rtol=TOLERANCE)
    finally:
        recorder.end()
    assert len(recorder.graphs) == 1 and recorder.num_launched == 3
    return 1


if __name__ == "__main__":
    print(simulate())
