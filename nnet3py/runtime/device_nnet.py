"""A network whose arrays are in device memory: the twin of one on the host.

A twin is made when a network is first bound to a device, and has copies of all arrays that kernels read or write: those
that components declare as ``PARAMETERS`` and ``STATISTICS``, which lie side by side in one vector each, and
``CONSTANTS``. Everything else is the host's: settings, counts and the natural gradient are looked up there at each use,
so that what a caller sets on the host holds at once. Arrays are not watched: whoever changes one on the host calls
``push``, whoever wants to read what the device has changed calls ``pull``. Trainers and ``Computer`` pull for their
callers.
"""
from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nnet3py.components.base import Component
from nnet3py.network.nnet import Nnet

if TYPE_CHECKING:
    from nnet3py.ops.table import Ops

ALIGNMENT = 64          # elements; each array begins at a multiple, so that wide loads are possible
_KINDS = (("PARAMETERS", np.float32), ("STATISTICS", np.float64))


class _Twin:
    """Put before a component's class: arrays are the device's, all other attributes the host's."""

    def __init__(self, host: Component) -> None:
        object.__setattr__(self, "_host", host)

    def __getattr__(self, name: str) -> Any:
        if name == "_host":
            raise AttributeError(name)       # while it is being made or copied
        return getattr(self._host, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._host, name, value)

    def hold(self, name: str, value: Any) -> None:
        """Give the twin an attribute of its own."""
        self.__dict__[name] = value

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        raise TypeError("a component on a device is copied with its network, on the host")


_twin_classes: dict[tuple[type, frozenset[str]], type] = {}


def _twin_of(host: Component) -> Any:
    """The twin of a component, without arrays as yet; its class has the same name."""
    kind = type(host)
    shadowed = frozenset(name for name in vars(host) if hasattr(kind, name) and name != "children")
    if (kind, shadowed) not in _twin_classes:
        body = {name: _of_host(name) for name in shadowed}
        _twin_classes[kind, shadowed] = type(kind.__name__, (_Twin, kind), {"__module__": __name__, **body})
    twin = _twin_classes[kind, shadowed](host)
    if host.children:
        twin.hold("children", [_twin_of(child) for child in host.children])
    return twin


def _of_host(name: str) -> property:
    """An attribute that the class has a default for, and the host component its own value."""
    return property(lambda twin: getattr(twin._host, name))


def _leaves(component: Any) -> Iterator[Any]:
    """The components that hold arrays: itself, or those inside it."""
    if component.children:
        for child in component.children:
            yield from _leaves(child)
    else:
        yield component


class _Numbers:
    """Numbers of the host in device memory, which are copied only when they have changed."""

    def __init__(self, ops: Ops, size: int, dtype: Any) -> None:
        self._ops, self.vector, self._known = ops, ops.new_vector(size, dtype), np.zeros(0)

    def on_device(self, numbers: np.ndarray) -> Any:
        """The device's vector, once it holds these."""
        if not np.array_equal(numbers, self._known, equal_nan=True):
            self._ops.copy_in(self.vector, numbers)
            self._known = numbers.copy()
        return self.vector


