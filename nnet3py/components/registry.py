"""Which module holds each component type: a network imports only the types it uses. Kaldi: NewComponentOfType."""
from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from nnet3py.components.base import Component
from nnet3py.config_line import is_valid_name
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
# types with precomputed indexes: the class TypePrecomputedIndexes is in the module of the type
_TYPES_WITH_PRECOMPUTED_INDEXES = (
    "BackpropTruncationComponent", "DistributeComponent", "GeneralDropoutComponent",
    "RestrictedAttentionComponent", "SpecAugmentTimeMaskComponent", "StatisticsExtractionComponent",
    "StatisticsPoolingComponent", "TdnnComponent", "TimeHeightConvolutionComponent")

COMPONENT_MODULES: dict[str, str] = {
    name: f"nnet3py.components.{module}" for module, names in _TYPES_OF_MODULE.items() for name in names}

PRECOMPUTED_MODULES: dict[str, str] = {
    name + PRECOMPUTED_SUFFIX: COMPONENT_MODULES[name] for name in _TYPES_WITH_PRECOMPUTED_INDEXES}


_FROM_OUTSIDE: dict[str, type[Component]] = {}      # given to register_component


def register_component(cls: type[Component]) -> type[Component]:
    """Make a component class known by its name to config lines and model files; returns it, so it can be a decorator.

    It is known in this process, from then on. A class of the same name that was registered before is replaced. It must
    be a simple component (``Properties.SIMPLE``): files cannot hold precomputed indexes of outside classes.

    Parameters
    ----------
    cls : a subclass of :class:`Component`, whose name is the type's

    Returns
    -------
    ``cls``

    Raises
    ------
    ConfigError : not a subclass of Component, a name that config lines cannot hold, or one of Kaldi's types
    """
    if not (isinstance(cls, type) and issubclass(cls, Component)):
        raise ConfigError(f"expected a subclass of Component to register, found {cls!r}")
    name = cls.__name__
    if name in COMPONENT_MODULES:
        raise ConfigError(f"'{name}' is one of Kaldi's component types, and cannot be registered",
                          "give the class another name")
    if not is_valid_name(name):
        raise ConfigError(f"'{name}' cannot be the name of a component type",
                          "config lines take letters, digits and _ only")
    _FROM_OUTSIDE[name] = cls
    return cls


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

    Types from :func:`register_component` are included.

    Raises
    ------
    ConfigError : the name is not a known component type; the hint gives the closest one
    """
    if type_name in _FROM_OUTSIDE:
        return _FROM_OUTSIDE[type_name]
    module = COMPONENT_MODULES.get(type_name)
    if module is None:
        import difflib  # rare: only errors need it

        close = difflib.get_close_matches(type_name, [*COMPONENT_MODULES, *_FROM_OUTSIDE], n=1, cutoff=0.5)
        raise ConfigError(f"Unknown component-type '{type_name}' in config file.  Check your code version and config.",
                          f"did you mean {close[0]}?" if close else None)
    return getattr(import_module(module), type_name)


def read_component_class(reader: TokenReader) -> type[Component]:
    """Read the opening tag of a component, and return its class, whose ``read`` continues from there.

    Raises
    ------
    FormatError : something other than a tag, or an unknown type
    """
    token = reader.token()
    if not (token.startswith("<") and token.endswith(">")):
        raise reader.unexpected(token, "the opening tag of a component")
    try:
        return component_class(token[1:-1])
    except ConfigError as error:
        raise reader.error(f"unknown component type {token}", error.hint,
                           offset=reader.offset - len(token) - 1) from None
