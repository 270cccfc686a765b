"""What trainable components share: learning rate and its relatives, their file prefix and information text.

Kaldi: ``UpdatableComponent``. Limits on the size of a change, l2 and orthonormal constraints are the trainer's work;
the component only holds their settings.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeGuard

import numpy as np

from nnet3py.components.base import Component, Properties
from nnet3py.components.fields import OLDER, Field, Values, fields_info, take_part
from nnet3py.components.natural_gradient import OnlineNaturalGradient
from nnet3py.errors import ConfigError
from nnet3py.formats.matrices import read_matrix, read_vector
from nnet3py.io.object_files import read_object

if TYPE_CHECKING:
    from typing_extensions import Self

    from nnet3py.config_line import ConfigLine
    from nnet3py.io.tokens import TokenReader


@dataclass
class UpdateSettings:
    """The settings of one trainable component; ``learning_rate`` is the effective one, including the factor."""

    learning_rate: float = 0.001
    learning_rate_factor: float = 1.0
    max_change: float = 0.0        # 0: no limit
    l2_regularize: float = 0.0
    is_gradient: bool = False

    @classmethod
    def from_config(cls, line: ConfigLine) -> UpdateSettings:
        """Consume the four keys of a config line.

        Raises
        ------
        ConfigError : a negative value
        """
        settings = cls(line.get_float("learning-rate", 0.001), line.get_float("learning-rate-factor", 1.0),
                       line.get_float("max-change", 0.0), line.get_float("l2-regularize", 0.0))
        if not all(value >= 0.0 for value in (settings.learning_rate, settings.learning_rate_factor,
                                              settings.max_change, settings.l2_regularize)):
            raise bad_initializer(line, "learning-rate, learning-rate-factor, max-change and l2-regularize "
                                        "must not be negative")
        return settings


class BeforeFreezing(NamedTuple):
    """What a frozen component gets back."""

    learning_rate: float
    learning_rate_factor: float


# the first fields in files of trainable components
SETTINGS = (Field("<LearningRateFactor>", "float32", "learning_rate_factor", "learning-rate-factor", 1.0, True),
            Field("<IsGradient>", "boolean", "is_gradient", "is-gradient", False, True),
            Field("<MaxChange>", "float32", "max_change", "max-change", 0.0, True),
            Field("<L2Regularize>", "float32", "l2_regularize", "l2-regularize", 0.0, True),
            Field("<LearningRate>", "float32", "learning_rate", "learning-rate"))
OLDER_SETTINGS = (*SETTINGS[:-1], SETTINGS[-1]._replace(default=0.001))                 # of types that once lacked it
OLDER_GRADIENT_MARK = Field("<IsGradient>", "boolean", "is_gradient", default=OLDER)    # after the parameters
SETTINGS_INFO = ("input-dim", "output-dim", "learning-rate", "is-gradient", "l2-regularize", "learning-rate-factor",
                  "max-change")


class UpdatableComponent(Component):
    """A component with parameters that training changes. Set ``settings`` after making one from a file or config.

    ``PRECONDITIONER`` has those arguments of its preconditioners that files do not hold; ``before_freezing`` what
    ``unfreeze`` restores, None if the component was never frozen in this process.
    """

    PRECONDITIONER: ClassVar[Values] = {}
    before_freezing: BeforeFreezing | None = None

    def __init__(self, settings: UpdateSettings | None = None) -> None:
        settings = settings or UpdateSettings()
        self.learning_rate = settings.learning_rate
        self.learning_rate_factor = settings.learning_rate_factor
        self.max_change = settings.max_change
        self.l2_regularize = settings.l2_regularize
        self.is_gradient = settings.is_gradient

    # -- what the trainer asks ---------------------------------------------------------------------------------------

    def set_underlying_learning_rate(self, rate: float) -> None:
        """Set the learning rate to ``rate`` times the component's factor."""
        self.learning_rate = float(np.float32(rate) * np.float32(self.learning_rate_factor))
        if self.before_freezing is not None:
            factor = self.before_freezing.learning_rate_factor
            self.before_freezing = BeforeFreezing(float(np.float32(rate) * np.float32(factor)), factor)

    def set_actual_learning_rate(self, rate: float) -> None:
        """Set the learning rate, whatever the component's factor."""
        self.learning_rate = float(np.float32(rate))

    @property
    def is_frozen(self) -> bool:
        """Whether learning rates that are set leave the component as it is: its factor is 0."""
        return self.learning_rate_factor == 0.0

    def freeze(self) -> None:
        """Set learning rate and factor to 0, and remember what they were."""
        if not self.is_frozen:
            self.before_freezing = BeforeFreezing(self.learning_rate, self.learning_rate_factor)
        self.learning_rate = self.learning_rate_factor = 0.0

    def unfreeze(self, rate: float) -> None:
        """Restore what ``freeze`` has remembered; if there is nothing, the factor is 1 and the learning rate ``rate``.

        A component that is not frozen stays as it is.
        """
        if self.is_frozen:
            before = self.before_freezing or BeforeFreezing(float(np.float32(rate)), 1.0)
            self.learning_rate, self.learning_rate_factor = before
            self.before_freezing = None

    def set_as_gradient(self) -> None:
        """From now on updates are plain derivatives: learning rate 1, no natural gradient."""
        self.learning_rate = 1.0
        self.is_gradient = True

    def copy_settings(self, other: UpdatableComponent) -> None:
        """Copy learning rate, factor, limits and gradient mark. Kaldi: SetUpdatableConfigs."""
        for name in ("learning_rate", "learning_rate_factor", "before_freezing", "max_change", "l2_regularize",
                     "is_gradient"):
            setattr(self, name, getattr(other, name))

    def preconditioners(self) -> tuple[OnlineNaturalGradient, ...]:
        """The natural-gradient objects that ``freeze_natural_gradient`` freezes."""
        return ()

    def freeze_natural_gradient(self, freeze: bool) -> None:
        """Stop (or resume) natural gradient's learning from the rows that it preconditions."""
        for preconditioner in self.preconditioners():
            preconditioner.frozen = freeze

    def dot_product(self, other: UpdatableComponent) -> float:
        """The dot product of all parameters with the other's; statistics do not count."""
        theirs = other.parameters()
        # einsum converts as it goes, where np.vdot would need whole float64 matrices
        return float(sum(np.einsum("i,i->", mine.ravel(), theirs[name].ravel(), dtype=np.float64)
                         for name, mine in self.parameters().items()))

    def perturb(self, stddev: float, rng: np.random.Generator) -> None:
        """Add independent normal noise of standard deviation ``stddev`` to every parameter, in place."""
        for value in self.parameters().values():
            value += np.float32(stddev) * rng.standard_normal(value.shape, dtype=np.float32)

    def vectorize(self) -> np.ndarray:
        """All parameters in one float32 vector: matrices row by row, in the order of ``parameters()``."""
        return np.concatenate([value.ravel() for value in self.parameters().values()])

    def unvectorize(self, vector: np.ndarray) -> None:
        """Set all parameters from a vector as ``vectorize`` makes it, in place."""
        start = 0
        for value in self.parameters().values():
            value[...] = vector[start:start + value.size].reshape(value.shape)
            start += value.size

    # -- files and text ----------------------------------------------------------------------------------------------

    @classmethod
    def from_fields(cls, reader: TokenReader, values: Values) -> Self:
        settings = {field.attribute: values.pop(field.attribute) for field in SETTINGS}
        inner: Values = dict(cls.PRECONDITIONER)
        for part in ("preconditioner", "preconditioner_in", "preconditioner_out"):
            own = take_part(values, part)
            if own:
                inner = {**inner, **own}       # the outer one equals the inner one except for its own fields
                values[part] = read_preconditioner(reader, **inner)
        return super().from_fields(reader, {**values, "settings": UpdateSettings(**settings)})

    def info(self, verbose: int = 0) -> str:
        """Dimensions, the settings that are not at their defaults, and what ``INFO`` and ``FIELDS`` name."""
        settings = {field.info for field in SETTINGS}
        names = self.INFO or tuple(field.info for field in self.FIELDS if field.info and field.info not in settings)
        return type(self).__name__ + fields_info(self, self.FIELDS, (*SETTINGS_INFO, *names), verbose)


