"""Changing a network from Python: its components and their parameters; see ``surgery.py``."""
from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nnet3py.components.base import Component
from nnet3py.config_line import ConfigLine, did_you_mean
from nnet3py.errors import ConfigError, NumericError, ShapeError
from nnet3py.network.config_reader import new_component
from nnet3py.network.nodes import ComponentNode
from nnet3py.network.structure import NetworkStructure
from nnet3py.network.surgery import Edits, check_name, listed

# Types whose arrays are not parameters but may be set: nothing is derived from them.
FIXED_ARRAYS = {"FixedAffineComponent": ("linear_params", "bias_params"), "FixedScaleComponent": ("vector",),
                "FixedBiasComponent": ("vector",), "ConstantComponent": ("output",),
                "ConstantFunctionComponent": ("output",)}


class ComponentEdits(Edits):
    """Edits of components; each is refused, or undone, if the network would be unusable after it."""

    def named_components(self) -> Iterator[tuple[str, Component]]:
        """Name and object of each component, in the order of the file.

        >>> [name for name, component in nnet.named_components() if component.parameters()]
        ['affine1', 'affine2']
        """
        yield from zip(self.component_names, self.components, strict=True)

    def arrays(self, name: str) -> dict[str, NDArray[np.float32]]:
        """The arrays of a component that :meth:`set_parameters` sets, as views: name -> float32 array.

        They are the trained parameters, or for fixed components (an LDA transform, fixed scales, biases) their values.

        >>> {key: values.shape for key, values in nnet.arrays("affine2").items()}
        {'linear_params': (10, 32), 'bias_params': (10,)}
        """
        component = self.component(name)
        fixed = FIXED_ARRAYS.get(type(component).__name__, ())
        return component.parameters() or {key: getattr(component, key) for key in fixed}

    def set_parameters(self, name: str, values: Mapping[str, ArrayLike]) -> None:
        """Overwrite arrays of a component, in place; those not named are left alone.

        Parameters
        ----------
        name : of the component
        values : array name -> real numbers of exactly the array's shape, any dtype; they become float32

        Raises
        ------
        ConfigError : an array that the component does not have, or values that are not numbers
        ShapeError : another shape
        NumericError : NaN, infinity, or values that float32 cannot hold

        >>> nnet.set_parameters("affine2", {"bias_params": np.zeros(10)})
        """
        targets = self.arrays(name)
        checked = []
        for key, value in values.items():
            if key not in targets:
                raise ConfigError(f"component {name} has no array '{key}'", did_you_mean(key, list(targets)) or (
                    f"it has {', '.join(targets)}" if targets else "it has no parameters"))
            checked.append((targets[key], _as_parameters(value, targets[key].shape, f"{key} of component {name}")))
        state = self._edit_state
        for target, array in checked:
            if state.depth:
                state.overwritten.append((target, target.copy()))
            target[...] = array

    def add_component(self, name: str, component: Component | str, seed: int = 0) -> None:
        """Add a component, which no node uses yet.

        Parameters
        ----------
        name : of the component; new
        component : an object, or what follows the name in a config line: ``type=... input-dim=...``
        seed : of random parameters, for a component given as text

        >>> nnet.add_component("tanh", "type=TanhComponent dim=32")
        """
        with self.edit():
            if name in self.component_names:
                raise ConfigError(f"the network already has a component named '{name}'",
                                  "replace_component puts another in its place")
            check_name(name, "component")
            self.components.append(_as_component(self, name, component, seed))
            self.component_names.append(name)

    def replace_component(self, name: str, component: Component | str, seed: int = 0) -> None:
        """Replace a component by another, for all nodes that use it; arguments as for ``add_component``.

        Raises
        ------
        ConfigError : its dimensions do not fit the nodes

        >>> nnet.replace_component("relu1", "type=SigmoidComponent dim=32")
        """
        with self.edit():
            self.components[self.component_index(name)] = _as_component(self, name, component, seed)

    def rename_component(self, old: str, new: str) -> None:
        """Give a component a new name that no component has; its nodes keep theirs.

        >>> nnet.rename_component("affine2", "output.affine")
        """
        with self.edit():
            index = self.component_index(old)
            if new != old and new in self.component_names:
                raise ConfigError(f"cannot rename component {old}: the network already has a component named '{new}'")
            check_name(new, "component")
            self.component_names[index] = new

    def remove_component(self, name: str) -> None:
        """Remove a component that no node uses.

        Raises
        ------
        ConfigError : a node uses it

        >>> nnet.add_component("spare", "type=NoOpComponent dim=3")
        >>> nnet.remove_component("spare")
        """
        with self.edit():
            index = self.component_index(name)
            users = [node.name for node in self.nodes
                     if isinstance(node, ComponentNode) and node.component_index == index]
            if users:
                raise ConfigError(f"component {name} is in use by {listed(users)}", "remove the nodes first")
            del self.components[index], self.component_names[index]
            for node in self.nodes:
                if isinstance(node, ComponentNode) and node.component_index > index:
                    node.component_index -= 1


def _as_parameters(value: ArrayLike, shape: tuple[int, ...], what: str) -> np.ndarray:
    try:
        array = np.asarray(value)
    except ValueError:      # rows of different lengths
        array = np.empty(0, dtype=object)
    if array.dtype.kind not in "fiu":
        raise ConfigError(f"expected real numbers for {what}, found {type(value).__name__} of {array.dtype}")
    if array.shape != shape:
        raise ShapeError(f"expected shape {shape} for {what}, found {array.shape}")
    with np.errstate(over="ignore"):
        array = array.astype(np.float32)
    if not np.isfinite(array).all():
        place = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise NumericError(f"{what} would be {np.asarray(value)[place]} at {place}", "NaN, infinity and what float32 "
                           "does not hold cannot be parameters")
    return array


def _as_component(nnet: NetworkStructure, name: str, component: Component | str, seed: int) -> Component:
    if isinstance(component, str):
        if "\n" in component or "#" in component:
            raise ConfigError(f"expected one config line for component {name}, without comment, found {component!r}")
        return new_component(ConfigLine(f"component name={name} {component}"), seed)
    if not isinstance(component, Component):
        raise ConfigError(f"expected a component, or config text such as 'type=NoOpComponent dim=3', for component "
                          f"{name}, found {type(component).__name__}")
    for other, present in zip(nnet.component_names, nnet.components, strict=True):
        if present is component and other != name:
            raise ConfigError(f"the component for '{name}' is in the network already, as '{other}'",
                              "nodes can share a component; or take component.copy()")
    for key, values in component.parameters().items():
        _as_parameters(values, values.shape, f"{key} of component {name}")
    return component
