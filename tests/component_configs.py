"""Config lines of every component type, small and odd, for tests that go through all of them.

``CONFIGS`` maps a type to what may follow ``component name=c type=TYPE``: at least one line for each form that computes
differently (blocks, without bias, further outputs …).
"""
from __future__ import annotations

CONFIGS: dict[str, list[str]] = {
    "AffineComponent": ["input-dim=5 output-dim=3"],
    "NaturalGradientAffineComponent": ["input-dim=5 output-dim=3"],
    "LinearComponent": ["input-dim=5 output-dim=3"],
    "FixedAffineComponent": ["input-dim=5 output-dim=3"],
    "RepeatedAffineComponent": ["input-dim=6 output-dim=9 num-repeats=3", "input-dim=4 output-dim=3 num-repeats=1"],
    "NaturalGradientRepeatedAffineComponent": ["input-dim=6 output-dim=9 num-repeats=3"],
    "BlockAffineComponent": ["input-dim=6 output-dim=9 num-blocks=3", "input-dim=4 output-dim=3 num-blocks=1"],
    "ConstantFunctionComponent": ["input-dim=3 output-dim=5", "input-dim=5 output-dim=5",
                                  "input-dim=3 output-dim=5 use-natural-gradient=false",
                                  "input-dim=3 output-dim=5 output-stddev=1 is-updatable=false"],
    "ConstantComponent": ["output-dim=5", "output-dim=5 use-natural-gradient=false",
                          "output-dim=5 output-stddev=1 is-updatable=false"],
    "PerElementScaleComponent": ["dim=5 param-stddev=1"],
    "NaturalGradientPerElementScaleComponent": ["dim=5 param-stddev=1"],
    "PerElementOffsetComponent": ["dim=6 param-stddev=1", "dim=6 block-dim=3 param-stddev=1",
                                  "dim=6 param-stddev=1 use-natural-gradient=false"],
    "ScaleAndOffsetComponent": ["dim=6", "dim=6 block-dim=3", "dim=6 use-natural-gradient=false"],
    "TdnnComponent": ["input-dim=3 output-dim=5 time-offsets=-1,0,2",
                      "input-dim=3 output-dim=5 time-offsets=-3,0 use-bias=false",
                      "input-dim=3 output-dim=2 time-offsets=0,3,-3 use-natural-gradient=false"],
    "TimeHeightConvolutionComponent": [
        "num-filters-in=2 num-filters-out=3 height-in=4 height-out=4 height-offsets=-1,0,1 time-offsets=-1,0,1 "
        "bias-stddev=1",
        "num-filters-in=1 num-filters-out=2 height-in=5 height-out=2 height-subsample-out=2 offsets=-3,0;0,0;0,2 "
        "use-natural-gradient=false max-memory-mb=1e-6",
        "num-filters-in=3 num-filters-out=3 height-in=2 height-out=2 offsets=0,0 init-unit=true",
        "num-filters-in=1 num-filters-out=2 height-in=3 height-out=3 height-offsets=0,1 time-offsets=-1,0,2 "
        "required-time-offsets=0"],
    "SigmoidComponent": ["dim=5"],
    "TanhComponent": ["dim=5"],
    "RectifiedLinearComponent": ["dim=6", "dim=6 block-dim=3"],
    "SoftmaxComponent": ["dim=5"],
    "LogSoftmaxComponent": ["dim=5"],
    "NormalizeComponent": ["dim=6", "dim=6 target-rms=0.5 add-log-stddev=true", "dim=6 block-dim=3",
                           "dim=6 block-dim=2 add-log-stddev=true"],
    "BatchNormComponent": ["dim=6", "dim=6 block-dim=3 target-rms=0.5", "dim=6 block-dim=2 test-mode=true"],
    "NoOpComponent": ["dim=5", "dim=5 backprop-scale=0.25"],
    "ElementwiseProductComponent": ["input-dim=6 output-dim=3", "input-dim=9 output-dim=3"],
    "SumGroupComponent": ["sizes=1,3,2", "input-dim=6 output-dim=2"],
    "SumBlockComponent": ["input-dim=6 output-dim=2 scale=0.75"],
    "PermuteComponent": ["column-map=3,0,1,4,2"],
    "FixedScaleComponent": ["dim=5", "dim=5 scale=2.5"],
    "FixedBiasComponent": ["dim=5"],
    "ClipGradientComponent": ["dim=5 clipping-threshold=1", "dim=5 clipping-threshold=1 norm-based-clipping=true",
                              "dim=5 clipping-threshold=0"],
    "BackpropTruncationComponent": [
        "dim=5 scale=0.75 clipping-threshold=1.5 zeroing-threshold=1 zeroing-interval=2 recurrence-interval=1",
        "dim=5 clipping-threshold=0 zeroing-threshold=0"],
    "DropoutComponent": ["dim=5 dropout-proportion=0.25", "dim=5 dropout-proportion=0.25 dropout-per-frame=true",
                         "dim=5 dropout-proportion=0.25 test-mode=true"],
    "GeneralDropoutComponent": [
        "dim=6", "dim=6 block-dim=3 time-period=2", "dim=6 time-period=2 continuous=true", "dim=6 test-mode=true",
        "dim=6 specaugment-max-proportion=0.5 specaugment-max-regions=2", "dim=6 dropout-proportion=0"],
    "DropoutMaskComponent": ["output-dim=3 dropout-proportion=0.25", "output-dim=5 dropout-proportion=0.25",
                             "output-dim=3 dropout-proportion=0.25 continuous=true", "output-dim=2 test-mode=true"],
    "SpecAugmentTimeMaskComponent": ["dim=5 zeroed-proportion=0.5 time-mask-max-frames=2",
                                     "dim=5 zeroed-proportion=0"],
    "RestrictedAttentionComponent": [
        "num-heads=2 key-dim=3 value-dim=2 num-left-inputs=2 num-right-inputs=1 num-left-inputs-required=0 "
        "num-right-inputs-required=1",
        "key-dim=2 value-dim=3 num-left-inputs=1 num-right-inputs=2 num-right-inputs-required=0 time-stride=2 "
        "output-context=false key-scale=0.25"],
    "DistributeComponent": ["input-dim=6 output-dim=2", "input-dim=3 output-dim=3"],
    "PnormComponent": ["input-dim=6 output-dim=2", "input-dim=3 output-dim=3"],
    "ConvolutionComponent": [
        "input-x-dim=4 input-y-dim=3 input-z-dim=2 filt-x-dim=2 filt-y-dim=2 filt-x-step=1 filt-y-step=1 num-filters=3",
        "input-x-dim=5 input-y-dim=3 input-z-dim=2 filt-x-dim=3 filt-y-dim=1 filt-x-step=2 filt-y-step=2 num-filters=2 "
        "input-vectorization-order=yzx"],
    "MaxpoolingComponent": [
        "input-x-dim=4 input-y-dim=3 input-z-dim=2 pool-x-size=2 pool-y-size=2 pool-z-size=1 pool-x-step=2 "
        "pool-y-step=1 pool-z-step=1"],
    "StatisticsExtractionComponent": ["input-dim=3 input-period=2 output-period=4",
                                      "input-dim=3 output-period=2 include-variance=false"],
    "StatisticsPoolingComponent": [
        "input-dim=5 left-context=2 right-context=1",
        "input-dim=5 input-period=3 left-context=3 right-context=6 output-stddevs=true",
        "input-dim=4 left-context=0 right-context=2 num-log-count-features=2",
        "input-dim=5 left-context=1 right-context=1 num-log-count-features=1 output-stddevs=true"],
    "CompositeComponent": [
        "max-rows-process=2 num-components=3 component1='type=AffineComponent input-dim=5 output-dim=4' "
        "component2='type=RectifiedLinearComponent dim=4' "
        "component3='type=NaturalGradientAffineComponent input-dim=4 output-dim=3'",
        "num-components=2 component1='type=LinearComponent input-dim=3 output-dim=5 rank-in=2' "
        "component2='type=BatchNormComponent dim=5'",
        "max-rows-process=3 num-components=4 component1='type=BatchNormComponent dim=4' "
        "component2='type=NaturalGradientRepeatedAffineComponent input-dim=4 output-dim=6 num-repeats=2' "
        "component3='type=TanhComponent dim=6' component4='type=LinearComponent input-dim=6 output-dim=2'",
        "max-rows-process=0 num-components=2 component1='type=NormalizeComponent dim=5' "
        "component2='type=SigmoidComponent dim=5'",
        "max-rows-process=4 num-components=1 component1='type=GruNonlinearityComponent cell-dim=2'"],
    "GruNonlinearityComponent": ["cell-dim=3", "cell-dim=3 recurrent-dim=2 rank-in=1 rank-out=2 update-period=1"],
    "OutputGruNonlinearityComponent": ["cell-dim=3", "cell-dim=2 rank=1 update-period=1 self-repair-scale=0"],
    "LstmNonlinearityComponent": ["cell-dim=3", "cell-dim=2 use-dropout=true self-repair-scale=0"],
}
