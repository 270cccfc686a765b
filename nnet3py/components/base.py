"""What every component is: its contract with files, compiler, executor and trainer.

A component holds numpy arrays and settings. It never imports ``ops``: the caller hands it an ``ops`` object (the
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
from nnet3py.shown import Shown

if TYPE_CHECKING:
    from nnet3py.config_line import ConfigLine
    from nnet3py.ops.arrays import DeviceArray
    from nnet3py.ops.table import Memory, Ops


# What a component makes and later gets back: only its own type looks inside.
Precomputed: TypeAlias = Any        # by ``precompute_indexes``, for ``propagate`` and ``backprop``
Memo: TypeAlias = Any               # by ``new_memo``; ``propagate`` fills it for ``backprop``


class Properties(IntFlag):
    """What a component requires of the compiler; the values are Kaldi's."""

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
    """The error for precomputed indexes, of ``what``, that do not fit input ``x`` and output ``y``."""
    return ShapeError(f"{what} from {x.shape[0]} x {x.shape[1]} inputs to {y.shape[0]} x {y.shape[1]} outputs was "
                      "compiled for other dimensions", "compile the request again")


_ELSEWHERE = elsewhere(**{
    "name": "its network knows: for name, component in nnet.named_components()",
    "type kind layer_type": "type(component).__name__",
    "shape dim size in_features out_features input_size output_size": "component.input_dim, component.output_dim",
    "requires_grad requires_grad_ trainable": "nnet3py.freeze(nnet, 'affine1'), nnet3py.unfreeze(nnet, 'affine1')",
    "forward output values activations": "nnet(feats, output='affine1') gives the values of a node",
    "grad": "nnet3py.gradients(nnet, feats, targets=classes).nnet['affine1'].parameters()",
})
_ARRAYS = ("weight", "weights", "bias", "biases", "params", "state_dict", "named_parameters", "get_weights", "w", "b")


