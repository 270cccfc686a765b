"""Conversion of targets and features given as arrays or PyTorch tensors; PyTorch is not imported here."""
from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np

from nnet3py import extras
from nnet3py.components.base import Component
from nnet3py.errors import ShapeError, UsageError
from nnet3py.formats.general import GeneralMatrix, SparseMatrix, check_finite
from nnet3py.formats.posteriors import Posterior
from nnet3py.network.nnet import Nnet
from nnet3py.network.structure import ComponentNode, node_dependencies
from nnet3py.network.whole_model import is_a


def import_torch() -> Any:
    """Return the torch package. Raises Nnet3Error with the command that installs it."""
    return extras.load("torch", "a loss that computes with tensors needs", "torch")


def _is_of(value: Any, module: str, name: str) -> bool:
    """Return whether a value is an instance of a class of torch, without importing torch."""
    loaded = sys.modules.get(module)
    kind = getattr(loaded, name, None)
    return isinstance(kind, type) and isinstance(value, kind)


def is_tensor(value: Any) -> bool:
    """Return whether a value is a tensor of torch."""
    return _is_of(value, "torch", "Tensor")


def is_module(value: Any) -> bool:
    """Return whether a value is a module of torch."""
    return _is_of(value, "torch.nn", "Module")


def is_loader(value: Any) -> bool:
    """Return whether a value is a ``DataLoader`` of torch, whose items are minibatches."""
    return _is_of(value, "torch.utils.data", "DataLoader")


def is_array(value: Any) -> bool:
    """Return whether a value is a numpy array or a tensor."""
    return isinstance(value, np.ndarray) or is_tensor(value)


def as_array(value: Any) -> Any:
    """Convert a tensor to a numpy array, float32 for any type of floats; other values are returned unchanged.

    The array shares the tensor's memory where possible.
    """
    if not is_tensor(value):
        return value
    tensor = value.detach().cpu()
    if tensor.is_sparse:
        tensor = tensor.to_dense()
    return (tensor.float() if tensor.is_floating_point() else tensor).numpy()


def items_of(data: Any) -> Any:
    """Return an iterable over a torch data set that is indexed by numbers; other values are returned unchanged."""
    if _is_of(data, "torch.utils.data", "Dataset") and not isinstance(data, Iterable):
        return (data[number] for number in range(len(data)))
    return data


NO_TARGET = -1       # the class of a frame to be ignored


class RowsOfScipy(Protocol):
    """Interface of scipy's csr matrices, as far as it is used here."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def indptr(self) -> np.ndarray: ...
    @property
    def indices(self) -> np.ndarray: ...
    @property
    def data(self) -> np.ndarray: ...


@runtime_checkable
class SparseOfScipy(Protocol):
    """Interface of all of scipy's sparse matrices."""

    def tocsr(self) -> RowsOfScipy:
        """Convert the matrix to csr format."""


Targets: TypeAlias = np.ndarray | Sequence[float] | Sequence[Sequence[float]] | SparseMatrix | SparseOfScipy


def as_targets(targets: Targets, num_rows: int, dim: int, where: str = "the targets") -> Posterior | np.ndarray:
    """Convert targets of an output to posteriors, or to a matrix if they are dense.

    Raises ShapeError for another shape, or a class that the output does not have, and NumericError for NaN or infinity.

    Parameters
    ----------
    targets : the class of each row, int (rows,), -1 for a row that does not count; or float (rows, dim); or a sparse
        matrix (rows, dim), a SparseMatrix or one of scipy's; for an output of one column also float (rows,)
    num_rows, dim : shape of the output
    where : the name of the targets in error messages

    Returns
    -------
    Posterior of ``num_rows`` frames, or float32 (num_rows, dim)
    """
    if isinstance(targets, SparseMatrix | SparseOfScipy):
        matrix = targets if isinstance(targets, SparseMatrix) else _from_scipy(targets)
        _check_shape(matrix.shape, "a sparse matrix", num_rows, dim, where)
        check_finite(matrix, where)
        return Posterior(matrix.row_starts, matrix.columns, matrix.values)
    array = np.asarray(targets)
    if are_classes(array):
        return _of_classes(array, num_rows, dim, where)
    if array.ndim == 1 and dim == 1:
        array = array[:, None]
    if array.dtype.kind not in "fiub":
        raise ShapeError(f"{where}: expected {_expected(num_rows, dim)}; found {array.dtype} {array.shape}",
                         "np.asarray(targets, dtype=np.int32) or np.float32 may make numbers of them")
    _check_shape(array.shape, str(array.dtype), num_rows, dim, where)
    check_finite(array, where)
    return np.asarray(array, dtype=np.float32)


def are_classes(targets: Targets) -> bool:
    """Return whether targets (see :func:`as_targets`) are classes: integers (rows,)."""
    if isinstance(targets, SparseMatrix | SparseOfScipy):
        return False
    try:
        array = np.asarray(targets)
    except ValueError:      # rows of different lengths
        return False
    return array.dtype.kind in "iub" and array.ndim == 1


