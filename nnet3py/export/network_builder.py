"""A network in the making: its nodes as config lines, and the numbers of its components."""
from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from nnet3py.export.plain_weights import set_arrays
from nnet3py.network.nnet import Nnet

_INPUTS_AND_OUTPUTS = ("input", "output", "ivector")      # not for components, whose names these often are elsewhere
_NO_NAME = re.compile(r"[^A-Za-z0-9_.-]+")


@dataclass
class Layer:
    """A component and the node that it works in, both of one name.

    Attributes
    ----------
    settings : of the config line, after its type
    arrays : its numbers, by the names of its attributes
    """

    name: str
    type: str
    settings: str
    input: str
    arrays: dict[str, np.ndarray] = field(default_factory=dict)


class NetworkBuilder:
    """Collects nodes, in order of computation. Names are made unique, and such as config lines take."""

    def __init__(self) -> None:
        self._inputs: list[str] = []
        self._layers: list[Layer] = []
        self._ranges: dict[int, list[str]] = {}
        self._outputs: list[str] = []
        self._names: set[str] = set(_INPUTS_AND_OUTPUTS)

    def input(self, name: str, dim: int) -> None:
        """An input of that name."""
        self._inputs.append(f"input-node name={name} dim={dim}")

    def output(self, name: str, descriptor: str) -> None:
        """An output; all but the first get an unused name."""
        name = name if name == "output" else self.new_name(name)
        self._outputs.append(f"output-node name={name} input={descriptor}")

    def new_name(self, hint: str) -> str:
        """An unused name like ``hint``."""
        plain = _NO_NAME.sub("_", hint).strip(".") or "layer"
        plain = f"{plain}.affine" if plain in _INPUTS_AND_OUTPUTS else plain
        plain = plain if plain[0].isalpha() or plain[0] == "_" else f"_{plain}"
        name, count = plain, 1
        while name in self._names:
            count += 1
            name = f"{plain}_{count}"
        self._names.add(name)
        return name

    def layer(self, hint: str, kind: str, settings: str, descriptor: str,
              arrays: Mapping[str, np.ndarray] | None = None) -> str:
        """A component of type ``kind`` and its node; returns their name."""
        name = self.new_name(hint)
        self.named_layer(name, kind, settings, descriptor, arrays)
        return name

    def named_layer(self, name: str, kind: str, settings: str, descriptor: str,
                    arrays: Mapping[str, np.ndarray] | None = None) -> None:
        """The same with a name that :meth:`new_name` gave before, for nodes that are read before they are made."""
        self._layers.append(Layer(name, kind, settings, descriptor, dict(arrays or {})))

    def affine(self, hint: str, weight: np.ndarray, bias: np.ndarray | None, descriptor: str) -> str:
        """An affine map, or a linear one; ``weight`` float (outputs, inputs), ``bias`` float (outputs,) or None."""
        name = self.new_name(hint)
        self.named_affine(name, weight, bias, descriptor)
        return name

    def named_affine(self, name: str, weight: np.ndarray, bias: np.ndarray | None, descriptor: str) -> None:
        """The same with a name that was given before."""
        dims = f"input-dim={weight.shape[1]} output-dim={weight.shape[0]}"
        if bias is None:
            self.named_layer(name, "LinearComponent", dims, descriptor, {"params": weight})
        else:
            self.named_layer(name, "NaturalGradientAffineComponent", dims, descriptor,
                             {"linear_params": weight, "bias_params": bias})

    def add_bias(self, name: str, bias: np.ndarray, hint: str = "") -> str:
        """Give a linear map that nothing reads yet a bias, float (outputs,), and perhaps another name.

        Returns its name; "" if that node is something else.
        """
        layer = next((layer for layer in self._layers if layer.name == name and layer.type == "LinearComponent"), None)
        if layer is None:
            return ""
        if hint:
            self._names.discard(name)
            layer.name = self.new_name(hint)
        layer.type = "NaturalGradientAffineComponent"
        layer.arrays = {"linear_params": layer.arrays["params"], "bias_params": bias}
        return layer.name

    def dim_range(self, hint: str, source: str, offset: int, dim: int) -> str:
        """Columns ``offset`` to ``offset + dim`` of a node; returns their name."""
        name = self.new_name(hint)
        self._ranges.setdefault(len(self._layers), []).append(
            f"dim-range-node name={name} input-node={source} dim-offset={offset} dim={dim}")
        return name

    def is_layer(self, name: str) -> bool:
        """Whether a node of that name is there, an input or a component node."""
        return any(layer.name == name for layer in self._layers) or any(
            line.split()[1] == f"name={name}" for line in self._inputs)

    def network(self) -> Nnet:
        """The network, with the numbers of its components in it."""
        lines = list(self._inputs)
        for number, layer in enumerate(self._layers):
            lines += self._ranges.get(number, [])
            lines += [f"component name={layer.name} type={layer.type} {layer.settings}",
                      f"component-node name={layer.name} component={layer.name} input={layer.input}"]
        nnet = Nnet.from_config("\n".join([*lines, *self._ranges.get(len(self._layers), []), *self._outputs]) + "\n")
        set_arrays(nnet, {f"{layer.name}.{attribute}": array for layer in self._layers
                          for attribute, array in layer.arrays.items()})
        return nnet
