"""The arrays of a network in device memory: one :class:`ParameterStore` for a network and a device.

The store has copies of all arrays that kernels read or write: those that components declare as ``PARAMETERS`` and
``STATISTICS``, which lie side by side in one vector each, and ``CONSTANTS``. Its components are copies of the
network's with views of these in place of arrays. All else is the network's, on the host:

- **settings** (learning rates, proportions, test modes) go from the host to the store's components before each run
  (:meth:`ParameterStore.take_settings`), never back: components change none while they run;
- **the state of natural gradient**, and marks of stored statistics, are objects that both share;
- **arrays** are not watched: after changing one on the host call :meth:`ParameterStore.push`, and before reading
  one that the device has changed call :meth:`ParameterStore.pull`. Trainers and ``Computer`` do so for their callers;
- **the structure**: a store of an older version is invalid, and computations bound to it refuse to run.
"""
from __future__ import annotations

import copy
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from nnet3py.components.base import Component
from nnet3py.network.nnet import Nnet

if TYPE_CHECKING:
    from nnet3py.ops.arrays import DeviceArray
    from nnet3py.ops.cuda.graphs import Replays
    from nnet3py.ops.table import Ops

ALIGNMENT = 64          # elements; each array begins at a multiple, so that wide loads are possible


@dataclass
class _StoreComponent:
    """A component of the store, with that of the network.

    Attributes
    ----------
    own : attributes of the store's component that differ: arrays of the device, and children of a composite
    """

    host: Component
    here: Component
    own: dict[str, Any] = field(default_factory=dict)

    def take_settings(self) -> None:
        """Copy all attributes from the host except the store's own."""
        attributes = vars(self.here)
        attributes.update(vars(self.host))
        attributes.update(self.own)


def _store_components(host: Component) -> list[_StoreComponent]:
    """Return a component, and those inside it, without device arrays so far; the outer one is first."""
    outer = _StoreComponent(host, copy.copy(host))
    inner = [_store_components(child) for child in host.children]
    if inner:
        outer.own["children"] = [placed[0].here for placed in inner]
    return [outer, *(placed for group in inner for placed in group)]


def _array_holders(group: Sequence[_StoreComponent]) -> Iterator[_StoreComponent]:
    """Return the components that hold arrays: those without children."""
    return (placed for placed in group if not placed.host.children)


class _DeviceNumbers:
    """Numbers of the host in device memory, copied only when they have changed."""

    def __init__(self, ops: Ops, size: int, dtype: type[np.floating]) -> None:
        self._ops, self.vector, self._on_device_now = ops, ops.new_vector(size, dtype), np.zeros(0)

    def on_device(self, numbers: np.ndarray) -> DeviceArray:
        """Return the device's vector, float (size,), after making it hold these numbers."""
        if not np.array_equal(numbers, self._on_device_now, equal_nan=True):
            self._ops.copy_in(self.vector, numbers)
            self._on_device_now = numbers.copy()
        return self.vector


