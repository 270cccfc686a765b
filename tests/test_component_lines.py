"""Of every component type: the flags of each form, and config lines that are refused."""
from __future__ import annotations

import re

import pytest
from component_configs import CONFIGS
from component_forms import make

from nnet3py.errors import ConfigError

# type -> the flags (``Properties``) of each of its lines in ``CONFIGS``
FLAGS = {
    "AffineComponent": [0x63], "NaturalGradientAffineComponent": [0x63], "LinearComponent": [0x6B],
    "FixedAffineComponent": [0x21], "RepeatedAffineComponent": [0xC63, 0xC63],
    "NaturalGradientRepeatedAffineComponent": [0xC63], "BlockAffineComponent": [0x63, 0x63],
    "ConstantFunctionComponent": [0x23, 0x27, 0x23, 0x21], "ConstantComponent": [0x2, 0x2, 0x0],
    "PerElementScaleComponent": [0x147], "NaturalGradientPerElementScaleComponent": [0x147],
    "PerElementOffsetComponent": [0x107, 0x907, 0x107], "ScaleAndOffsetComponent": [0x187, 0xD87, 0x187],
    "TdnnComponent": [0x72, 0x7A, 0x72], "TimeHeightConvolutionComponent": [0xC72, 0xC72, 0xC72, 0xC72],
    "SigmoidComponent": [0x285], "TanhComponent": [0x285], "RectifiedLinearComponent": [0x285, 0x685],
    "SoftmaxComponent": [0x385], "LogSoftmaxComponent": [0x281], "NormalizeComponent": [0x165, 0x61, 0xD65, 0xC61],
    "BatchNormComponent": [0x1385, 0x1F85, 0xD85], "NoOpComponent": [0x105, 0x105],
    "ElementwiseProductComponent": [0x41, 0x41], "SumGroupComponent": [0x1, 0x1], "SumBlockComponent": [0x29],
    "PermuteComponent": [0x1], "FixedScaleComponent": [0x105, 0x105], "FixedBiasComponent": [0x105],
    "ClipGradientComponent": [0x145, 0x145, 0x145], "BackpropTruncationComponent": [0x104, 0x104],
    "DropoutComponent": [0x21C1, 0x21C1, 0x21C1],
    "GeneralDropoutComponent": [0x3104, 0x3D04, 0x3104, 0x3104, 0x3104, 0x3104],
    "DropoutMaskComponent": [0x2000, 0x2000, 0x2000, 0x2000], "SpecAugmentTimeMaskComponent": [0x3104, 0x3104],
    "RestrictedAttentionComponent": [0x1278, 0x1278], "DistributeComponent": [0x0, 0x0], "PnormComponent": [0xC1, 0xC1],
    "ConvolutionComponent": [0x6B, 0x6B], "MaxpoolingComponent": [0xE1], "StatisticsExtractionComponent": [0x58, 0x18],
    "StatisticsPoolingComponent": [0x70, 0xF0, 0xB0, 0xB0], "CompositeComponent": [0x63, 0xE3, 0x4B, 0xE1, 0xE3],
    "GruNonlinearityComponent": [0xE3, 0xE3], "OutputGruNonlinearityComponent": [0xE3, 0xE3],
    "LstmNonlinearityComponent": [0x43, 0x43],
}
BLOCKS = ["input-dim=6 output-dim=4", "input-dim=6 {}=2", "output-dim=4 {}=2",
          *(f"input-dim=6 output-dim=4 {{}}={count}" for count in (0, -2, 3, 4)), "input-dim=0 output-dim=4 {}=2",
          *(f"input-dim=6 output-dim=4 {{}}=2 {key}=-1" for key in ("param-stddev", "bias-stddev", "max-change"))]
GRU = ["", "cell-dim=0", *(f"cell-dim=4 {wrong}" for wrong in (
    "self-repair-threshold=-1", "self-repair-scale=-1", "param-stddev=-1", "update-period=0", "alpha=-1"))]
