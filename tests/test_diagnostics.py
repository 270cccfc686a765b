"""nnet3py/training/diagnostics.py: objective, accuracy with its ties, and the lines about them."""
from __future__ import annotations

import logging

import numpy as np
import pytest
from runtime_cases import TDNN, TDNN_CONTEXT, class_example, dense_example, parameters, plain

from nnet3py.egs.example import NnetExample, NnetIo
from nnet3py.errors import Nnet3Error, ShapeError
from nnet3py.formats.compressed import CompressedMatrix
from nnet3py.formats.general import SparseMatrix, to_dense
from nnet3py.network.nnet import Nnet
from nnet3py.training.diagnostics import DiagnosticOptions, NnetDiagnostics, best_classes

IDENTITY = """
input-node name=input dim=3
component name=i type=NoOpComponent dim=3
component-node name=i component=i input=input
output-node name=output input=i
"""


def example(outputs: list[list[float]], supervision) -> NnetExample:
    """For IDENTITY: rows of output and of supervision."""
    indexes = np.array([(0, t, 0) for t in range(len(outputs))], dtype=np.int32)
    return NnetExample([NnetIo("input", indexes, np.array(outputs, dtype=np.float32)),
                        NnetIo("output", indexes, supervision)])


def test_best_classes_take_the_first_of_equals():
    sparse = SparseMatrix.from_rows([[(2, 0.5), (1, 0.5)], [(0, 0.25), (2, 0.75)], [], [(1, 1.0)]], 3)
    best, weights = best_classes(sparse)
    assert best.tolist() == [1, 2, 0, 1] and weights.tolist() == [1.0, 1.0, 0.0, 1.0]
    best, weights = best_classes(np.array([[0, 0.5, 0.5], [0.25, 0, 0.75]], dtype=np.float32))
    assert best.tolist() == [1, 2] and weights.tolist() == [1.0, 1.0]
    best, weights = best_classes(CompressedMatrix.compress(np.eye(3, dtype=np.float32)))
    assert best.tolist() == [0, 1, 2] and np.allclose(weights, 1.0)


def test_accuracy_is_weighted_and_ties_go_to_the_first():
    diagnostics = NnetDiagnostics(Nnet.from_config(IDENTITY))
    supervision = SparseMatrix.from_rows([[(0, 1.0)], [(1, 2.0)], [(2, 1.0)], [(1, 0.5), (0, 0.25)]], 3)
    diagnostics.compute(example([[1, 1, 0], [2, 2, 0], [0, 1, 2], [0, 3, 0]], supervision))
    totals = diagnostics.outputs["output"]
    assert totals.weight == totals.accuracy_weight == 4.75
    assert totals.num_correct == 1.0 + 0.0 + 1.0 + 0.75
    assert totals.objective == 1.0 + 2 * 2.0 + 2.0 + 0.5 * 3.0


def test_lines(caplog):
    caplog.set_level(logging.INFO)
    diagnostics = NnetDiagnostics(Nnet.from_config(IDENTITY), DiagnosticOptions(compute_per_dim_accuracy=True))
    first = SparseMatrix.from_rows([[(2, 1.0)]], 3)
    last = SparseMatrix.from_rows([[(0, 1.0)], [(0, 1.0)], [(1, 1.0)]], 3)
    diagnostics.compute(example([[0, 0, -1]], first))
    diagnostics.compute(example([[1, 0, 0], [0, 1, 0], [0, 2, 0]], last))
    assert diagnostics.log_totals()
    assert caplog.messages == [
        "Overall log-likelihood for 'output' is 0.5 per frame, over 4 frames.",
        "Overall accuracy for 'output' is 0.5 per frame, over 4 frames.",
        # of the last minibatch only, as Kaldi has it
        "Overall per-dim accuracy vector for 'output' is  [ 0.5 1 -1 ]\n per frame, over 4 frames."]
    assert [record.kaldi_place[1:] for record in caplog.records] == 3 * [("nnet-diagnostics.cc", 165)]


def test_quadratic_objective(caplog):
    caplog.set_level(logging.INFO)
    nnet = plain()
    diagnostics = NnetDiagnostics(nnet, DiagnosticOptions(compute_accuracy=False))
    eg, values = dense_example(), parameters(nnet)
    diagnostics.compute(eg)
    y = to_dense(eg.io[0].features) @ values["a.linear_params"].T + values["a.bias_params"]
    expected = -0.5 * float(((to_dense(eg.io[1].features) - y) ** 2).sum()) / 6
    assert diagnostics.log_totals()
    assert caplog.messages == [f"Overall objective for 'output' is {expected:.6g} per frame, over 6 frames."] or (
        float(caplog.messages[0].split(" is ")[1].split()[0]) == pytest.approx(expected, rel=1e-5))
    assert len(caplog.messages) == 1


def test_sparse_and_dense_supervision_agree():
    left, right = TDNN_CONTEXT
    found = []
    for change in (lambda m: m, to_dense, lambda m: CompressedMatrix.compress(to_dense(m))):
        diagnostics = NnetDiagnostics(Nnet.from_config(TDNN))
        for i in range(4):
            eg = class_example(5, 3, seed=i, left=left, right=right)
            eg.io[1].features = change(eg.io[1].features)
            diagnostics.compute(eg)
        totals = diagnostics.outputs["output"]
        found.append((totals.weight, totals.objective, totals.accuracy_weight, totals.num_correct))
    np.testing.assert_allclose(found[1], found[0], rtol=1e-5)
    np.testing.assert_allclose(found[2], found[0], rtol=1e-5)
    assert 0 < found[0][3] < found[0][2] == 60


def test_the_network_is_left_alone():
    nnet = plain("l2-regularize=0.1")
    before = parameters(nnet)
    NnetDiagnostics(nnet).compute(dense_example())
    for name, value in parameters(nnet).items():
        np.testing.assert_array_equal(value, before[name])


@pytest.mark.parametrize("store", [True, False])
def test_statistics_if_asked_for(store):
    nnet = Nnet.from_config(IDENTITY.replace("NoOpComponent", "BatchNormComponent"))
    diagnostics = NnetDiagnostics(nnet, DiagnosticOptions(store_component_stats=store))
    diagnostics.compute(example([[1, 2, 3], [3, 2, 1]], np.eye(3, dtype=np.float32)[:2]))
    assert vars(nnet.component("i"))["count"][0] == (2 if store else 0)


def test_no_weight(caplog):
    caplog.set_level(logging.INFO)
    diagnostics = NnetDiagnostics(Nnet.from_config(IDENTITY))
    assert not diagnostics.log_totals() and caplog.messages == []
    diagnostics.compute(example([[1, 2, 3]], np.zeros((1, 3), dtype=np.float32)))
    assert not diagnostics.log_totals()
    assert caplog.messages == ["Overall log-likelihood for 'output' is nan per frame, over 0 frames.",
                               "Overall accuracy for 'output' is nan per frame, over 0 frames."]


def test_examples_must_fit():
    diagnostics = NnetDiagnostics(Nnet.from_config(IDENTITY))
    with pytest.raises(ShapeError, match=r"mismatch for 'output': 3 \(nnet\) vs. 4 \(egs\)"):
        diagnostics.compute(example([[1, 2, 3]], np.zeros((1, 4), dtype=np.float32)))
    eg = example([[1, 2, 3]], np.zeros((1, 3), dtype=np.float32))
    eg.io[1].name = "output-7"
    with pytest.raises(Nnet3Error, match="input or output named 'output-7', but no such"):
        diagnostics.compute(eg)
