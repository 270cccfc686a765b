"""Classes of components by type name, each imported from its module at first use. Kaldi: NewComponentOfType."""
from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from nnet3py.components.base import Component
from nnet3py.config_line import is_valid_name
from nnet3py.errors import ConfigError, FormatError

if TYPE_CHECKING:
    from nnet3py.io.tokens import TokenReader

_TYPES_OF_MODULE = {
    "affine": ("AffineComponent", "NaturalGradientAffineComponent", "LinearComponent", "FixedAffineComponent",
               "RepeatedAffineComponent", "NaturalGradientRepeatedAffineComponent", "BlockAffineComponent"),
    "elementwise": ("PerElementScaleComponent", "NaturalGradientPerElementScaleComponent",
                    "PerElementOffsetComponent", "ScaleAndOffsetComponent", "ConstantFunctionComponent",
                    "ConstantComponent"),
    "tdnn": ("TdnnComponent",),
    "convolution": ("TimeHeightConvolutionComponent",),
    "nonlinear": ("SigmoidComponent", "TanhComponent", "RectifiedLinearComponent", "SoftmaxComponent",
                  "LogSoftmaxComponent"),
    "normalize": ("NormalizeComponent", "BatchNormComponent"),
    "structural": ("NoOpComponent", "ElementwiseProductComponent", "SumGroupComponent", "SumBlockComponent",
                   "PermuteComponent", "FixedScaleComponent", "FixedBiasComponent", "PnormComponent",
                   "DistributeComponent"),
    "truncation": ("ClipGradientComponent", "BackpropTruncationComponent"),
    "dropout": ("DropoutComponent", "GeneralDropoutComponent", "DropoutMaskComponent", "SpecAugmentTimeMaskComponent"),
    "old_convolution": ("ConvolutionComponent", "MaxpoolingComponent"),
    "attention": ("RestrictedAttentionComponent",),
    "statistics_pooling": ("StatisticsExtractionComponent", "StatisticsPoolingComponent"),
    "recurrent": ("LstmNonlinearityComponent", "GruNonlinearityComponent", "OutputGruNonlinearityComponent"),
    "composite": ("CompositeComponent",),
}

PRECOMPUTED_SUFFIX = "PrecomputedIndexes"
# For each of these types, the class TypePrecomputedIndexes is in the module of the type.
_TYPES_WITH_PRECOMPUTED_INDEXES = (
    "BackpropTruncationComponent", "DistributeComponent", "GeneralDropoutComponent",
    "RestrictedAttentionComponent", "SpecAugmentTimeMaskComponent", "StatisticsExtractionComponent",
    "StatisticsPoolingComponent", "TdnnComponent", "TimeHeightConvolutionComponent")

COMPONENT_MODULES: dict[str, str] = {
    name: f"nnet3py.components.{module}" for module, names in _TYPES_OF_MODULE.items() for name in names}

PRECOMPUTED_MODULES: dict[str, str] = {
    name + PRECOMPUTED_SUFFIX: COMPONENT_MODULES[name] for name in _TYPES_WITH_PRECOMPUTED_INDEXES}


_registered: dict[str, type[Component]] = {}      # types of other programs, by register_component


def register_component(cls: type[Component]) -> type[Component]:
    """Register a component class for config lines and model files, by its name; usable as a decorator.

    Registration lasts as long as the process, and replaces a registered class of the same name. The component must be
    simple (``Properties.SIMPLE``): files cannot hold precomputed indexes of registered classes.

    Parameters
    ----------
    cls : subclass of :class:`Component`, whose name is the type's name in files

    Returns
    -------
    ``cls``

    Raises
    ------
    ConfigError : not a subclass of Component, a name that config lines cannot hold, or the name of a type of Kaldi's
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
    _registered[name] = cls
    return cls


def precomputed_indexes_class(name: str) -> type:
    """Return a class of precomputed indexes by its name in files (``"TdnnComponentPrecomputedIndexes"``).

    The class method ``read(reader)`` reads what follows the opening tag; ``write(writer)`` also writes the tag. Raises
    FormatError for an unknown name.
    """
    module = PRECOMPUTED_MODULES.get(name)
    if module is None:
        raise FormatError(f"unknown precomputed indexes '{name}'", hint=f"known are {', '.join(PRECOMPUTED_MODULES)}")
    return getattr(import_module(module), name)


def component_class(type_name: str) -> type[Component]:
    """Return the class of a component type, of Kaldi's (``"AffineComponent"``) or registered, importing its module.

    Raises
    ------
    ConfigError : an unknown name; the hint has the most similar one
    """
    if type_name in _registered:
        return _registered[type_name]
    module = COMPONENT_MODULES.get(type_name)
    if module is None:
        import difflib  # slow to load, and needed for errors only

        close = difflib.get_close_matches(type_name, [*COMPONENT_MODULES, *_registered], n=1, cutoff=0.5)
        raise ConfigError(f"Unknown component-type '{type_name}' in config file.  Check your code version and config.",
                          f"did you mean {close[0]}?" if close else None)
    return getattr(import_module(module), type_name)


def read_component_class(reader: TokenReader) -> type[Component]:
    """Read the opening tag of a component, and return its class, whose ``read`` reads the rest.

    Raises FormatError for something other than a tag, or an unknown type.
    """
    token = reader.token()
    if not (token.startswith("<") and token.endswith(">")):
        raise reader.unexpected(token, "the opening tag of a component")
    try:
        return component_class(token[1:-1])
    except ConfigError as error:
        raise reader.error(f"unknown component type {token}", error.hint,
                           offset=reader.offset - len(token) - 1) from None
