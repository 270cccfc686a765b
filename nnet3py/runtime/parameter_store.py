"""Storage of a network's arrays for the operations of a device: a :class:`ParameterStore` for each network and device.

Bound computations use the components of a network's store, and trainers change parameters through the store, so that
neither depends on the device. On the CPU a :class:`HostStore` is the network itself. A
:class:`DeviceStore` has copies, in device memory, of all arrays that kernels read or write: those that components
declare as ``PARAMETERS`` and ``STATISTICS``, which lie side by side in one vector each, and ``CONSTANTS``. Its
components are copies of the network's with views of these vectors in place of arrays. Everything else is on the host:

- **settings** (learning rates, proportions, test modes) are copied from the host to the store's components before each
  run (:meth:`ParameterStore.take_settings`), never back: components do not change settings while they run;
- **the state of natural gradient**, and the arrays ``stored``, which mark statistics in use, are shared by both;
- **arrays** are not watched: after changing one on the host call :meth:`ParameterStore.push`, and before reading
  what the device has changed call :meth:`ParameterStore.pull`. Trainers and ``Computer`` do so for their callers;
- **the structure**: a store of an older version is invalid, and what was bound to it refuses to run;
- **results** that the host need not wait for are processed by functions given to :meth:`ParameterStore.when_done`.
"""
from __future__ import annotations

import copy
import math
import weakref
from abc import ABC, abstractmethod
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
class _Placed:
    """A component of the store, and the network's component that it is a copy of.

    Attributes
    ----------
    own : attributes of the store's component that differ from the network's: device arrays, and children of a composite
    """

    host: Component
    here: Component
    own: dict[str, Any] = field(default_factory=dict)

    def take_settings(self) -> None:
        """Copy all attributes except ``own`` from the network's component."""
        attributes = vars(self.here)
        attributes.update(vars(self.host))
        attributes.update(self.own)


def _placed(host: Component) -> list[_Placed]:
    """Copy a component, and its children after it, for the store; arrays are still those of the host."""
    outer = _Placed(host, copy.copy(host))
    inner = [_placed(child) for child in host.children]
    if inner:
        outer.own["children"] = [placed[0].here for placed in inner]
    return [outer, *(placed for group in inner for placed in group)]


def _leaves(group: Sequence[_Placed]) -> Iterator[_Placed]:
    """Yield the components without children, which are those that hold arrays."""
    return (placed for placed in group if not placed.host.children)


class _Numbers:
    """A vector in device memory that is copied from the host only when its numbers have changed."""

    def __init__(self, ops: Ops, size: int, dtype: type[np.floating]) -> None:
        self._ops, self.vector, self._known = ops, ops.new_vector(size, dtype), np.zeros(0)

    def on_device(self, numbers: np.ndarray) -> DeviceArray:
        """Copy ``numbers``, float (size,), to the device if they have changed; returns the device's vector."""
        if not np.array_equal(numbers, self._known, equal_nan=True):
            self._ops.copy_in(self.vector, numbers)
            self._known = numbers.copy()
        return self.vector


