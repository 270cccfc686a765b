"""Base class of components: their contract with model files, compiler, executor and trainer.

A component holds numpy arrays and settings. It never imports ``ops``: the caller passes an ``ops`` object (the
operations of one device) and matrices of that device. Kaldi: ``nnet-component-itf.h``.
"""
from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from enum import IntFlag
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nnet3py.advice import Advising, elsewhere
from nnet3py.components.fields import InFiles, fields_info
from nnet3py.errors import Nnet3Error, ShapeError
from nnet3py.provided import Shown

if TYPE_CHECKING:
    from nnet3py.config_line import ConfigLine
    from nnet3py.ops.arrays import DeviceArray
    from nnet3py.ops.table import Memory, Ops


# Opaque objects that a component creates and is later given back.
Precomputed: TypeAlias = Any        # from ``precompute_indexes``, for ``propagate`` and ``backprop``
Memo: TypeAlias = Any               # from ``new_memo``; ``propagate`` fills it for ``backprop``


class Properties(IntFlag):
    """Flags by which a component tells the compiler its requirements; the values are Kaldi's."""

    SIMPLE = 0x001
    UPDATABLE = 0x002
    PROPAGATE_IN_PLACE = 0x004
    PROPAGATE_ADDS = 0x008
    REORDERS_INDEXES = 0x010
    BACKPROP_ADDS = 0x020
    BACKPROP_NEEDS_INPUT = 0x040
    BACKPROP_NEEDS_OUTPUT = 0x080
    BACKPROP_IN_PLACE = 0x100
    STORES_STATS = 0x200
    INPUT_CONTIGUOUS = 0x400
    OUTPUT_CONTIGUOUS = 0x800
    USES_MEMO = 0x1000
    RANDOM = 0x2000

    if not TYPE_CHECKING:      # the enum's own operators are very slow, and compiling uses these thousands of times
        __or__ = __ror__ = int.__or__
        __and__ = __rand__ = int.__and__


def compiled_for_others(what: str, x: DeviceArray, y: DeviceArray) -> ShapeError:
    """Make the error for precomputed indexes that do not fit ``x`` and ``y``; ``what`` names the component."""
    return ShapeError(f"{what} from {x.shape[0]} x {x.shape[1]} inputs to {y.shape[0]} x {y.shape[1]} outputs was "
                      "compiled for other dimensions", "compile the request again")


def copy_if_apart(ops: Ops, dst: DeviceArray, src: DeviceArray) -> None:
    """Copy ``src`` to ``dst``, unless they are the same matrix, as they are if the component works in place."""
    if dst is not src:
        ops.copy_mat(dst, src, 1.0)


_ELSEWHERE = elsewhere(**{
    "name": "its network knows: for name, component in nnet.named_components()",
    "type kind layer_type": "type(component).__name__",
    "shape dim size in_features out_features input_size output_size": "component.input_dim, component.output_dim",
    "requires_grad requires_grad_ trainable": "nnet3py.freeze(nnet, 'affine1'), nnet3py.unfreeze(nnet, 'affine1')",
    "set_learning_rate lr": "nnet3py.set_learning_rate(nnet, 0.001, 'affine1')",
    "forward output values activations": "nnet(feats, output='affine1') gives the values of a node",
    "grad": "nnet3py.gradients(nnet, feats, targets=classes).nnet['affine1'].parameters()",
})
_ARRAYS = ("weight", "weights", "bias", "biases", "params", "state_dict", "named_parameters", "get_weights", "w", "b")


