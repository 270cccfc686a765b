"""Base class of layer types: options with defaults, input, output, and the config lines of a layer."""
from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

from nnet3py.config_line import did_you_mean
from nnet3py.errors import ConfigError
from nnet3py.xconfig.line import Descriptor, XconfigLine, parse_descriptor

Value = bool | int | float | str

NETWORK = ("ref", "final")
INITIAL = ("init",)
EVERYWHERE = INITIAL + NETWORK

_INTEGER = re.compile(r"[-+]?[0-9]{1,9}\Z")
_EXPECTED = {bool: "true or false", int: "an integer", float: "a number"}


class ConfigLines:
    """Lines of the three config files while layers append to them, and other files that the lines name.

    ``texts`` : lines of each config: "init", "ref" and "final"; ``files`` : text of other files, by the path in the
    lines.
    """

    def __init__(self) -> None:
        self.texts: dict[str, list[str]] = {config: [] for config in EVERYWHERE}
        self.files: dict[str, str] = {}

    def add(self, line: str, configs: Sequence[str] = NETWORK) -> None:
        """Append a line to each of ``configs``."""
        for config in configs:
            self.texts[config].append(line)

    def component(self, name: str, type: str, settings: str, configs: Sequence[str] = NETWORK) -> None:
        """Append the line of a component; ``settings`` are the pairs after its type."""
        self.add(f"component name={name} type={type} {settings}", configs)

    def node(self, name: str, component: str, input: str, configs: Sequence[str] = NETWORK) -> None:
        """Append the line of a component node."""
        self.add(f"component-node name={name} component={component} input={input}", configs)

    def step(self, name: str, type: str, settings: str, input: str, configs: Sequence[str] = NETWORK) -> str:
        """Append a component and its node, both called ``name``, and return the name for the next step's input."""
        self.component(name, type, settings, configs)
        self.node(name, name, input, configs)
        return name

    def dim_range(self, name: str, source: str, offset: int, dim: int) -> None:
        """Append the line of a dim-range node, ``dim`` columns of node ``source`` from ``offset`` on."""
        self.add(f"dim-range-node name={name} input-node={source} dim-offset={offset} dim={dim}")


class Layer:
    """Layer of an xconfig file.

    A type declares ``OPTIONS``, completes and checks values in ``derive``, has its output node and dimension in
    ``output`` and ``output_dim``, and writes its config lines in ``build``. Raises ConfigError for keys that the type
    does not have, values that it cannot use.

    ``line`` : the layer's line in the file; ``earlier`` : layers before this one.
    """

    OPTIONS: ClassVar[Mapping[str, Value]] = {}      # key -> default, whose type is the option's
    DIM_FROM_INPUT: ClassVar[bool] = True            # dim defaults to the input's dimension
    AUXILIARY: ClassVar[tuple[str, ...]] = ()        # outputs besides the main one that other layers may take

    def __init__(self, line: XconfigLine, earlier: EarlierLayers) -> None:
        self.line, self.type, self.name = line, line.type, line.name
        self.values: dict[str, Value] = dict(self.OPTIONS)
        for key, text in line.values.items():
            self.values[key] = self._convert(key, text)
        self.input = ""
        self.parts = self.AUXILIARY      # derive may leave out some
        if "input" in self.OPTIONS:
            self._take_input(earlier)
        if "dim" in self.OPTIONS and self.DIM_FROM_INPUT and self.integer("dim") <= 0:
            self.values["dim"] = self.input_dim
        self.derive()

    def _convert(self, key: str, text: str) -> Value:
        if key not in self.OPTIONS:
            raise self.line.error(f"{self.type} has no option {key}=",
                                  did_you_mean(key, list(self.OPTIONS)) or "it has "
                                  + ", ".join(sorted(self.OPTIONS)))
        kind = type(self.OPTIONS[key])
        if kind is str:
            return text
        value: Value | None = None
        if kind is bool:
            value = {"true": True, "True": True, "false": False, "False": False}.get(text)
        elif kind is int:
            value = int(text) if _INTEGER.match(text) else None
        else:
            value = as_number(text)
        if value is None:
            raise self.line.error(f"{key}= must be {_EXPECTED[kind]}, found '{text}'")
        return value

    def _take_input(self, earlier: EarlierLayers) -> None:
        self.descriptor: Descriptor = parse_descriptor(self.string("input"), self.line, earlier)
        self.input = self.descriptor.text(lambda name: earlier.find(name, self.line)[0])
        try:
            self.input_dim = self.descriptor.dim(lambda name: earlier.find(name, self.line)[1])
        except ValueError as error:
            raise self.line.error(f"input={self.string('input')} is {error}") from None

    def integer(self, key: str) -> int:
        """Return the value of an integer option."""
        value = self.values[key]
        assert isinstance(value, int)
        return value

    def number(self, key: str) -> float:
        """Return the value of a real option."""
        value = self.values[key]
        assert isinstance(value, float)
        return value

    def string(self, key: str) -> str:
        """Return the value of a text option."""
        value = self.values[key]
        assert isinstance(value, str)
        return value

    def flag(self, key: str) -> bool:
        """Return the value of a boolean option."""
        return self.values[key] is True

    def pairs(self, *keys: str) -> str:
        """Return ``key=value``, separated by blanks, for the keys that have a value."""
        return " ".join(f"{key}={self.values[key]}" for key in keys if self.values[key] != "")

    def at(self, part: str) -> str:
        """Return the name of a part of this layer: ``layer.part``."""
        return f"{self.name}.{part}"

    def need(self, condition: bool, message: str, hint: str | None = None) -> None:
        """Raise ConfigError with this layer's line unless ``condition`` holds."""
        if not condition:
            raise self.line.error(message, hint)

    def need_positive(self, *keys: str) -> None:
        """Raise ConfigError unless these options are above zero."""
        for key in keys:
            given = key in self.line.values
            self.need(self.values[key] > 0, f"{key}= must be above zero, found {self.values[key]}"   # type: ignore
                      if given else f"{self.type} needs {key}=")

    def need_within(self, low: float, high: float, *keys: str) -> None:
        """Raise ConfigError unless these options are from ``low`` to ``high``."""
        for key in keys:
            self.need(low <= self.values[key] <= high,   # type: ignore[operator]
                      f"{key}= must be {low:g} or more" + (f", {high:g} at most" if high < math.inf else "")
                      + f", found {self.values[key]}")

    def derive(self) -> None:
        """Set options whose default depends on others, and check all options."""

    def output(self) -> str:
        """Return the node or descriptor that other layers take as this layer's output."""
        return self.name

    def output_dim(self) -> int:
        """Return the dimension of the output: the option ``dim``, or, without it, the dimension of the input."""
        return self.integer("dim") if "dim" in self.OPTIONS else self.input_dim

    def auxiliary(self, part: str) -> tuple[str, int]:
        """Return the node and the dimension of the auxiliary output ``part``, one of ``AUXILIARY``."""
        raise NotImplementedError

    def build(self, lines: ConfigLines) -> None:
        """Append this layer's config lines."""
        raise NotImplementedError

    def expanded(self, normalized: bool) -> str:
        """Return the layer's line with all options, also those that have their defaults.

        ``normalized`` : whether ``input=`` is written with the names of layers, and Offset() for ``@``
        """
        values = {key: str(value) for key, value in sorted(self.values.items())}
        if normalized and self.input:
            values["input"] = self.descriptor.text(str)
        return " ".join([self.type, f"name={self.name}"] + [
            f'{key}="{value}"' if "=" in value else f"{key}={value}" for key, value in values.items()])


