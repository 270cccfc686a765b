"""From the text of an xconfig file to the config files it stands for."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nnet3py.errors import ConfigError
from nnet3py.xconfig.layer import ConfigLines, EarlierLayers, Layer
from nnet3py.xconfig.line import parse_xconfig
from nnet3py.xconfig.registry import layer_class

if TYPE_CHECKING:
    from nnet3py.network.nnet import Nnet


@dataclass(frozen=True)
class Expansion:
    """What an xconfig file stands for.

    Attributes
    ----------
    layers : the layers in order
    init : config of the network from which a fixed transform is estimated; None if no layer needs one
    ref : config of the whole network, fixed transforms with random values
    final : config of the whole network, fixed transforms from their files
    with_options : the xconfig with every option of every layer
    normalized : the same, with inputs written out
    files : text, by path, of files that the configs refer to and that conversion makes
    """

    layers: tuple[Layer, ...]
    init: str | None
    ref: str
    final: str
    with_options: str
    normalized: str
    files: dict[str, str]


def expand(text: str, path: str | None = None, existing: Sequence[tuple[str, int]] = ()) -> Expansion:
    """Turn the text of an xconfig file into config text. Nothing is read or written.

    Parameters
    ----------
    text : the lines of the file
    path : its name, for messages
    existing : name and dimension of each node of a network to build on; see :func:`existing_nodes`

    Raises
    ------
    ConfigError : an invalid line, with its number; a network without an output
    """
    parsed = parse_xconfig(text, path)
    earlier = EarlierLayers(existing)
    lines = ConfigLines()
    earlier.to_come = {line.name for line in parsed}
    for line in parsed:
        earlier.add(layer_class(line.type, line), line).build(lines)
    layers = tuple(earlier.layers.values())
    if not any(line.startswith("output-node ") for line in lines.texts["final"]):
        raise ConfigError(f"no layer of {path or 'the xconfig'} is an output of the network",
                          "it needs an output-layer or an output line")
    init = lines.texts["init"]
    return Expansion(
        layers, _text(init) if any(line.startswith("output-node ") for line in init) else None,
        _text(lines.texts["ref"]), _text(lines.texts["final"]), _text([layer.expanded(False) for layer in layers]),
        _text([layer.expanded(True) for layer in layers]), lines.files)


def _text(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def existing_nodes(nnet: Nnet) -> list[tuple[str, int]]:
    """Return name and dimension of each node that the layers built on a network may take as input."""
    return [(name, nnet.node_dim(i)) for i, name in enumerate(nnet.node_names) if not nnet.is_component_input(i)]