class Component(InFiles, Advising, Shown):
    """Base of components: the function of a layer, with its parameters. Subclasses have Kaldi's type names.

    Attributes
    ----------
    PARAMETERS, STATISTICS : tuple of str
        Names of the float32 arrays that training changes, and of the float64 sums that it accumulates; ``parameters``,
        ``scale``, ``add`` and ``zero_stats`` use them.
    CONSTANTS : tuple of str
        Names of arrays that kernels read and training does not change.
    FIELDS : tuple of Field
        Fields of model files in order, for ``read``, ``write`` and ``info``.
    INFO : tuple of str
        Order of the information text where it differs from the order of the fields (``fields_info``).
    children : sequence of Component
        Components inside a CompositeComponent, which hold its arrays; empty for others.
    """

    PARAMETERS: ClassVar[tuple[str, ...]] = ()
    STATISTICS: ClassVar[tuple[str, ...]] = ()
    CONSTANTS: ClassVar[tuple[str, ...]] = ()
    INFO: ClassVar[tuple[str, ...]] = ()
    children: Sequence[Component] = ()

    _ELSEWHERE = _ELSEWHERE

    def _advice(self, name: str) -> str | None:
        if name in _ARRAYS and (arrays := self.parameters()):
            return f"component.parameters() has {', '.join(arrays)}: component[{next(iter(arrays))!r}]"
        return super()._advice(name)

    # -- for the compiler ------------------------------------------------------------------------------------------

    @property
    def properties(self) -> Properties:
        """Flags of the component, which may depend on settings (block dimensions, test mode)."""
        raise NotImplementedError

    @property
    def input_dim(self) -> int:
        """Number of columns of the input matrix."""
        raise NotImplementedError

    @property
    def output_dim(self) -> int:
        """Number of columns of the output matrix."""
        raise NotImplementedError

    def has(self, flag: Properties) -> bool:
        """Return whether the component has the property ``flag``."""
        return bool(self.properties & flag)

    def input_indexes(self, indexes: np.ndarray) -> np.ndarray:
        """Return the input indexes that each output index may use: int32 (rows, 3) -> int32 (rows, choices, 3).

        Kaldi: GetInputIndexes. A choice that does not exist has t = NO_TIME.
        """
        return indexes[:, None, :]

    def input_shifts(self) -> list[int] | None:
        """Return the shifts in frames if ``input_indexes`` only shifts every index in t; else None."""
        return None

    def is_computable(self, indexes: np.ndarray, available: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return which output indexes can be computed, and from which inputs.

        Parameters
        ----------
        indexes : int32 (rows, 3), output indexes
        available : bool (rows, choices), whether each of ``input_indexes(indexes)`` is available

        Returns
        -------
        computable : bool (rows,)
        used : bool (rows, choices), meaningful where computable
        """
        return np.asarray(available.all(axis=1)), available

    def reorder_indexes(self, inputs: np.ndarray, outputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return input and output indexes in the order that the component needs, perhaps with padding (t = NO_TIME).

        Arguments and results are int32 (rows, 3).
        """
        return inputs, outputs

    def precompute_indexes(self, inputs: np.ndarray, outputs: np.ndarray, need_backprop: bool) -> Precomputed:
        """Return the data that ``propagate`` derives from the row indexes, int32 (rows, 3); None for simple components.
        """
        return None

    def check_precomputed(self, indexes: Precomputed, x: DeviceArray, y: DeviceArray, need_backprop: bool) -> None:
        """Raise ShapeError unless precomputed indexes from a file fit the shapes of input ``x`` and output ``y``."""

    @property
    def copies_its_input(self) -> bool:
        """True if ``propagate`` only copies with the current settings; the compiler may then leave the component out.
        """
        return False

    # -- for the executor ------------------------------------------------------------------------------------------

    def new_memo(self, ops: Memory, num_rows: int) -> Memo:
        """Return memory that ``propagate`` fills for ``backprop``, made once for a command; None without USES_MEMO.

        Only ``ops.new_vector`` is called, so that a caller can pass an object that allocates in another way.
        """
        return None

    def propagate(self, ops: Ops, indexes: Precomputed, x: DeviceArray, y: DeviceArray, memo: Memo) -> None:
        """Compute ``y`` (rows, output_dim) from ``x`` (rows, input_dim), or add to ``y`` with PROPAGATE_ADDS."""
        raise NotImplementedError

    def backprop(self, ops: Ops, indexes: Precomputed, x: DeviceArray, y: DeviceArray, dy: DeviceArray, memo: Memo,
                 update: Component | None, dx: DeviceArray | None) -> None:
        """Compute the derivative ``dx`` from ``dy``, and update the parameters and statistics of ``update``.

        ``x`` and ``y`` are None unless the flags ask for them, ``dx`` if it is not needed, ``update`` if nothing is to
        be updated. ``dx`` is set, or added to with BACKPROP_ADDS, and uses the parameters before the update.
        """
        raise NotImplementedError

    def store_stats(self, ops: Ops, x: DeviceArray, y: DeviceArray, memo: Memo) -> None:
        """Accumulate statistics of one forward pass; ``x`` is None when the propagation was in place."""

    # -- for the trainer -------------------------------------------------------------------------------------------

    def parameters(self) -> dict[str, NDArray[np.float32]]:
        """Return the trainable parameters as views of the component's: name -> float32 (rows, cols) or (dim,)."""
        return {name: getattr(self, name) for name in self.PARAMETERS if getattr(self, name) is not None}

    def __getitem__(self, name: str) -> NDArray[np.float32]:
        """Return an array of :meth:`parameters` by name: ``nnet["affine1"]["bias_params"]``.

        Raises
        ------
        Nnet3Error : a name that no parameter has
        """
        arrays = self.parameters()
        if name not in arrays:
            raise Nnet3Error(f"{type(self).__name__} has no parameters {name!r}",
                             f"it has {', '.join(arrays)}" if arrays else "it has no trainable parameters")
        return arrays[name]

    def num_parameters(self) -> int:
        """Return the number of trainable parameters."""
        return sum(value.size for value in self.parameters().values())

    def zero_stats(self) -> None:
        """Set all statistics to zero, in place."""
        for name in self.STATISTICS:
            getattr(self, name)[...] = 0

    def scale(self, factor: float) -> None:
        """Multiply parameters and statistics by ``factor``, in place; 0 makes exact zeros, even of NaN."""
        for value in self._scalable():
            if factor == 0.0:
                value[...] = 0
            else:
                value *= value.dtype.type(factor)

    def add(self, alpha: float, other: Component) -> None:
        """Add ``alpha`` times the parameters and statistics of ``other`` (of the same type), in place."""
        for mine, theirs in zip(self._scalable(), other._scalable(), strict=True):
            mine += mine.dtype.type(alpha) * theirs

    def _scalable(self) -> list[np.ndarray]:
        return [*self.parameters().values(), *(getattr(self, name) for name in self.STATISTICS)]

    def copy(self) -> Component:
        """Return a deep copy, including the state of natural gradient."""
        return copy.deepcopy(self)

    # -- files and text --------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        arrays = ", ".join(f"{name} {' x '.join(map(str, value.shape))}" for name, value in self.parameters().items())
        return f"<{type(self).__name__} {self.input_dim} -> {self.output_dim}{arrays and ': ' + arrays}>"

    @classmethod
    def from_config(cls, line: ConfigLine, rng: np.random.Generator) -> Component:
        """Make a component from its config line; ``name`` and ``type`` have been read already."""
        raise NotImplementedError

    def info(self, verbose: int = 0) -> str:
        """Return the text after ``type=`` in ``nnet3-info``'s line for this component."""
        return type(self).__name__ + fields_info(self, self.FIELDS, self.INFO, verbose)


class Components(Protocol):
    """Interface of objects with a list of components: a network, or its parameter store on a device."""

    @property
    def components(self) -> Sequence[Component]:
        """Components in the order of the model file."""

    @property
    def component_names(self) -> Sequence[str]:
        """Name of each component."""


def with_children(components: Iterable[Component]) -> Iterator[Component]:
    """Yield each component, followed by its children."""
    for component in components:
        yield component
        yield from with_children(component.children)


class SameDimComponent(Component):
    """Component with as many output columns as input columns, ``dim``."""

    dim: int

    @property
    def input_dim(self) -> int:
        return self.dim

    @property
    def output_dim(self) -> int:
        return self.dim