class _Arrays:
    """The arrays of one kind (``PARAMETERS`` or ``STATISTICS``) of all components, joined in one device vector."""

    def __init__(self, ops: Ops, groups: Sequence[Sequence[_Placed]], declared: str, dtype: type[np.floating]) -> None:
        from nnet3py.ops.cuda.store import Segments

        self._ops, self._places, starts, size = ops, [], [0], 0
        for group in groups:
            for placed in _leaves(group):
                for name in getattr(placed.host, declared):
                    array = getattr(placed.host, name)
                    if array is not None:
                        assert array.dtype == dtype, f"{type(placed.host).__name__}.{name} is {array.dtype}"
                        self._places.append((placed, name, size))
                        size += -(-array.size // ALIGNMENT) * ALIGNMENT
            starts.append(size)
        self.segments = Segments(ops.new_vector(size, dtype), np.array(starts))
        self._factors = _Numbers(ops, len(groups), dtype)
        self.decided = ops.new_vector(len(groups), dtype), ops.new_vector(len(groups), dtype)    # by the device itself
        for placed, name, start in self._places:
            array = getattr(placed.host, name)
            placed.own[name] = self.segments.values[start:start + array.size].reshape(*array.shape)

    def factors(self, factors: np.ndarray) -> DeviceArray:
        """Copy a factor for each component to the device, in the arrays' type, rounded to float32 as on the host."""
        return self._factors.on_device(np.asarray(factors, np.float32))

    def push(self) -> None:
        """Copy the host's arrays to the device."""
        packed = np.zeros(self.segments.values.size, self.segments.values.dtype)
        for placed, name, start in self._places:
            array = getattr(placed.host, name)
            packed[start:start + array.size] = array.ravel()
        self._ops.copy_in(self.segments.values, packed)

    def pull(self) -> None:
        """Copy the device's arrays to the host's, in place."""
        packed = self._ops.copy_out(self.segments.values)
        for placed, name, start in self._places:
            array = getattr(placed.host, name)
            array[...] = packed[start:start + array.size].reshape(array.shape)


def limiting_factors(squares: np.ndarray, limits: np.ndarray, global_limit: float, scale: float) -> np.ndarray:
    """Return the factors that keep a change of parameters within limits on its 2-norm.

    Kaldi: ``UpdateNnetWithMaxChange``. ``ops/cuda/store.py`` has the same for devices (``limit_changes``).

    Parameters
    ----------
    squares : float64 (components,), the sum of squares of each component's change
    limits : float64 (components,), the limit of each component's change times ``scale``; 0: no limit, NaN: the
        component is not trained
    global_limit : the limit of the whole change times ``scale``, after the components' limits; 0: no limit
    scale : the factor by which the change will be multiplied, 0 or more

    Returns
    -------
    float64 (components + 1,) : a factor for each component, 0 for one that is not trained, then the factor of the
    whole change, NaN if the change is infinite
    """
    sizes = np.sqrt(squares) * scale
    with np.errstate(invalid="ignore", divide="ignore"):
        factors = np.where((limits != 0.0) & (sizes > limits), limits / sizes, 1.0)
        factors[np.isnan(limits)] = 0.0
        size = scale * math.sqrt((factors * factors * squares).sum())
    global_factor = 1.0
    if global_limit != 0.0 and size > global_limit:      # a NaN size passes, as in Kaldi
        global_factor = math.nan if math.isinf(size) else global_limit / size
    return np.append(factors, global_factor)


class ParameterStore(ABC):
    """The components of a network for the operations of a device; made by :func:`on_device`.

    Attributes
    ----------
    host : the network
    """

    def __init__(self, host: Nnet) -> None:
        self.host = host
        self._reports: list[Callable[[], object]] = []

    @property
    @abstractmethod
    def components(self) -> list[Component]:
        """Components with the device's arrays, one for each of the network's, in its order."""

    @property
    def version(self) -> int:
        """The version of the network, which increases with structural edits."""
        return self.host.version

    @property
    def component_names(self) -> list[str]:
        """The names of the network's components."""
        return self.host.component_names

    @abstractmethod
    def push(self) -> None:
        """Copy all arrays and settings from the host to the device."""

    @abstractmethod
    def pull(self) -> None:
        """Copy parameters and statistics from the device to the host's arrays, in place."""

    @abstractmethod
    def take_settings(self) -> None:
        """Copy the settings of the host's components to the store's."""

    @abstractmethod
    def scale_components(self, factors: np.ndarray) -> None:
        """Multiply parameters and statistics of each component by its factor, float (components,), in place."""

    @abstractmethod
    def add_components(self, factors: np.ndarray, other: ParameterStore) -> None:
        """Add the components of another store of this device times ``factors``, float (components,), in place."""

    @abstractmethod
    def add_limited(self, change: ParameterStore, limits: np.ndarray, global_limit: float, scale: float,
                    momentum: float) -> Callable[[], np.ndarray]:
        """Add ``scale`` times ``change`` within limits, then multiply ``change`` by ``momentum``; do not wait for it.

        Parameters
        ----------
        change : a store of this device; components that are not trained are not changed
        limits, global_limit : as for :func:`limiting_factors`
        momentum : the factor that ``change`` is then multiplied by; an infinite change is not added, and becomes 0

        Returns
        -------
        A function that waits for the device and returns what :func:`limiting_factors` does.
        """

    def when_done(self, report: Callable[[], object]) -> None:
        """Keep the function ``report`` for :meth:`run_reports`; on the CPU, call it at once."""
        self._reports.append(report)

    def num_reports(self) -> int:
        """Return the number of functions kept by :meth:`when_done`."""
        return len(self._reports)

    def run_reports(self, count: int | None = None) -> None:
        """Call the kept functions, or the ``count`` oldest, each once."""
        count = len(self._reports) if count is None else count
        reports, self._reports = self._reports[:count], self._reports[count:]
        for report in reports:
            report()


class HostStore(ParameterStore):
    """The store of a network on the CPU: the network's own components and arrays."""

    @property
    def components(self) -> list[Component]:
        return self.host.components

    def push(self) -> None:
        pass

    def pull(self) -> None:
        pass

    def take_settings(self) -> None:
        pass

    def scale_components(self, factors: np.ndarray) -> None:
        self.host.scale_components(factors)

    def add_components(self, factors: np.ndarray, other: ParameterStore) -> None:
        self.host.add_components(factors, other.host)

    def add_limited(self, change: ParameterStore, limits: np.ndarray, global_limit: float, scale: float,
                    momentum: float) -> Callable[[], np.ndarray]:
        factors = limiting_factors(change.host.squares(), limits, global_limit, abs(scale))
        is_finite = not math.isnan(factors[-1])
        if is_finite:
            self.host.add_components(factors[:-1] * scale * factors[-1], change.host)
        change.host.scale_components(np.where(np.isnan(limits), 1.0, momentum if is_finite else 0.0))
        return lambda: factors

    def when_done(self, report: Callable[[], object]) -> None:
        report()


class DeviceStore(ParameterStore):
    """The store of a network on a GPU, with copies of its arrays in device memory."""

    def __init__(self, host: Nnet, ops: Ops) -> None:
        super().__init__(host)
        self.ops, self._version = ops, host.version
        self._groups = [_placed(component) for component in host.components]
        self._components = [group[0].here for group in self._groups]
        self._parameters = _Arrays(ops, self._groups, "PARAMETERS", np.float32)
        self._statistics = _Arrays(ops, self._groups, "STATISTICS", np.float64)
        self._arrays = self._parameters, self._statistics
        self._limits = _Numbers(ops, len(self.components), np.float64)
        self._applied = ops.new_vector(len(self.components) + 1, np.float64)
        self._changed_by: ParameterStore | None = None
        self._additions: Replays | None = None      # captured launches of ``add_limited``
        self.push()

    @property
    def components(self) -> list[Component]:
        return self._components

    def fits(self, nnet: Nnet, ops: Ops) -> bool:
        """Return whether the store is of this network, in its current version, for these operations."""
        return self.host is nnet and self._version == nnet.version and self.ops is ops

    # -- host and device ---------------------------------------------------------------------------------------------

    def push(self) -> None:
        for arrays in self._arrays:
            arrays.push()
        for group in self._groups:
            for placed in _leaves(group):
                for name in placed.host.CONSTANTS:
                    value = getattr(placed.host, name)
                    placed.own[name] = None if value is None else self.ops.upload(np.ascontiguousarray(value))
        self.take_settings()

    def pull(self) -> None:
        for arrays in self._arrays:
            arrays.pull()

    def take_settings(self) -> None:
        for group in self._groups:
            for placed in group:
                placed.take_settings()

    # -- arithmetic on components --------------------------------------------------------------------------------------

    def scale_components(self, factors: np.ndarray) -> None:
        """Scale as :meth:`Nnet.scale_components` does, but keep fractions of counts, which Kaldi cuts off."""
        for arrays in self._arrays:
            arrays.segments.scale(arrays.factors(factors))

    def add_components(self, factors: np.ndarray, other: ParameterStore) -> None:
        """Add as :meth:`Nnet.add_components` does, but keep fractions of counts, which Kaldi cuts off."""
        assert isinstance(other, DeviceStore)
        for arrays, theirs in zip(self._arrays, other._arrays, strict=True):
            arrays.segments.add(arrays.factors(factors), theirs.segments)
        self._merge_marks(other, factors != 0.0)

    def add_limited(self, change: ParameterStore, limits: np.ndarray, global_limit: float, scale: float,
                    momentum: float) -> Callable[[], np.ndarray]:
        assert isinstance(change, DeviceStore)
        from nnet3py.ops.cuda.graphs import Replays

        if self._additions is None or change is not self._changed_by:    # captured launches hold its arrays' addresses
            self._changed_by, self._additions = change, Replays()
        self._limits.on_device(limits)
        settings = global_limit, scale, momentum
        self._additions.run(settings, lambda: self._queue_addition(change, *settings))
        self._merge_marks(change, ~np.isnan(limits))
        return self.ops.read_later(self._applied)

    def _queue_addition(self, change: DeviceStore, global_limit: float, scale: float, momentum: float) -> None:
        from nnet3py.ops.cuda.store import limit_changes

        parameters = change._parameters.segments
        limit_changes(self._applied, *(vector for arrays in self._arrays for vector in arrays.decided),
                      parameters.queue_dot_products(parameters), self._limits.vector, global_limit, scale, momentum)
        for arrays, theirs in zip(self._arrays, change._arrays, strict=True):
            factors, remaining = arrays.decided
            arrays.segments.add(factors, theirs.segments)
            theirs.segments.scale(remaining)

    def _merge_marks(self, other: DeviceStore, added: np.ndarray) -> None:
        """Mark statistics as stored if they are in either component, for the components that were ``added``."""
        for c in np.flatnonzero(added):
            for mine, theirs in zip(self._groups[c], other._groups[c], strict=True):
                if hasattr(mine.host, "stored"):
                    mine.host.stored |= theirs.host.stored    # type: ignore[attr-defined]


_made: weakref.WeakKeyDictionary[Nnet, weakref.ref[DeviceStore]] = weakref.WeakKeyDictionary()


def on_device(nnet: Nnet | ParameterStore, ops: Ops) -> ParameterStore:
    """Return the store of a network for the operations of a device; a store is returned unchanged.

    On a GPU all computations bound to the network share one store, which is freed with the last of them; after
    structural edits a new one is made.
    """
    if isinstance(nnet, ParameterStore):
        return nnet
    if ops.device == "cpu":
        return HostStore(nnet)
    reference = _made.get(nnet)
    store = reference() if reference is not None else None
    if store is None or not store.fits(nnet, ops):
        store = DeviceStore(nnet, ops)
        _made[nnet] = weakref.ref(store)
    return store


def host_of(nnet: Nnet | ParameterStore) -> Nnet:
    """Return the network of a store; a network is returned unchanged."""
    return nnet.host if isinstance(nnet, ParameterStore) else nnet