CONVOLUTION = ("input-x-dim=5 input-y-dim=4 input-z-dim=2 filt-x-dim=3 filt-y-dim=2 filt-x-step=2 filt-y-step=1 "
               "num-filters=3")
POOLING = ("input-x-dim=5 input-y-dim=4 input-z-dim=2 pool-x-size=3 pool-y-size=2 pool-z-size=1 pool-x-step=2 "
           "pool-y-step=1 pool-z-step=1")
POOLED = "input-dim=5 left-context=1 right-context=1"
# type -> lines with a key that is missing or a value that is impossible
IMPOSSIBLE = {
    "RepeatedAffineComponent": [line.format("num-repeats") for line in BLOCKS],
    "NaturalGradientRepeatedAffineComponent": [line.format("num-repeats") for line in BLOCKS],
    "BlockAffineComponent": [line.format("num-blocks") for line in BLOCKS],
    "PerElementScaleComponent": ["dim=0", "param-mean=1", "dim=3 param-stddev=-1"],
    "PerElementOffsetComponent": ["dim=6 block-dim=4", "dim=6 block-dim=0"],
    "ScaleAndOffsetComponent": ["dim=-6 block-dim=3", "dim=6 rank=0"],
    "NaturalGradientPerElementScaleComponent": ["dim=6 rank=-1"],
    "ConstantFunctionComponent": ["output-dim=3", "input-dim=3", "input-dim=-1 output-dim=3",
                                  "input-dim=3 output-dim=0", "input-dim=3 output-dim=3 max-change=-1"],
    "ConstantComponent": ["", "output-dim=0", "output-dim=3 learning-rate=-1"],
    "SigmoidComponent": ["block-dim=3", "dim=0", "dim=-1", "dim=6 block-dim=4", "dim=6 block-dim=0"],
    "NormalizeComponent": ["", "dim=0", "dim=6 block-dim=4", "dim=6 target-rms=0", "input-dim=-2"],
    "BatchNormComponent": ["dim=6 block-dim=4", "dim=6 block-dim=0", "dim=6 epsilon=0", "dim=6 target-rms=-1"],
    "NoOpComponent": ["backprop-scale=1", "dim=0"],
    "ElementwiseProductComponent": ["input-dim=6", "input-dim=6 output-dim=6", "input-dim=6 output-dim=4"],
    "SumBlockComponent": ["input-dim=6 output-dim=4", "output-dim=4"],
    "SumGroupComponent": ["sizes=1,0", "sizes=1,x", "input-dim=6 output-dim=4", ""],
    "PermuteComponent": ["column-map=0,2", "", "column-map=0,0"],
    "FixedScaleComponent": [""], "FixedBiasComponent": ["dim=-1"],
    "DistributeComponent": ["", "input-dim=12", "output-dim=4", "input-dim=12 output-dim=5", "input-dim=0 output-dim=4",
                            "input-dim=12 output-dim=-4"],
    "ClipGradientComponent": ["", "dim=6 clipping-threshold=-1", "dim=6 self-repair-scale=-1",
                              "dim=6 self-repair-target=-1", "dim=6 self-repair-clipped-proportion-threshold=-1"],
    "BackpropTruncationComponent": ["", "dim=4 scale=0", "dim=4 clipping-threshold=-1", "dim=4 zeroing-interval=0",
                                    "dim=4 recurrence-interval=0"],
    "DropoutComponent": ["dim=6", "dropout-proportion=0.5", "dim=6 dropout-proportion=1.5",
                         "dim=6 dropout-proportion=-0.5"],
    "GeneralDropoutComponent": ["", "dim=6 block-dim=4", "dim=6 time-period=-1", "dim=6 specaugment-max-proportion=2",
                                "dim=6 specaugment-max-proportion=0.5 continuous=true",
                                "dim=6 specaugment-max-proportion=0.5 specaugment-max-regions=0",
                                "dim=6 specaugment-max-proportion=0.5 specaugment-max-regions=1000000"],
    "DropoutMaskComponent": ["", "output-dim=0", "output-dim=3 dropout-proportion=1.5",
                             "output-dim=3 dropout-proportion=-0.1"],
    "SpecAugmentTimeMaskComponent": ["", "dim=0", "dim=3 time-mask-max-frames=1", "dim=3 zeroed-proportion=1",
                                     "dim=3 zeroed-proportion=0.95", "dim=3 zeroed-proportion=-0.1"],
    "RestrictedAttentionComponent": [
        "value-dim=2 num-left-inputs=1 num-right-inputs=1", "key-dim=2 num-left-inputs=1 num-right-inputs=1",
        "key-dim=2 value-dim=2 num-left-inputs=1", "key-dim=2 value-dim=2 num-right-inputs=1",
        "key-dim=2 value-dim=2 num-left-inputs=0 num-right-inputs=0",
        *(f"key-dim=2 value-dim=2 num-left-inputs=1 num-right-inputs=1 {wrong}" for wrong in (
            "num-heads=0", "time-stride=0", "num-left-inputs-required=2", "num-right-inputs-required=2", "key-scale=0",
            "key-scale=1.5", "num-heads=100000000"))],
    "PnormComponent": ["", "input-dim=6", "output-dim=2", "input-dim=6 output-dim=4", "input-dim=-6 output-dim=-3"],
    "ConvolutionComponent": [CONVOLUTION.replace(*change) for change in (
        ("input-x-dim=5", ""), ("input-x-dim=5", "input-x-dim=6"), ("filt-x-dim=3", "filt-x-dim=6"),
        ("num-filters=3", ""), ("filt-y-step=1", "filt-y-step=0"),
        *(("num-filters=3", f"num-filters=3 {key}") for key in (
            "input-vectorization-order=xyz", "bias-stddev=-1", "param-stddev=-1")))],
    "MaxpoolingComponent": [POOLING.replace(*change) for change in (
        ("input-x-dim=5", ""), ("input-x-dim=5", "input-x-dim=6"), ("pool-x-size=3", "pool-x-size=6"),
        ("pool-y-step=1", "pool-y-step=3"), ("pool-z-step=1", "pool-z-step=0"))],
    "StatisticsExtractionComponent": ["", "input-dim=0", "input-dim=3 input-period=0", "input-dim=3 output-period=0",
                                      "input-dim=3 input-period=2 output-period=3", "input-dim=3 input-period=2"],
    "StatisticsPoolingComponent": [
        "left-context=1 right-context=1", "input-dim=5", "input-dim=5 left-context=1",
        "input-dim=5 left-context=0 right-context=0", "input-dim=5 left-context=3 right-context=2 input-period=2",
        "input-dim=5 left-context=2 right-context=2 input-period=0", f"{POOLED} num-log-count-features=-1",
        f"{POOLED.replace('5', '4')} output-stddevs=true", f"{POOLED} variance-floor=0", f"{POOLED} variance-floor=1",
        POOLED.replace("5", "1"), "input-dim=5 left-context=0 right-context=2000000000"],
    "GruNonlinearityComponent": [*GRU, "cell-dim=4 recurrent-dim=0", "cell-dim=4 recurrent-dim=5",
                                 "cell-dim=4 rank-in=0"],
    "OutputGruNonlinearityComponent": [*GRU, "cell-dim=4 rank=0"],
    "LstmNonlinearityComponent": ["", *(f"cell-dim=4 {wrong}" for wrong in (
        "param-stddev=-1", "self-repair-scale=0.2", "tanh-self-repair-threshold=1.5",
        "sigmoid-self-repair-threshold=0.3"))],
}


@pytest.mark.parametrize("type_name", CONFIGS)
def test_flags(type_name):
    assert [int(make(type_name, line).properties) for line in CONFIGS[type_name]] == FLAGS[type_name]


@pytest.mark.parametrize(("type_name", "line"), [(name, line) for name, lines in IMPOSSIBLE.items() for line in lines])
def test_impossible_config_lines(type_name, line):
    with pytest.raises(ConfigError, match=f"Bad initializer {re.escape(line.strip())}|"
                                          f"Invalid initializer for layer of type {type_name}"):
        make(type_name, line)