def as_supervision(targets: Targets, num_rows: int, dim: int, where: str = "the targets") -> GeneralMatrix:
    """Convert targets to a matrix for an example: sparse for classes and sparse weights, else float32 (rows, dim)."""
    wanted = as_targets(targets, num_rows, dim, where)
    if isinstance(wanted, np.ndarray):
        return wanted
    return SparseMatrix.from_arrays(wanted.row_starts, wanted.ids, wanted.weights, dim)


def target_width(targets: Targets) -> int:
    """Return the least number of columns that a matrix for these targets (see :func:`as_targets`) needs."""
    if isinstance(targets, SparseMatrix | SparseOfScipy):
        return int((targets if isinstance(targets, SparseMatrix) else targets.tocsr()).shape[1])
    if are_classes(targets):
        return int(np.max(targets, initial=0)) + 1
    return int(np.shape(targets)[1]) if np.ndim(targets) > 1 else 1


def _of_classes(classes: np.ndarray, num_rows: int, dim: int, where: str) -> Posterior:
    if len(classes) != num_rows:
        _check_shape(classes.shape, str(classes.dtype), num_rows, dim, where)
    classes = classes.astype(np.int64)
    wrong = classes[(classes < NO_TARGET) | (classes >= dim)]
    if len(wrong):
        raise ShapeError(f"{where}: found the class {wrong[0]}, but the output has the classes 0 to {dim - 1} "
                         f"({NO_TARGET}: a row that does not count)")
    counts = classes != NO_TARGET
    return Posterior(np.concatenate(([0], np.cumsum(counts))), classes[counts].astype(np.int32),
                     np.ones(int(counts.sum()), dtype=np.float32))


def _from_scipy(targets: SparseOfScipy) -> SparseMatrix:
    rows = targets.tocsr()
    return SparseMatrix.from_arrays(rows.indptr, rows.indices, rows.data, rows.shape[1])


def _check_shape(shape: tuple[int, ...], kind: str, num_rows: int, dim: int, where: str) -> None:
    if shape != (num_rows, dim):
        raise ShapeError(f"{where}: expected {_expected(num_rows, dim)}; found {kind} {shape}")


def _expected(num_rows: int, dim: int) -> str:
    return f"integers ({num_rows},) for classes below {dim}, or numbers ({num_rows}, {dim}), dense or sparse"


# Behind a log-softmax these keep its output log-probabilities, apart from constants and masked values.
_KEEPING = ("NoOpComponent", "FixedScaleComponent", "FixedBiasComponent", "PerElementScaleComponent",
            "PerElementOffsetComponent", "ScaleAndOffsetComponent", "PermuteComponent", "ClipGradientComponent",
            "BackpropTruncationComponent", "DropoutComponent", "GeneralDropoutComponent",
            "SpecAugmentTimeMaskComponent", "SumBlockComponent")


def check_class_output(nnet: Nnet, name: str = "output") -> None:
    """Raise UsageError for an output that cannot be trained on classes.

    The objective would grow without limit if it is ``linear`` and the output is not log-probabilities. Outputs of
    components that users have defined are accepted. Raises UsageError if the objective is ``linear`` and the output is
    not log-probabilities.
    """
    output = nnet.node_index(name)
    if nnet.descriptor_of(output).objective != "linear":
        return
    ends: list[str] = []
    seen: set[int] = set()
    ahead = [output]
    while ahead:
        i = ahead.pop()
        if i in seen:
            continue
        seen.add(i)
        node = nnet.nodes[i]
        if isinstance(node, ComponentNode):
            component = _last(nnet.component_of(i))
            if _is_normalized(component):
                return
            if not is_a(component, *_KEEPING):
                kind = type(component).__name__
                ends.append(f"{'an' if kind[0] in 'AEIO' else 'a'} {kind} in {node.name!r}")
                continue
        ahead += node_dependencies(nnet, i)
    raise UsageError(
        f"the targets are classes, for which {name!r} must be log-probabilities: expected a log-softmax at its end, "
        f"found {' and '.join(sorted(ends)) or 'none'}. The objective would grow without limit",
        f"add a LogSoftmaxComponent dim={nnet.output_dim(name)} before the output-node (xconfig's output-layer has "
        "one); for regression on classes set objective=quadratic in the output-node's line; or give the loss that you "
        "mean: nnet3py.train(…, loss=torch.nn.CrossEntropyLoss())")


def _last(component: Component) -> Component:
    """Return the last component inside a composite; another component is returned unchanged."""
    return _last(component.children[-1]) if component.children else component


def _is_normalized(component: Component) -> bool:
    return is_a(component, "LogSoftmaxComponent") or not type(component).__module__.startswith("nnet3py.")