class _Arrays:
    """The arrays of one kind of all components, side by side in a device vector."""

    def __init__(self, ops: Ops, twins: Sequence[Any], declared: str, dtype: Any) -> None:
        from nnet3py.ops.cuda.store import Segments

        self._ops, self._places, starts, size = ops, [], [0], 0
        for twin in twins:
            for leaf in _leaves(twin):
                for name in getattr(leaf, declared):
                    host = getattr(leaf._host, name)
                    if host is not None:
                        assert host.dtype == dtype, f"{type(leaf).__name__}.{name} is {host.dtype}"
                        self._places.append((leaf, name, size))
                        size += -(-host.size // ALIGNMENT) * ALIGNMENT
            starts.append(size)
        self.segments = Segments(ops.new_vector(size, dtype), np.array(starts))
        self._factors = _Numbers(ops, len(twins), dtype)
        self.decided = ops.new_vector(len(twins), dtype), ops.new_vector(len(twins), dtype)    # by the device itself
        self._hold_views()

    def _hold_views(self) -> None:
        for leaf, name, start in self._places:
            host = getattr(leaf._host, name)
            leaf.hold(name, self.segments.values[start:start + host.size].reshape(*host.shape))

    def factors(self, factors: np.ndarray) -> Any:
        """Factors of the components in device memory, of the arrays' type, in float32 precision as on the host."""
        return self._factors.on_device(np.asarray(factors, np.float32))

    def push(self) -> None:
        """Copy the host's arrays to the device."""
        packed = np.zeros(self.segments.values.size, self.segments.values.dtype)
        for leaf, name, start in self._places:
            host = getattr(leaf._host, name)
            packed[start:start + host.size] = host.ravel()
        self._ops.copy_in(self.segments.values, packed)

    def pull(self) -> None:
        """Copy the device's arrays into the host's, in place."""
        packed = self._ops.copy_out(self.segments.values)
        for leaf, name, start in self._places:
            host = getattr(leaf._host, name)
            host[...] = packed[start:start + host.size].reshape(host.shape)


class DeviceNnet(Nnet):
    """The twin of a network; made by :func:`on_device`.

    Attributes
    ----------
    host : the network on the host
    components : twins of its components
    """

    host: Nnet

    def __init__(self, host: Nnet, ops: Ops) -> None:
        self.__dict__.update({name: value for name, value in vars(host).items() if name != "version"})
        self.host, self.ops = host, ops
        self.components = [_twin_of(component) for component in host.components]
        self._arrays = [_Arrays(ops, self.components, declared, dtype) for declared, dtype in _KINDS]
        self._limits = _Numbers(ops, len(self.components), np.float64)
        self._found = ops.new_vector(len(self.components) + 1, np.float64)
        self._changed_by: DeviceNnet | None = None
        self._additions: Any = None                 # captured launches of ``add_limited``
        self.push()

    @property
    def version(self) -> int:
        """The host's: a twin of an older structure is void."""
        return self.host.version

    @version.setter
    def version(self, value: int) -> None:
        self.host.version = value

    # -- host and device ---------------------------------------------------------------------------------------------

    def push(self) -> None:
        """Copy all arrays from the host to the device."""
        for arrays in self._arrays:
            arrays.push()
        for twin in self.components:
            for leaf in _leaves(twin):
                for name in getattr(leaf, "CONSTANTS", ()):
                    value = getattr(leaf._host, name)
                    leaf.hold(name, None if value is None else self.ops.upload(np.ascontiguousarray(value)))

    def pull(self) -> None:
        """Copy parameters and statistics from the device into the host's arrays, in place."""
        for arrays in self._arrays:
            arrays.pull()

    def copy(self) -> Nnet:
        """A copy of the network on the host, as it is on the device."""
        self.pull()
        return self.host.copy()

    # -- arithmetic on components --------------------------------------------------------------------------------------

    def squares(self) -> np.ndarray:
        """As :meth:`Nnet.squares`; the host waits for the device."""
        parameters = self._arrays[0].segments
        return parameters.dot_products(parameters)

    def scale_components(self, factors: np.ndarray) -> None:
        """As :meth:`Nnet.scale_components`, but fractions of counts that Kaldi cuts off stay."""
        for arrays in self._arrays:
            arrays.segments.scale(arrays.factors(factors))

    def add_limited(self, change: DeviceNnet, limits: np.ndarray, global_limit: float, scale: float,
                    momentum: float) -> Callable[[], np.ndarray]:
        """Add ``scale`` times a change within limits, then multiply the change with ``momentum``; no waiting.

        Parameters
        ----------
        limits : float64, of each component; 0 for none, NaN for one that is not trained and stays as it is

        Returns
        -------
        A function that waits for the factors, see ``max_change.limiting_factors``.
        """
        from nnet3py.ops.cuda.graphs import Replays

        if change is not self._changed_by:         # what is captured has the addresses of its arrays
            self._changed_by, self._additions = change, Replays()
        self._limits.on_device(limits)
        settings = global_limit, scale, momentum
        self._additions.run(settings, lambda: self._queue_addition(change, *settings))
        for limit, mine, twin in zip(limits, self.components, change.components, strict=True):
            if not np.isnan(limit):
                _merge_marks(mine, twin)
        return self.ops.read_later(self._found)

    def _queue_addition(self, change: DeviceNnet, global_limit: float, scale: float, momentum: float) -> None:
        from nnet3py.ops.cuda.store import limit_changes

        parameters = change._arrays[0].segments
        limit_changes(self._found, *(vector for arrays in self._arrays for vector in arrays.decided),
                      parameters.queue_dot_products(parameters), self._limits.vector, global_limit, scale, momentum)
        for arrays, theirs in zip(self._arrays, change._arrays, strict=True):
            factors, remaining = arrays.decided
            arrays.segments.add(factors, theirs.segments)
            theirs.segments.scale(remaining)

    def add_components(self, factors: np.ndarray, other: Nnet) -> None:
        """As :meth:`Nnet.add_components`, but fractions of counts that Kaldi cuts off stay."""
        assert isinstance(other, DeviceNnet)
        for arrays, theirs in zip(self._arrays, other._arrays, strict=True):
            arrays.segments.add(arrays.factors(factors), theirs.segments)
        for factor, mine, twin in zip(factors, self.components, other.components, strict=True):
            if factor != 0.0:
                _merge_marks(mine, twin)


def _merge_marks(mine: Any, theirs: Any) -> None:
    """What was stored in either was stored in the sum."""
    for leaf, other in zip(_leaves(mine), _leaves(theirs), strict=True):
        if hasattr(leaf._host, "stored"):
            leaf._host.stored |= other._host.stored


_made: weakref.WeakKeyDictionary[Nnet, tuple[int, int, weakref.ref[DeviceNnet]]] = weakref.WeakKeyDictionary()


def on_device(nnet: Any, ops: Ops) -> Any:
    """The network for the operations of a device: itself on the CPU, else its twin.

    A twin serves all that is bound to the network, for as long as something is; structural edits need another.
    """
    if ops.device == "cpu" or nnet is None or isinstance(nnet, DeviceNnet):
        return nnet
    version, owner, known = _made.get(nnet, (-1, 0, None))
    twin = known() if known is not None else None
    if twin is None or (version, owner) != (nnet.version, id(ops)):
        twin = DeviceNnet(nnet, ops)
        _made[nnet] = nnet.version, id(ops), weakref.ref(twin)
    return twin


def keep_on_device(indexes: Any, ops: Ops) -> Any:
    """Precomputed indexes, which never change, with copies of their arrays in the device's memory; returns them."""
    if hasattr(indexes, "__dict__"):
        for value in vars(indexes).values():
            if isinstance(value, np.ndarray):
                ops.keep(value)
    return indexes