class _ArrayVector:
    """The arrays of one kind of all components, side by side in a device vector."""

    def __init__(self, ops: Ops, groups: Sequence[Sequence[_StoreComponent]], declared: str,
                 dtype: type[np.floating]) -> None:
        from nnet3py.ops.cuda.store import Segments

        self._ops, self._places, starts, size = ops, [], [0], 0
        for group in groups:
            for placed in _array_holders(group):
                for name in getattr(placed.host, declared):
                    array = getattr(placed.host, name)
                    if array is not None:
                        assert array.dtype == dtype, f"{type(placed.host).__name__}.{name} is {array.dtype}"
                        self._places.append((placed, name, size))
                        size += -(-array.size // ALIGNMENT) * ALIGNMENT
            starts.append(size)
        self.segments = Segments(ops.new_vector(size, dtype), np.array(starts))
        self._factors = _DeviceNumbers(ops, len(groups), dtype)
        # Factors that the device itself computes: of an addition, and of the change that remains.
        self.decided = ops.new_vector(len(groups), dtype), ops.new_vector(len(groups), dtype)
        for placed, name, start in self._places:
            array = getattr(placed.host, name)
            placed.own[name] = self.segments.values[start:start + array.size].reshape(*array.shape)

    def factors(self, factors: np.ndarray) -> DeviceArray:
        """Return factors of the components in device memory, of the arrays' type, in float32 precision as on the host.
        """
        return self._factors.on_device(np.asarray(factors, np.float32))

    def push(self) -> None:
        """Copy the host's arrays to the device."""
        packed = np.zeros(self.segments.values.size, self.segments.values.dtype)
        for placed, name, start in self._places:
            array = getattr(placed.host, name)
            packed[start:start + array.size] = array.ravel()
        self._ops.copy_in(self.segments.values, packed)

    def pull(self) -> None:
        """Copy the device's arrays into the host's, in place."""
        packed = self._ops.copy_out(self.segments.values)
        for placed, name, start in self._places:
            array = getattr(placed.host, name)
            array[...] = packed[start:start + array.size].reshape(array.shape)


class ParameterStore:
    """The part of a network that is on a device; made by :func:`on_device`.

    Attributes
    ----------
    host : the network
    components : one for each of the network's, in its order; they compute with the device's arrays
    """

    def __init__(self, host: Nnet, ops: Ops) -> None:
        self.host, self.ops, self._version = host, ops, host.version
        self._groups = [_store_components(component) for component in host.components]
        self.components: list[Component] = [group[0].here for group in self._groups]
        self._parameters = _ArrayVector(ops, self._groups, "PARAMETERS", np.float32)
        self._statistics = _ArrayVector(ops, self._groups, "STATISTICS", np.float64)
        self._arrays = self._parameters, self._statistics
        self._limits = _DeviceNumbers(ops, len(self.components), np.float64)
        self._applied = ops.new_vector(len(self.components) + 1, np.float64)
        self._changed_by: ParameterStore | None = None
        self._additions: Replays | None = None      # captured launches of ``add_limited``
        self.push()

    @property
    def version(self) -> int:
        """The network's version."""
        return self.host.version

    @property
    def component_names(self) -> list[str]:
        """The network's component names."""
        return self.host.component_names

    def fits(self, nnet: Nnet, ops: Ops) -> bool:
        """Return whether this is the store of the network, in its current version, for these operations."""
        return self.host is nnet and self._version == nnet.version and self.ops is ops

    # -- host and device ---------------------------------------------------------------------------------------------

    def push(self) -> None:
        """Copy all arrays from the host to the device, and take its settings."""
        for arrays in self._arrays:
            arrays.push()
        for group in self._groups:
            for placed in _array_holders(group):
                for name in placed.host.CONSTANTS:
                    value = getattr(placed.host, name)
                    placed.own[name] = None if value is None else self.ops.upload(np.ascontiguousarray(value))
        self.take_settings()

    def pull(self) -> None:
        """Copy parameters and statistics from the device into the host's arrays, in place."""
        for arrays in self._arrays:
            arrays.pull()

    def take_settings(self) -> None:
        """Copy the host's settings to the store's components."""
        for group in self._groups:
            for placed in group:
                placed.take_settings()

    # -- arithmetic on components --------------------------------------------------------------------------------------

    def scale_components(self, factors: np.ndarray) -> None:
        """Scale the components as :meth:`Nnet.scale_components`, but keep fractions of counts, which Kaldi cuts off."""
        for arrays in self._arrays:
            arrays.segments.scale(arrays.factors(factors))

    def add_components(self, factors: np.ndarray, other: ParameterStore) -> None:
        """Add components as :meth:`Nnet.add_components`, but keep fractions of counts, which Kaldi cuts off."""
        for arrays, theirs in zip(self._arrays, other._arrays, strict=True):
            arrays.segments.add(arrays.factors(factors), theirs.segments)
        self._merge_marks(other, factors != 0.0)

    def add_limited(self, change: ParameterStore, limits: np.ndarray, global_limit: float, scale: float,
                    momentum: float) -> Callable[[], np.ndarray]:
        """Add ``scale`` times a change within limits, then multiply the change with ``momentum``, without waiting.

        Parameters
        ----------
        limits : float64, of each component; 0 for none, NaN for one that is not trained and does not change

        Returns
        -------
        A function that waits for the factors, see ``max_change.limiting_factors``.
        """
        from nnet3py.ops.cuda.graphs import Replays

        if self._additions is None or change is not self._changed_by:    # captured launches hold its arrays' addresses
            self._changed_by, self._additions = change, Replays()
        self._limits.on_device(limits)
        settings = global_limit, scale, momentum
        self._additions.run(settings, lambda: self._queue_addition(change, *settings))
        self._merge_marks(change, ~np.isnan(limits))
        return self.ops.read_later(self._applied)

    def _queue_addition(self, change: ParameterStore, global_limit: float, scale: float, momentum: float) -> None:
        from nnet3py.ops.cuda.store import limit_changes

        parameters = change._parameters.segments
        limit_changes(self._applied, *(vector for arrays in self._arrays for vector in arrays.decided),
                      parameters.queue_dot_products(parameters), self._limits.vector, global_limit, scale, momentum)
        for arrays, theirs in zip(self._arrays, change._arrays, strict=True):
            factors, remaining = arrays.decided
            arrays.segments.add(factors, theirs.segments)
            theirs.segments.scale(remaining)

    def _merge_marks(self, other: ParameterStore, added: np.ndarray) -> None:
        """Mark as stored in each sum the statistics stored in either component, where the second was ``added``."""
        for c in np.flatnonzero(added):
            for mine, theirs in zip(self._groups[c], other._groups[c], strict=True):
                if hasattr(mine.host, "stored"):
                    mine.host.stored |= theirs.host.stored    # type: ignore[attr-defined]


_stores: weakref.WeakKeyDictionary[Nnet, weakref.ref[ParameterStore]] = weakref.WeakKeyDictionary()


def on_device(nnet: Nnet | ParameterStore, ops: Ops) -> Nnet | ParameterStore:
    """Return the owner of components for the operations of a device: the network on the CPU, else its store.

    A store serves everything bound to the network, as long as anything is; after structural edits there is a new one.
    """
    if ops.device == "cpu" or isinstance(nnet, ParameterStore):
        return nnet
    reference = _stores.get(nnet)
    store = reference() if reference is not None else None
    if store is None or not store.fits(nnet, ops):
        store = ParameterStore(nnet, ops)
        _stores[nnet] = weakref.ref(store)
    return store


def host_of(nnet: Nnet | ParameterStore) -> Nnet:
    """Return the network on the host."""
    return nnet.host if isinstance(nnet, ParameterStore) else nnet
