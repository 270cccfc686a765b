"""An example of each layer type, for every way in which it is built differently."""
from __future__ import annotations

INPUT_DIM = 24

_CONVOLUTION = "height-in=6 height-out=6 height-offsets=-1,0,1 time-offsets=-1,0,1 num-filters-out=5"
_SUBSAMPLED = ("height-in=6 height-out=3 height-subsample-out=2 height-offsets=-1,0,1 time-offsets=-2,0 "
               "required-time-offsets=0 num-filters-out=2 rank-in=3 alpha-out=4.0 param-stddev=0.1 l2-regularize=0.01")
_NO_CONVOLUTION = "height-in=6 height-out=6 num-filters-out=4"
_ATTENTION = "value-dim=3 key-dim=4 num-left-inputs=2 num-right-inputs=1 time-stride=2"
_PROJECTED = ["cell-dim=12", "cell-dim=12 recurrent-projection-dim=5 non-recurrent-projection-dim=2 delay=3"]
_BASIC = ["dim=7", "", "dim=9 bottleneck-dim=4 l2-regularize=0.01 learning-rate-factor=0.5 bias-stddev=0.1 "
          'input=Append(-1,0,2) ng-affine-options="update-period=2 alpha=3.0" ng-linear-options=" max-change=0.5"']

