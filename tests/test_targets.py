"""nnet3py/training/targets.py: classes, dense and sparse targets, tensors, and outputs that classes cannot train."""
from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from test_train import CLASSIFIER, points

import nnet3py
from nnet3py.errors import NumericError, ShapeError, UsageError
from nnet3py.formats.general import SparseMatrix
from nnet3py.formats.holders import FLOAT_MATRIX, INT_VECTOR
from nnet3py.formats.posteriors import Posterior
from nnet3py.io.tables import TableWriter
from nnet3py.network.nnet import Nnet
from nnet3py.training.targets import (
    as_array,
    as_supervision,
    as_targets,
    check_class_output,
    is_array,
    is_loader,
    is_module,
    is_tensor,
    items_of,
    target_width,
)

DENSE = np.array([[0, 1, 0], [2, 0, 0], [0, 0, 0], [0, 0.5, 1]], np.float32)


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint8])
def test_classes(dtype: type) -> None:
    found = as_targets(np.array([2, 0, 1], dtype), 3, 3)
    assert found == Posterior.from_lists([[(2, 1.0)], [(0, 1.0)], [(1, 1.0)]])
    assert as_targets([True, False], 2, 2) == Posterior.from_lists([[(1, 1.0)], [(0, 1.0)]])


def test_a_row_without_a_class_does_not_count() -> None:
    supervision = as_supervision([1, -1, 0], 3, 2)
    assert isinstance(supervision, SparseMatrix)
    np.testing.assert_array_equal(supervision.to_dense(), [[0, 1], [0, 0], [1, 0]])


def test_dense_and_sparse_matrices() -> None:
    np.testing.assert_array_equal(as_targets(DENSE.astype(np.float64), 4, 3), DENSE)
    sparse = SparseMatrix.from_rows([[(c, v) for c, v in enumerate(row)] for row in DENSE.tolist()], 3)
    supervision = as_supervision(sparse, 4, 3)
    assert isinstance(supervision, SparseMatrix)
    np.testing.assert_array_equal(supervision.to_dense(), DENSE)
    from scipy.sparse import coo_matrix, csr_matrix
    for kind in (coo_matrix, csr_matrix):
        np.testing.assert_array_equal(as_supervision(kind(DENSE), 4, 3).to_dense(), DENSE)    # type: ignore[union-attr]
    np.testing.assert_array_equal(as_targets([0.5, 1.5], 2, 1), [[0.5], [1.5]])