class EarlierLayers:
    """Layers that a line may take as input: earlier ones of the file, and nodes of an existing network.

    ``existing`` : name and dimension of each node of an existing network.
    """

    def __init__(self, existing: Sequence[tuple[str, int]] = ()) -> None:
        self.existing = dict(existing)
        self.layers: dict[str, Layer] = {}
        self.to_come: set[str] = set()

    def add(self, make: Callable[[XconfigLine, EarlierLayers], Layer], line: XconfigLine) -> Layer:
        """Make the next layer of the file. Raises ConfigError for a bad line, or a name that an earlier layer has."""
        if line.name in self.layers:
            raise line.error(f"there is a layer '{line.name}' already")
        layer = make(line, self)
        self.layers[line.name] = layer
        return layer

    def previous(self, count: int, line: XconfigLine) -> str:
        """Return the name of the layer ``count`` lines before."""
        names = list(self.layers)
        if not 1 <= count <= len(names):
            raise line.error("there is no layer before it to take its input from" if not names else
                             f"[{-count}] leads to no earlier layer; there are {len(names)}",
                             "name a layer with input=" if self.existing else None)
        return names[-count]

    def find(self, name: str, line: XconfigLine) -> tuple[str, int]:
        """Return the descriptor and the dimension of an output: ``layer``, or ``layer.auxiliary-output``.

        Raises ConfigError if there is no such layer or output.
        """
        if name in self.layers:
            return self._main_output(self.layers[name], line), self.layers[name].output_dim()
        for dot in re.finditer(r"\.", name):
            layer, part = self.layers.get(name[:dot.start()]), name[dot.end():]
            if layer is not None:
                if part in layer.parts:
                    return layer.auxiliary(part)
                raise line.error(f"layer '{layer.name}' ({layer.type}) has no output '{part}'",
                                 f"it has {', '.join(layer.parts)}" if layer.parts else
                                 "only its main output can be taken")
        if name in self.existing:
            return name, self.existing[name]
        raise self._unknown(name, line)

    def _main_output(self, layer: Layer, line: XconfigLine) -> str:
        if not layer.output():
            parts = " or ".join(f"{layer.name}.{part}" for part in layer.parts)
            raise line.error(f"'{layer.name}' is an output of the network, which no layer can take as input",
                             f"take {parts}" if parts else None)
        return layer.output()

    def _unknown(self, name: str, line: XconfigLine) -> ConfigError:
        if name == line.name or name in self.to_come:
            return line.error(f"layer '{name}' comes only " + ("with this line" if name == line.name else "later"),
                              "a layer takes its input from lines before it")
        return line.error(f"there is no layer '{name}'", did_you_mean(name, [*self.layers, *self.existing]))


def as_number(text: str) -> float | None:
    """Return the finite number that ``text`` spells, or None."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and "_" not in text else None


def lower(flag: bool) -> str:
    """Return ``true`` or ``false``, as in config lines."""
    return "true" if flag else "false"
