"""Which module holds each component type: a network imports only the types it uses. Kaldi: NewComponentOfType."""
from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from nnet3py.components.base import Component
from nnet3py.errors import ConfigError, FormatError

if TYPE_CHECKING:
    from nnet3py.io.tokens import TokenReader

_TYPES_OF_MODULE = {
    "affine": ("AffineComponent", "NaturalGradientAffineComponent", "LinearComponent", "FixedAffineComponent"),
    "repeated_affine": ("RepeatedAffineComponent", "NaturalGradientRepeatedAffineComponent", "BlockAffineComponent"),
    "constant": ("ConstantFunctionComponent", "ConstantComponent"),
    "elementwise": ("PerElementScaleComponent", "NaturalGradientPerElementScaleComponent",
                    "PerElementOffsetComponent"),
    "scale_and_offset": ("ScaleAndOffsetComponent",),
    "tdnn": ("TdnnComponent",),
    "convolution": ("TimeHeightConvolutionComponent",),
    "nonlinear": ("SigmoidComponent", "TanhComponent", "RectifiedLinearComponent", "SoftmaxComponent",
                  "LogSoftmaxComponent"),
    "normalize": ("NormalizeComponent", "BatchNormComponent"),
    "structural": ("NoOpComponent", "ElementwiseProductComponent", "SumGroupComponent", "SumBlockComponent",
                   "PermuteComponent", "FixedScaleComponent", "FixedBiasComponent"),
    "truncation": ("ClipGradientComponent", "BackpropTruncationComponent"),
    "dropout": ("DropoutComponent", "GeneralDropoutComponent"),
    "dropout_mask": ("DropoutMaskComponent",),
    "specaugment": ("SpecAugmentTimeMaskComponent",),
    "pnorm": ("PnormComponent",),
    "old_convolution": ("ConvolutionComponent", "MaxpoolingComponent"),
    "attention": ("RestrictedAttentionComponent",),
    "distribute": ("DistributeComponent",),
    "statistics_pooling": ("StatisticsExtractionComponent", "StatisticsPoolingComponent"),
    "recurrent": ("LstmNonlinearityComponent",),
    "composite": ("CompositeComponent",),
    "gru": ("GruNonlinearityComponent", "OutputGruNonlinearityComponent"),
}

PRECOMPUTED_SUFFIX = "PrecomputedIndexes"
# types whose component knows its rows by precomputed indexes: the class TypePrecomputedIndexes stands beside the type
_TYPES_WITH_PRECOMPUTED_INDEXES = (
    "BackpropTruncationComponent", "DistributeComponent", "GeneralDropoutComponent",
    "RestrictedAttentionComponent", "SpecAugmentTimeMaskComponent", "StatisticsExtractionComponent",
    "StatisticsPoolingComponent", "TdnnComponent", "TimeHeightConvolutionComponent")

COMPONENT_MODULES: dict[str, str] = {
    name: f"nnet3py.components.{module}" for module, names in _TYPES_OF_MODULE.items() for name in names}

PRECOMPUTED_MODULES: dict[str, str] = {
    name + PRECOMPUTED_SUFFIX: COMPONENT_MODULES[name] for name in _TYPES_WITH_PRECOMPUTED_INDEXES}


def precomputed_indexes_class(name: str) -> type:
    """The class of precomputed indexes of that name (``"TdnnComponentPrecomputedIndexes"``), as in files.

    It has ``read(reader)``, for what follows the opening tag, and ``write(writer)``, which writes the tag too.

    Raises
    ------
    FormatError : the name is not a known one
    """
    module = PRECOMPUTED_MODULES.get(name)
    if module is None:
        raise FormatError(f"unknown precomputed indexes '{name}'", hint=f"known are {', '.join(PRECOMPUTED_MODULES)}")
    return getattr(import_module(module), name)


def component_class(type_name: str) -> type[Component]:
    """The class of a component type, by Kaldi's name (``"AffineComponent"``); imports its module on first use.

    Raises
    ------
    ConfigError : the name is not a known component type; the hint gives the closest one
    """
    module = COMPONENT_MODULES.get(type_name)
    if module is None:
        import difflib  # rare: only errors need it

        close = difflib.get_close_matches(type_name, COMPONENT_MODULES, n=1, cutoff=0.5)
        raise ConfigError(f"Unknown component-type '{type_name}' in config file.  Check your code version and config.",
                          f"did you mean {close[0]}?" if close else None)
    return getattr(import_module(module), type_name)


def read_component_class(reader: TokenReader) -> type[Component]:
    """Read the opening tag of a component, and give its class, whose ``read`` reads on from there.

    Raises
    ------
    FormatError : a tag that is none, or not of a known type
    """
    token = reader.token()
    if not (token.startswith("<") and token.endswith(">")):
        raise reader.unexpected(token, "the opening tag of a component")
    try:
        return component_class(token[1:-1])
    except ConfigError as error:
        raise reader.error(f"unknown component type {token}", error.hint,
                           offset=reader.offset - len(token) - 1) from None