@pytest.mark.parametrize(("targets", "message"), [
    ([0, 1], r"expected integers \(4,\) for classes below 3, or numbers \(4, 3\), dense or sparse; found int64 \(2,\)"),
    (DENSE.T, r"found float32 \(3, 4\)"),
    ([0.0, 1.0, 2.0, 1.0], r"found float64 \(4,\)"),
    (["a", "b", "c", "d"], r"found <U1 \(4,\)"),
    ([0, 3, 1, 1], "found the class 3, but the output has the classes 0 to 2"),
    ([0, -2, 1, 1], "found the class -2"),
    (SparseMatrix.from_rows([[(0, 1.0)]], 3), r"found a sparse matrix \(1, 3\)"),
])
def test_other_shapes(targets: object, message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        as_targets(targets, 4, 3)


def test_what_is_no_number() -> None:
    with pytest.raises(NumericError, match="the targets"):
        as_targets(np.full((4, 3), np.nan), 4, 3)


def test_widths() -> None:
    from scipy.sparse import csr_matrix

    targets = [1, -1, 6], [-1], DENSE, csr_matrix(DENSE), [0.5, 1.5]
    assert list(map(target_width, targets)) == [7, 1, 3, 3, 1]


def test_other_things_are_none_of_torch() -> None:
    array = np.ones(3)
    assert not (is_tensor(array) or is_module(array) or is_loader([array])) and is_array(array) and not is_array([1.0])
    assert as_array(array) is array and items_of(array) is array


def test_torch_is_not_imported() -> None:
    code = ("import sys, numpy as np, nnet3py; from nnet3py.training import targets as t; "
            "t.is_tensor(1), t.is_module(1), t.is_loader(1), t.as_array(1), t.items_of(1), nnet3py.Loss(len), "
            "nnet3py.Trainer; print('torch' in sys.modules)")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_tensors_become_arrays() -> None:
    torch = pytest.importorskip("torch")
    for dtype, kind in ((torch.float64, np.float32), (torch.float16, np.float32), (torch.bfloat16, np.float32),
                        (torch.float32, np.float32), (torch.int32, np.int32), (torch.int64, np.int64)):
        array = as_array(torch.ones(2, 3, dtype=dtype))
        assert array.dtype == kind and array.shape == (2, 3) and array.sum() == 6
    tensor = torch.ones(2, requires_grad=True)
    assert as_array(tensor).tolist() == [1, 1] and is_tensor(tensor) and is_array(tensor)
    assert as_array(torch.eye(2).to_sparse()).tolist() == [[1, 0], [0, 1]]
    assert is_module(torch.nn.MSELoss()) and not is_module(torch.nn.MSELoss)


def test_data_sets_have_items() -> None:
    torch = pytest.importorskip("torch")
    pairs = torch.utils.data.TensorDataset(torch.arange(3), torch.arange(3) + 5)
    assert [(int(a), int(b)) for a, b in items_of(pairs)] == [(0, 5), (1, 6), (2, 7)]
    assert is_loader(torch.utils.data.DataLoader(pairs))

    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            return iter([1])

    stream = Stream()
    assert items_of(stream) is stream


OPEN = CLASSIFIER.replace("output-node name=output input=l", "output-node name=output input=b")


@pytest.mark.parametrize("classes", [list, lambda classes: classes.astype(np.int8), lambda classes: classes == 1])
def test_train_refuses_an_output_without_log_softmax(classes) -> None:
    nnet, (feats, labels) = Nnet.from_config(OPEN), points(64, 0)
    before = nnet.squares()
    with pytest.raises(UsageError, match="the targets are classes, for which 'output' must be log-probabilities: "
                                         "expected a log-softmax at its end, found a NaturalGradientAffineComponent "
                                         "in 'b'.*add a LogSoftmaxComponent dim=2"):
        nnet3py.train(nnet, feats, classes(labels))
    assert np.array_equal(nnet.squares(), before)
    for data in ([(feats, labels)], {"a": (feats, labels)}, iter([(feats, labels)])):
        with pytest.raises(UsageError, match="log-softmax"):
            nnet3py.train(nnet, data)


def test_tables(here: Path) -> None:
    feats, labels = points(64, 0)
    with TableWriter("ark:feats.ark", FLOAT_MATRIX) as matrices, TableWriter("ark:ali.ark", INT_VECTOR) as alignments:
        matrices.write("utt", feats)
        alignments.write("utt", labels.astype(np.int32))
    assert len(nnet3py.train(Nnet.from_config(CLASSIFIER), ("ark:feats.ark", "ark:ali.ark"))) == 1
    with pytest.raises(UsageError, match="log-softmax"):
        nnet3py.train(Nnet.from_config(OPEN), ("ark:feats.ark", "ark:ali.ark"))


def test_other_targets_and_objectives_stay_as_they_are() -> None:
    feats, labels = points(64, 0)
    dense = np.eye(2, dtype=np.float32)[labels]
    nnet3py.train(Nnet.from_config(OPEN), feats, dense)
    quadratic = Nnet.from_config(OPEN.replace("output input=b", "output input=b objective=quadratic"))
    assert nnet3py.train(quadratic, feats, labels)["objective"][-1] < 0.0


@pytest.mark.parametrize("end", [
    "output-node name=output input=Sum(l, Const(1.0, 2))",
    "output-node name=output input=Scale(0.5, Offset(l, 1))",
    "component name=f type=FixedBiasComponent dim=2\ncomponent-node name=f component=f input=l\n"
    "output-node name=output input=f",
    "component name=s type=ScaleAndOffsetComponent dim=2\ncomponent-node name=s component=s input=Sum(b, l)\n"
    "output-node name=output input=s",
    "dim-range-node name=d input-node=l dim=1 dim-offset=0\noutput-node name=output input=d",
    "component name=c type=CompositeComponent num-components=2 component1='type=NoOpComponent dim=2' "
    "component2='type=LogSoftmaxComponent dim=2'\ncomponent-node name=c component=c input=b\n"
    "output-node name=output input=c"])
def test_what_leads_to_a_log_softmax_passes(end: str) -> None:
    check_class_output(Nnet.from_config(CLASSIFIER.replace("output-node name=output input=l", end)))


@pytest.mark.parametrize(("end", "message"), [
    ("component name=f type=NoOpComponent dim=2\ncomponent-node name=f component=f input=b\n"
     "output-node name=output input=f", "found a NaturalGradientAffineComponent in 'b'. The"),
    ("component name=f type=SoftmaxComponent dim=2\ncomponent-node name=f component=f input=b\n"
     "output-node name=output input=f", "found a SoftmaxComponent in 'f'. The"),
    ("output-node name=output input=Sum(Sum(b, b), input)", "found a NaturalGradientAffineComponent in 'b'. The"),
    ("output-node name=output input=input", "found none. The")])
def test_what_does_not_is_named(end: str, message: str) -> None:
    nnet = Nnet.from_config(CLASSIFIER.replace("output-node name=output input=l", end))
    with pytest.raises(UsageError, match=message):
        check_class_output(nnet)


def test_a_component_of_one_s_own_passes() -> None:
    @nnet3py.register_component
    class LogSigmoidOfTheTestComponent(nnet3py.FunctionComponent):
        @staticmethod
        def function(x: float) -> float:
            return -math.log(1.0 + math.exp(-x))

        @staticmethod
        def derivative(x: float, y: float) -> float:
            return 1.0 / (1.0 + math.exp(x))

    check_class_output(Nnet.from_config(CLASSIFIER.replace("type=LogSoftmaxComponent",
                                                           "type=LogSigmoidOfTheTestComponent")))
