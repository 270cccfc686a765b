"""Expansion of xconfig files into config files, and layer types by their names."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from nnet3py.config_line import did_you_mean
from nnet3py.errors import ConfigError
from nnet3py.xconfig.layer import ConfigLines, EarlierLayers, Layer
from nnet3py.xconfig.line import XconfigLine, parse_xconfig

if TYPE_CHECKING:
    from nnet3py.network.nnet import Nnet

_BASIC = ("relu", "relu-renorm", "relu-batchnorm", "relu-batchnorm-dropout", "relu-dropout", "relu-batchnorm-so",
          "batchnorm-so-relu", "batchnorm", "sigmoid", "tanh")
_ATTENTION = ("attention-renorm", "attention-relu-renorm", "attention-relu-batchnorm", "relu-renorm-attention")
_CONVOLUTION = ("relu-conv", "conv", "conv-relu", "conv-renorm", "relu-conv-renorm", "batchnorm-conv",
                "conv-relu-renorm", "batchnorm-conv-relu", "relu-batchnorm-conv", "relu-batchnorm-noconv",
                "relu-noconv", "conv-relu-batchnorm", "conv-relu-batchnorm-so", "conv-relu-batchnorm-dropout",
                "conv-relu-dropout")

LAYER_MODULES: dict[str, tuple[str, str]] = {      # type -> module and class
    "input": ("basic", "InputLayer"),
    "output": ("basic", "OutputLine"),
    "output-layer": ("basic", "OutputLayer"),
    **{f"{words}-layer": ("basic", "BasicLayer") for words in _BASIC},
    "fixed-affine-layer": ("single", "FixedAffineLayer"),
    "affine-layer": ("single", "AffineLayer"),
    "idct-layer": ("single", "IdctLayer"),
    "spec-augment-layer": ("single", "SpecAugmentLayer"),
    "renorm-component": ("single", "RenormLayer"),
    "batchnorm-component": ("single", "BatchNormLayer"),
    "no-op-component": ("single", "NoOpLayer"),
    "linear-component": ("single", "LinearLayer"),
    "affine-component": ("single", "AffineComponentLayer"),
    "scale-component": ("single", "PerElementLayer"),
    "offset-component": ("single", "PerElementLayer"),
    "dim-range-component": ("single", "DimRangeLayer"),
    "combine-feature-maps-layer": ("single", "CombineFeatureMapsLayer"),
    "channel-average-layer": ("single", "ChannelAverageLayer"),
    "delta-layer": ("single", "DeltaLayer"),
    "tdnnf-layer": ("basic", "TdnnfLayer"),
    "prefinal-layer": ("basic", "PrefinalLayer"),
    "stats-layer": ("basic", "StatsLayer"),
    **{f"{words}-layer": ("basic", "AttentionLayer") for words in _ATTENTION},
    **{f"{words}-layer": ("convolution", "ConvolutionLayer") for words in _CONVOLUTION},
    "res-block": ("convolution", "ResBlock"),
    "res2-block": ("convolution", "Res2Block"),
    "lstm-layer": ("recurrent", "LstmLayer"),
    "lstmp-layer": ("recurrent", "LstmpLayer"),
    "lstmp-batchnorm-layer": ("recurrent", "LstmpBatchNormLayer"),
    "fast-lstm-layer": ("recurrent", "FastLstmLayer"),
    "fast-lstm-batchnorm-layer": ("recurrent", "FastLstmBatchNormLayer"),
    "lstmb-layer": ("recurrent", "LstmbLayer"),
    "fast-lstmp-layer": ("recurrent", "FastLstmpLayer"),
    "fast-lstmp-batchnorm-layer": ("recurrent", "FastLstmpBatchNormLayer"),
    "gru-layer": ("gru", "GruLayer"),
    "pgru-layer": ("gru", "PgruLayer"),
    "norm-pgru-layer": ("gru", "NormPgruLayer"),
    "opgru-layer": ("gru", "OpgruLayer"),
    "norm-opgru-layer": ("gru", "NormOpgruLayer"),
    "fast-gru-layer": ("gru", "FastGruLayer"),
    "fast-pgru-layer": ("gru", "FastPgruLayer"),
    "fast-norm-pgru-layer": ("gru", "FastNormPgruLayer"),
    "fast-opgru-layer": ("gru", "FastOpgruLayer"),
    "fast-norm-opgru-layer": ("gru", "FastNormOpgruLayer"),
}


def layer_class(type: str, line: XconfigLine | None = None) -> type[Layer]:
    """Return the class of a layer type. Raises ConfigError, with ``line`` if given, for an unknown type."""
    if type not in LAYER_MODULES:
        line = line or XconfigLine(f"{type} name=x")
        raise line.error(f"there is no layer type '{type}'", did_you_mean(type, list(LAYER_MODULES)))
    module, name = LAYER_MODULES[type]
    return getattr(import_module(f"nnet3py.xconfig.{module}"), name)  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Expansion:
    """Config files of an xconfig file."""

    layers: tuple[Layer, ...]    # layers in order
    init: str | None    # config of the network from which a fixed transform is estimated; None if no layer needs one
    ref: str                     # config of the whole network, with random values in fixed transforms
    final: str                   # config of the whole network, with fixed transforms from their files
    with_options: str            # the xconfig with all options of all layers
    normalized: str              # ``with_options`` with inputs written out
    files: dict[str, str]        # text of further files that the configs name, by path


def expand(text: str, path: str | None = None, existing: Sequence[tuple[str, int]] = ()) -> Expansion:
    """Expand the text of an xconfig file into config lines. No file is read or written.

    Raises ConfigError for an invalid line, with its number, or a network without an output.

    Parameters
    ----------
    text : lines of the file
    path : name of the file, for messages
    existing : name and dimension of each node of a network to build on; see :func:`existing_nodes`
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
    """Return name and dimension of each node of a network that layers on top of it may take as input."""
    return [(name, nnet.node_dim(i)) for i, name in enumerate(nnet.node_names) if not nnet.is_component_input(i)]