def is_updatable(component: Component) -> TypeGuard[UpdatableComponent]:
    """Whether training changes the component: it may have nothing to train, or be configured as fixed."""
    return component.has(Properties.UPDATABLE)


def normal(rng: np.random.Generator, shape: tuple[int, ...], stddev: float, mean: float = 0.0) -> np.ndarray:
    """A float32 array of independent normal numbers, for initial parameters."""
    return rng.standard_normal(shape, dtype=np.float32) * np.float32(stddev) + np.float32(mean)


def bad_initializer(line: ConfigLine, reason: str) -> ConfigError:
    """The error for a config line with impossible values."""
    return line.error(f"Bad initializer {line.whole_line}", reason)


def read_config_matrix(line: ConfigLine, key: str) -> np.ndarray | None:
    """The float32 matrix in the file that ``key`` names, or None if the line has no such key."""
    name = line.get_string(key, "")
    return read_object(name, read_matrix) if name else None


def read_config_vector(line: ConfigLine, key: str) -> np.ndarray | None:
    """The float32 vector in the file that ``key`` names, or None if the line has no such key."""
    name = line.get_string(key, "")
    return read_object(name, read_vector) if name else None


# the fields of a layer's two preconditioners in most files, after their ranks
SMOOTHING = (Field("<UpdatePeriod>", "integer", "preconditioner_in.update_period", "update-period"),
             Field("<NumSamplesHistory>", "float32", "preconditioner_in.num_samples_history", "num-samples-history"),
             Field("<Alpha>", "float32", "preconditioner_in.alpha", "alpha"))
PRECONDITIONERS_INFO = ("rank-in", "rank-out", "num-samples-history", "update-period", "alpha")


def read_preconditioner(reader: TokenReader, **settings: Any) -> OnlineNaturalGradient:
    """A preconditioner with settings from a file; FormatError for settings that cannot be used."""
    try:
        return OnlineNaturalGradient(**settings)
    except ValueError as error:
        raise reader.error(str(error)) from error