class Component(InFiles, Advising, Shown):
    """One layer's function. Subclasses are named as in Kaldi, and ``type(c).__name__`` is the type in files.

    Array attributes that outlive a minibatch are declared by name: ``PARAMETERS`` (float32, trained),
    ``STATISTICS`` (float64 sums). ``scale``, ``add``, ``zero_stats`` and ``parameters`` follow from those lists.
    ``CONSTANTS`` names arrays that kernels read and training leaves alone.
    ``FIELDS`` declares the fields of model files in order: ``read``, ``write`` and ``info`` follow from it.
    ``INFO`` gives the order of the information text, if that differs or contains more (``fields_info``).
    """

    PARAMETERS: ClassVar[tuple[str, ...]] = ()
    STATISTICS: ClassVar[tuple[str, ...]] = ()
    CONSTANTS: ClassVar[tuple[str, ...]] = ()
    INFO: ClassVar[tuple[str, ...]] = ()
    children: Sequence[Component] = ()      # the components inside, of a CompositeComponent; they hold its arrays

    _ELSEWHERE = _ELSEWHERE

    def _advice(self, name: str) -> str | None:
        """What to type instead of an attribute, or None."""
        if name in _ARRAYS and (arrays := self.parameters()):
            return f"component.parameters() has {', '.join(arrays)}: component[{next(iter(arrays))!r}]"
        return super()._advice(name)

    # -- what the compiler asks ------------------------------------------------------------------------------------

    @property
    def properties(self) -> Properties:
        """The flags, which may depend on the configuration (block dims, test mode)."""
        raise NotImplementedError

    @property
    def input_dim(self) -> int:
        """Columns of the input matrix."""
        raise NotImplementedError

    @property
    def output_dim(self) -> int:
        """Columns of the output matrix."""
        raise NotImplementedError

    def has(self, flag: Properties) -> bool:
        """True if the component has the property ``flag``."""
        return bool(self.properties & flag)

    def input_indexes(self, indexes: np.ndarray) -> np.ndarray:
        """Input indexes that each output index may use: int32 (rows, 3) -> int32 (rows, choices, 3).

        Kaldi: GetInputIndexes. A choice that does not exist has t = NO_TIME.
        """
        return indexes[:, None, :]

    def input_shifts(self) -> list[int] | None:
        """The shifts in t of its choices, if ``input_indexes`` only shifts every index in t; else None."""
        return None

    def is_computable(self, indexes: np.ndarray, available: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Which output indexes can be computed, and which inputs they then use.

        Parameters
        ----------
        indexes : int32 (rows, 3), the output indexes
        available : bool (rows, choices), which of ``input_indexes(indexes)`` are available

        Returns
        -------
        computable : bool (rows,)
        used : bool (rows, choices), meaningful where computable
        """
        return np.asarray(available.all(axis=1)), available

    def reorder_indexes(self, inputs: np.ndarray, outputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The order (and padding, t = NO_TIME) in which the component wants its input and output rows.

        Both are int32 (rows, 3), as are the results.
        """
        return inputs, outputs

    def precompute_indexes(self, inputs: np.ndarray, outputs: np.ndarray, need_backprop: bool) -> Precomputed:
        """What ``propagate`` needs to know about the row indexes, int32 (rows, 3); None for simple components."""
        return None

    def check_precomputed(self, indexes: Precomputed, x: DeviceArray, y: DeviceArray, need_backprop: bool) -> None:
        """Raise ShapeError unless ``indexes``, precomputed and then read from a file, fit input ``x`` and output ``y``.

        Only the shapes of the matrices are looked at. For components with ``precompute_indexes``.
        """

    @property
    def copies_its_input(self) -> bool:
        """True if ``propagate`` only copies, with the current settings, so that the compiler may leave it out."""
        return False

    # -- what the executor asks ------------------------------------------------------------------------------------

    def new_memo(self, ops: Memory, num_rows: int) -> Memo:
        """Storage that ``propagate`` fills for ``backprop`` (only with USES_MEMO); made when a command is bound.

        It calls only ``new_vector`` of ``ops``, so that a caller can provide memory that it has already.
        """
        return None

    def propagate(self, ops: Ops, indexes: Precomputed, x: DeviceArray, y: DeviceArray, memo: Memo) -> None:
        """Compute ``y`` (rows, output_dim) from ``x`` (rows, input_dim); adds to ``y`` with PROPAGATE_ADDS."""
        raise NotImplementedError

    def backprop(self, ops: Ops, indexes: Precomputed, x: DeviceArray, y: DeviceArray, dy: DeviceArray, memo: Memo,
                 update: Component | None, dx: DeviceArray | None) -> None:
        """Compute the derivative ``dx`` from ``dy``, and update ``update``'s parameters and statistics.

        ``x`` and ``y`` are None unless the flags ask for them; ``dx`` is None if it is not needed; ``update`` is
        None if nothing is to be updated. ``dx`` is set, or added to with BACKPROP_ADDS, and is formed with the
        parameters as they are before the update.
        """
        raise NotImplementedError

    def store_stats(self, ops: Ops, x: DeviceArray, y: DeviceArray, memo: Memo) -> None:
        """Accumulate statistics of one forward pass; ``x`` is None when the propagation was in place."""

    # -- what the trainer asks -------------------------------------------------------------------------------------

    def parameters(self) -> dict[str, NDArray[np.float32]]:
        """What training changes, name -> float32 (rows, cols) or (dim,). Views: editing them edits the component."""
        return {name: getattr(self, name) for name in self.PARAMETERS if getattr(self, name) is not None}

    def __getitem__(self, name: str) -> NDArray[np.float32]:
        """One of :meth:`parameters` by its name: ``nnet["affine1"]["bias_params"]``. Nnet3Error if it has none such."""
        arrays = self.parameters()
        if name not in arrays:
            raise Nnet3Error(f"{type(self).__name__} has no parameters {name!r}",
                             f"it has {', '.join(arrays)}" if arrays else "training changes nothing of it")
        return arrays[name]

    def num_parameters(self) -> int:
        """How many numbers training changes."""
        return sum(value.size for value in self.parameters().values())

    def zero_stats(self) -> None:
        """Set every statistic to zero, in place."""
        for name in self.STATISTICS:
            getattr(self, name)[...] = 0

    def scale(self, factor: float) -> None:
        """Multiply parameters and statistics by ``factor``, in place; with 0 even NaN becomes exactly 0."""
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
        """A deep copy, including the state of natural gradient."""
        return copy.deepcopy(self)

    # -- files and text --------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        arrays = ", ".join(f"{name} {' x '.join(map(str, value.shape))}" for name, value in self.parameters().items())
        return f"<{type(self).__name__} {self.input_dim} -> {self.output_dim}{arrays and ': ' + arrays}>"

    @classmethod
    def from_config(cls, line: ConfigLine, rng: np.random.Generator) -> Component:
        """Make a component from its config line, consuming its keys; ``name`` and ``type`` are consumed already."""
        raise NotImplementedError

    def info(self, verbose: int = 0) -> str:
        """The text after ``type=`` in ``nnet3-info``'s line for this component."""
        return type(self).__name__ + fields_info(self, self.FIELDS, self.INFO, verbose)


class Components(Protocol):
    """Anything with components: a network, or its parameter store on a device."""

    @property
    def components(self) -> Sequence[Component]:
        """All of them, in the order of the file."""

    @property
    def component_names(self) -> Sequence[str]:
        """Their names."""


def with_children(components: Iterable[Component]) -> Iterator[Component]:
    """Components, each followed by those inside it."""
    for component in components:
        yield component
        yield from with_children(component.children)


class SameDimComponent(Component):
    """A component whose output has as many columns as its input: ``dim``."""

    dim: int

    @property
    def input_dim(self) -> int:
        return self.dim

    @property
    def output_dim(self) -> int:
        return self.dim
