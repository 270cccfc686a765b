"""Layer types by their names in xconfig files."""
from __future__ import annotations

from importlib import import_module

from nnet3py.config_line import did_you_mean
from nnet3py.xconfig.layer import Layer
from nnet3py.xconfig.line import XconfigLine

_BASIC = ("relu", "relu-renorm", "relu-batchnorm", "relu-batchnorm-dropout", "relu-dropout", "relu-batchnorm-so",
          "batchnorm-so-relu", "batchnorm", "sigmoid", "tanh")
_ATTENTION = ("attention-renorm", "attention-relu-renorm", "attention-relu-batchnorm", "relu-renorm-attention")
_CONVOLUTION = ("relu-conv", "conv", "conv-relu", "conv-renorm", "relu-conv-renorm", "batchnorm-conv",
                "conv-relu-renorm", "batchnorm-conv-relu", "relu-batchnorm-conv", "relu-batchnorm-noconv",
                "relu-noconv", "conv-relu-batchnorm", "conv-relu-batchnorm-so", "conv-relu-batchnorm-dropout",
                "conv-relu-dropout")

LAYER_MODULES: dict[str, tuple[str, str]] = {      # type -> module and class
    "input": ("endpoints", "InputLayer"),
    "output": ("endpoints", "OutputLine"),
    "output-layer": ("endpoints", "OutputLayer"),
    **{f"{words}-layer": ("basic", "BasicLayer") for words in _BASIC},
    "fixed-affine-layer": ("fixed", "FixedAffineLayer"),
    "affine-layer": ("fixed", "AffineLayer"),
    "idct-layer": ("fixed", "IdctLayer"),
    "spec-augment-layer": ("fixed", "SpecAugmentLayer"),
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
    "tdnnf-layer": ("tdnnf", "TdnnfLayer"),
    "prefinal-layer": ("tdnnf", "PrefinalLayer"),
    "stats-layer": ("statistics", "StatsLayer"),
    **{f"{words}-layer": ("attention", "AttentionLayer") for words in _ATTENTION},
    **{f"{words}-layer": ("convolution", "ConvolutionLayer") for words in _CONVOLUTION},
    "res-block": ("residual", "ResBlock"),
    "res2-block": ("residual", "Res2Block"),
    "lstm-layer": ("lstm", "LstmLayer"),
    "lstmp-layer": ("lstm", "LstmpLayer"),
    "lstmp-batchnorm-layer": ("lstm", "LstmpBatchNormLayer"),
    "fast-lstm-layer": ("fast_lstm", "FastLstmLayer"),
    "fast-lstm-batchnorm-layer": ("fast_lstm", "FastLstmBatchNormLayer"),
    "lstmb-layer": ("fast_lstm", "LstmbLayer"),
    "fast-lstmp-layer": ("fast_lstm", "FastLstmpLayer"),
    "fast-lstmp-batchnorm-layer": ("fast_lstm", "FastLstmpBatchNormLayer"),
    "gru-layer": ("gru", "GruLayer"),
    "pgru-layer": ("gru", "PgruLayer"),
    "norm-pgru-layer": ("gru", "NormPgruLayer"),
    "opgru-layer": ("gru", "OpgruLayer"),
    "norm-opgru-layer": ("gru", "NormOpgruLayer"),
    "fast-gru-layer": ("fast_gru", "FastGruLayer"),
    "fast-pgru-layer": ("fast_gru", "FastPgruLayer"),
    "fast-norm-pgru-layer": ("fast_gru", "FastNormPgruLayer"),
    "fast-opgru-layer": ("fast_gru", "FastOpgruLayer"),
    "fast-norm-opgru-layer": ("fast_gru", "FastNormOpgruLayer"),
}


def layer_class(type: str, line: XconfigLine | None = None) -> type[Layer]:
    """Return the class of a layer type. Raises ConfigError (with ``line``, if given) for a type that does not exist."""
    if type not in LAYER_MODULES:
        line = line or XconfigLine(f"{type} name=x")
        raise line.error(f"there is no layer type '{type}'", did_you_mean(type, list(LAYER_MODULES)))
    module, name = LAYER_MODULES[type]
    return getattr(import_module(f"nnet3py.xconfig.{module}"), name)  # type: ignore[no-any-return]