LAYERS: dict[str, list[str]] = {
    "input": ["dim=3"],
    "output": ["", "objective-type=quadratic output-delay=2 input=Append(0, 1)"],
    "output-layer": ["dim=5", "", "dim=9 bottleneck-dim=4 include-log-softmax=false output-delay=-1 objective-type="
                     "quadratic l2-regularize=0.1 learning-rate-factor=2.0 ng-linear-options=update-period=2"],
    "relu-layer": _BASIC,
    "relu-renorm-layer": ["dim=7", "dim=8 add-log-stddev=true target-rms=0.5"],
    "relu-batchnorm-layer": _BASIC[:1],
    "relu-batchnorm-dropout-layer": ["dim=7", "dropout-per-dim=true", "dropout-per-dim-continuous=True dim=8"],
    "relu-dropout-layer": _BASIC[:1],
    "relu-batchnorm-so-layer": _BASIC[:1],
    "batchnorm-so-relu-layer": _BASIC[:1],
    "batchnorm-layer": _BASIC[:1],
    "sigmoid-layer": _BASIC[:1],
    "tanh-layer": _BASIC,
    "fixed-affine-layer": ["affine-transform-file=lda.mat input=input",
                           "affine-transform-file=lda.mat delay=2 input=Append(input@-1, input)",
                           "affine-transform-file=lda.mat dim=5 write-init-config=false"],
    "affine-layer": ["dim=6", "", "dim=4 param-stddev=0.1 l2-regularize=0.02 ng-affine-options=update-period=2"],
    "idct-layer": ["affine-transform-file=idct.mat", "affine-transform-file=idct.mat cepstral-lifter=0 dim=20 "
                   "include-in-init=true"],
    "spec-augment-layer": ["", "freq-max-proportion=0.3 include-in-init=true"],
    "renorm-component": ["", "target-rms=0.5"],
    "batchnorm-component": ["", "include-in-init=true"],
    "no-op-component": ["", "input=Append(0, Scale(2, first@-1))"],
    "linear-component": ["dim=5", "orthonormal-constraint=1.0 param-stddev=0.2"],
    "affine-component": ["dim=5", "bias-stddev=0.2 l2-regularize=0.1"],
    "scale-component": ["", "param-mean=1.0 param-stddev=0.1 l2-regularize=0.1 learning-rate-factor=0.5"],
    "offset-component": ["", "param-mean=0.5 param-stddev=0.1"],
    "dim-range-component": ["", "dim=3 dim-offset=4"],
    "combine-feature-maps-layer": ["height=4 num-filters1=1 num-filters2=5",
                                   "height=2 num-filters1=3 num-filters2=4 num-filters3=5"],
    "channel-average-layer": ["dim=6"],
    "delta-layer": [""],
    "tdnnf-layer": ["dim=24 bottleneck-dim=4", "dim=30 bottleneck-dim=8 bypass-scale=0.0 time-stride=3",
                    "dim=24 bottleneck-dim=4 dropout-proportion=0.0 context=left-only", "dim=24 bottleneck-dim=4 "
                    "time-stride=0 l2-regularize=0.1", "dim=24 bottleneck-dim=4 context=shift-left bypass-scale=-0.5",
                    "dim=9 bottleneck-dim=4 context=none bypass-scale=0 dropout-proportion=0.2"],
    "prefinal-layer": ["big-dim=20 small-dim=6", "big-dim=20 small-dim=6 l2-regularize=0.1"],
    "stats-layer": ["config=mean(-9:1:3:9)", "config=mean+stddev(-4:1:2:4)", "config=mean+count(0:1:1:10)",
                    "config=mean+stddev+count(-99:3:9:99) dim=49"],
    "attention-renorm-layer": [_ATTENTION, f"{_ATTENTION} num-heads=3 output-context=false key-scale=0.1"],
    "attention-relu-renorm-layer": [_ATTENTION],
    "attention-relu-batchnorm-layer": [f"{_ATTENTION} num-left-inputs-required=1 num-right-inputs-required=0 "
                                       "learning-rate-factor=0.5 l2-regularize=0.1"],
    "relu-renorm-attention-layer": [_ATTENTION],
    **{f"{words}-layer": [_SUBSAMPLED] for words in (
        "relu-conv", "conv-relu", "conv-renorm", "relu-conv-renorm", "batchnorm-conv", "conv-relu-renorm",
        "batchnorm-conv-relu", "relu-batchnorm-conv", "conv-relu-batchnorm", "conv-relu-batchnorm-so",
        "conv-relu-batchnorm-dropout", "conv-relu-dropout")},
    "conv-layer": [_CONVOLUTION, _SUBSAMPLED],
    "relu-batchnorm-noconv-layer": [_NO_CONVOLUTION],
    "relu-noconv-layer": [_NO_CONVOLUTION],
    "res-block": ["height=6", "height=6 num-filters=4 num-bottleneck-filters=2 bypass-source=relu",
                  "height=8 bypass-source=input allow-zero-padding=false", "height=8 bypass-source=batchnorm "
                  "height-period=2 time-period=3", "height=6 num-bottleneck-filters=2 l2-regularize=0.1"],
    "res2-block": ["height=6 num-filters=4", "height=6 num-filters=5 num-bottleneck-filters=2",
                   "height-in=6 height-out=3 num-filters=8 time-period=2",
                   "height-in=6 height-out=3 num-filters=4 num-bottleneck-filters=2 allow-zero-padding=false"],
    "lstm-layer": ["cell-dim=6", "delay=-3 decay-time=20 l2-regularize=0.01",
                   'cell-dim=6 delay=2 ng-per-element-scale-options="param-mean=0.1 max-change=0.5"'],
    "lstmp-layer": [*_PROJECTED, "cell-dim=12 dropout-proportion=0.2 dropout-per-frame=true"],
    "lstmp-batchnorm-layer": _PROJECTED,
    "fast-lstm-layer": ["cell-dim=6", "delay=3 decay-time=9 l2-regularize=0.01"],
    "fast-lstm-batchnorm-layer": ["cell-dim=6"],
    "lstmb-layer": ["cell-dim=6 bottleneck-dim=4", "cell-dim=6 bottleneck-dim=4 self-scale=0.5 delay=-3 "
                    "l2-regularize=0.1"],
    "fast-lstmp-layer": [*_PROJECTED, "cell-dim=12 dropout-proportion=0.2 l2-regularize=0.1"],
    "fast-lstmp-batchnorm-layer": _PROJECTED,
    "gru-layer": ["cell-dim=6", "delay=-3"],
    "pgru-layer": _PROJECTED,
    "norm-pgru-layer": [*_PROJECTED, "cell-dim=12 dropout-proportion=0.2"],
    "opgru-layer": _PROJECTED,
    "norm-opgru-layer": [*_PROJECTED, "cell-dim=12 dropout-proportion=0.2 dropout-per-frame=false l2-regularize=0.1"],
    "fast-gru-layer": ["cell-dim=6", "delay=3"],
    "fast-pgru-layer": _PROJECTED,
    "fast-norm-pgru-layer": [*_PROJECTED, "cell-dim=12 dropout-proportion=0.2"],
    "fast-opgru-layer": _PROJECTED,
    "fast-norm-opgru-layer": [*_PROJECTED, "cell-dim=12 dropout-proportion=0.2 dropout-per-frame=false"],
}

CASES = [(type, options) for type, lines in LAYERS.items() for options in lines]


def xconfig(type: str, options: str) -> str:
    """A whole xconfig file around one layer called ``layer``; what follows takes its output."""
    if type == "input":
        return f"input name=input {options}\noutput name=output"
    source = f"input name=input dim={INPUT_DIM}\nno-op-component name=first\n"
    quoted = options.replace("ng-affine-options=update-period=2", 'ng-affine-options="update-period=2"')
    quoted = quoted.replace("ng-linear-options=update-period=2", 'ng-linear-options="update-period=2"')
    if type in ("output", "output-layer"):
        return f"{source}{type} name=output {quoted}"
    return f"{source}{type} name=layer {quoted}\noutput name=output input=layer"
