"""Base of trainable components: learning rate and other settings, their fields, initial weights, preconditioners.

Limits of changes, l2 regularization and orthonormal constraints are applied by the trainer; the component only holds
their settings. Kaldi: ``UpdatableComponent``.
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
    """Training settings of a component; ``learning_rate`` is the effective rate, with the factor multiplied in."""

    learning_rate: float = 0.001
    learning_rate_factor: float = 1.0
    max_change: float = 0.0        # largest 2-norm of a minibatch's change; 0 for no limit
    l2_regularize: float = 0.0
    is_gradient: bool = False

    @classmethod
    def from_config(cls, line: ConfigLine) -> UpdateSettings:
        """Read the settings from the four keys of a config line. Raises ConfigError for a negative value."""
        settings = cls(line.get_float("learning-rate", 0.001), line.get_float("learning-rate-factor", 1.0),
                       line.get_float("max-change", 0.0), line.get_float("l2-regularize", 0.0))
        if not all(value >= 0.0 for value in (settings.learning_rate, settings.learning_rate_factor,
                                              settings.max_change, settings.l2_regularize)):
            raise bad_initializer(line, "learning-rate, learning-rate-factor, max-change and l2-regularize "
                                        "must not be negative")
        return settings


class BeforeFreezing(NamedTuple):
    """Learning rate and factor from before freezing, which ``unfreeze`` restores."""

    learning_rate: float
    learning_rate_factor: float


# the first fields of trainable components in files
SETTINGS = (Field("<LearningRateFactor>", "float32", "learning_rate_factor", "learning-rate-factor", 1.0, True),
            Field("<IsGradient>", "boolean", "is_gradient", "is-gradient", False, True),
            Field("<MaxChange>", "float32", "max_change", "max-change", 0.0, True),
            Field("<L2Regularize>", "float32", "l2_regularize", "l2-regularize", 0.0, True),
            Field("<LearningRate>", "float32", "learning_rate", "learning-rate"))
OLDER_SETTINGS = (*SETTINGS[:-1], SETTINGS[-1]._replace(default=0.001))        # for types whose older files lack one
OLDER_GRADIENT_MARK = Field("<IsGradient>", "boolean", "is_gradient", default=OLDER)    # after the parameters
SETTINGS_INFO = ("input-dim", "output-dim", "learning-rate", "is-gradient", "l2-regularize", "learning-rate-factor",
                  "max-change")


class UpdatableComponent(Component):
    """Component with parameters that training changes.

    Attributes
    ----------
    PRECONDITIONER : dict
        Arguments of the preconditioner that are not stored in files.
    FREEZABLE : tuple of str
        Attributes with the natural-gradient objects that ``freeze_natural_gradient`` freezes.
    before_freezing : BeforeFreezing or None
        Settings that ``unfreeze`` restores; None if the component was not frozen in this process.
    """

    PRECONDITIONER: ClassVar[Values] = {}
    FREEZABLE: ClassVar[tuple[str, ...]] = ()
    before_freezing: BeforeFreezing | None = None

    def __init__(self, settings: UpdateSettings | None = None) -> None:
        settings = settings or UpdateSettings()
        self.learning_rate = settings.learning_rate
        self.learning_rate_factor = settings.learning_rate_factor
        self.max_change = settings.max_change
        self.l2_regularize = settings.l2_regularize
        self.is_gradient = settings.is_gradient

    def set_underlying_learning_rate(self, rate: float) -> None:
        """Set the learning rate to ``rate`` times the learning-rate factor."""
        self.learning_rate = float(np.float32(rate) * np.float32(self.learning_rate_factor))
        if self.before_freezing is not None:
            factor = self.before_freezing.learning_rate_factor
            self.before_freezing = BeforeFreezing(float(np.float32(rate) * np.float32(factor)), factor)

    def set_actual_learning_rate(self, rate: float) -> None:
        """Set the learning rate to ``rate``, whatever the learning-rate factor."""
        self.learning_rate = float(np.float32(rate))

    @property
    def is_frozen(self) -> bool:
        """True for the learning-rate factor 0, with which learning rates have no effect."""
        return self.learning_rate_factor == 0.0

    def freeze(self) -> None:
        """Set learning rate and factor to 0, and keep their values for ``unfreeze``."""
        if not self.is_frozen:
            self.before_freezing = BeforeFreezing(self.learning_rate, self.learning_rate_factor)
        self.learning_rate = self.learning_rate_factor = 0.0

    def unfreeze(self, rate: float) -> None:
        """Restore learning rate and factor from before ``freeze``; if unknown, they become ``rate`` and 1.

        A component that is not frozen is not changed.
        """
        if self.is_frozen:
            before = self.before_freezing or BeforeFreezing(float(np.float32(rate)), 1.0)
            self.learning_rate, self.learning_rate_factor = before
            self.before_freezing = None

    def set_as_gradient(self) -> None:
        """Mark the component as a gradient, which sums plain derivatives: learning rate 1, no natural gradient."""
        self.learning_rate = 1.0
        self.is_gradient = True

    def copy_settings(self, other: UpdatableComponent) -> None:
        """Copy learning rate, factor, limits and gradient mark. Kaldi: SetUpdatableConfigs."""
        for name in ("learning_rate", "learning_rate_factor", "before_freezing", "max_change", "l2_regularize",
                     "is_gradient"):
            setattr(self, name, getattr(other, name))

    def preconditioners(self) -> tuple[OnlineNaturalGradient, ...]:
        """Return the natural-gradient objects that ``freeze_natural_gradient`` freezes."""
        return tuple(getattr(self, name) for name in self.FREEZABLE)

    def freeze_natural_gradient(self, freeze: bool) -> None:
        """Stop (or with ``freeze`` false resume) the updates of the natural-gradient estimates."""
        for preconditioner in self.preconditioners():
            preconditioner.frozen = freeze

    def dot_product(self, other: UpdatableComponent) -> float:
        """Return the dot product of all parameters with those of ``other``, without statistics."""
        theirs = other.parameters()
        # einsum converts to float64 blockwise, np.vdot would need whole float64 matrices
        return float(sum(np.einsum("i,i->", mine.ravel(), theirs[name].ravel(), dtype=np.float64)
                         for name, mine in self.parameters().items()))

    def perturb(self, stddev: float, rng: np.random.Generator) -> None:
        """Add independent normal noise of standard deviation ``stddev`` to every parameter, in place."""
        for value in self.parameters().values():
            value += np.float32(stddev) * rng.standard_normal(value.shape, dtype=np.float32)

    def vectorize(self) -> np.ndarray:
        """Return all parameters as one float32 vector: matrices by rows, in the order of ``parameters()``."""
        return np.concatenate([value.ravel() for value in self.parameters().values()])

    def unvectorize(self, vector: np.ndarray) -> None:
        """Set all parameters from a vector in the order of ``vectorize``, in place."""
        start = 0
        for value in self.parameters().values():
            value[...] = vector[start:start + value.size].reshape(value.shape)
            start += value.size

    @classmethod
    def from_fields(cls, reader: TokenReader, values: Values) -> Self:
        settings = {field.attribute: values.pop(field.attribute) for field in SETTINGS}
        inner: Values = dict(cls.PRECONDITIONER)
        for part in ("preconditioner", "preconditioner_in", "preconditioner_out"):
            own = take_part(values, part)
            if own:
                inner = {**inner, **own}       # the outer preconditioner equals the inner one except for its own fields
                values[part] = read_preconditioner(reader, **inner)
        return super().from_fields(reader, {**values, "settings": UpdateSettings(**settings)})

    def info(self, verbose: int = 0) -> str:
        """Return dimensions, settings other than their defaults, and the fields of ``INFO`` and ``FIELDS``, as text."""
        settings = {field.info for field in SETTINGS}
        names = self.INFO or tuple(field.info for field in self.FIELDS if field.info and field.info not in settings)
        return type(self).__name__ + fields_info(self, self.FIELDS, (*SETTINGS_INFO, *names), verbose)


def is_updatable(component: Component) -> TypeGuard[UpdatableComponent]:
    """Return whether training changes the component (``Properties.UPDATABLE``), which may depend on its settings."""
    return component.has(Properties.UPDATABLE)


def normal(rng: np.random.Generator, shape: tuple[int, ...], stddev: float, mean: float = 0.0) -> np.ndarray:
    """Return a float32 array of independent normal numbers, for initial parameters."""
    return rng.standard_normal(shape, dtype=np.float32) * np.float32(stddev) + np.float32(mean)


def bad_initializer(line: ConfigLine, reason: str) -> ConfigError:
    """Make the error for a config line with impossible values."""
    return line.error(f"Bad initializer {line.whole_line}", reason)


def read_config_matrix(line: ConfigLine, key: str) -> np.ndarray | None:
    """Return the float32 matrix in the file that ``key`` names, or None if the line has no such key."""
    name = line.get_string(key, "")
    return read_object(name, read_matrix) if name else None


def read_config_vector(line: ConfigLine, key: str) -> np.ndarray | None:
    """Return the float32 vector in the file that ``key`` names, or None if the line has no such key."""
    name = line.get_string(key, "")
    return read_object(name, read_vector) if name else None


# fields of a layer's two preconditioners in most files, after their ranks
SMOOTHING = (Field("<UpdatePeriod>", "integer", "preconditioner_in.update_period", "update-period"),
             Field("<NumSamplesHistory>", "float32", "preconditioner_in.num_samples_history", "num-samples-history"),
             Field("<Alpha>", "float32", "preconditioner_in.alpha", "alpha"))
PRECONDITIONERS_INFO = ("rank-in", "rank-out", "num-samples-history", "update-period", "alpha")


def read_preconditioner(reader: TokenReader, **settings: Any) -> OnlineNaturalGradient:
    """Read the settings of a preconditioner, and return it. Raises FormatError for impossible settings."""
    try:
        return OnlineNaturalGradient(**settings)
    except ValueError as error:
        raise reader.error(str(error)) from error


def default_rank_in(input_dim: int) -> int:
    """Return the default rank of the preconditioner of a layer's input."""
    return min(20, (input_dim + 1) // 2)


def default_rank_out(output_dim: int) -> int:
    """Return the default rank of the preconditioner of a layer's output derivative."""
    return min(80, (output_dim + 1) // 2)


def initial_weights(line: ConfigLine, rng: np.random.Generator, extra_columns: int) -> np.ndarray:
    """Return the matrix in the file of key ``matrix``, or a random one of ``output-dim`` x ``input-dim``.

    ``extra_columns`` : 1 if the matrix of a file has the bias as its last column, else 0; ignored for a random matrix.

    Returns
    -------
    float32 (output-dim, input-dim [+ extra_columns if it comes from a file])
    """
    matrix = read_config_matrix(line, "matrix")
    if matrix is not None:
        input_dim = line.get_int("input-dim", matrix.shape[1] - extra_columns)
        output_dim = line.get_int("output-dim", matrix.shape[0])
        if matrix.shape != (output_dim, input_dim + extra_columns) or matrix.size == 0 or input_dim == 0:
            raise bad_initializer(line, f"the matrix is {matrix.shape[0]} x {matrix.shape[1]}, expected "
                                        f"{output_dim} x {input_dim + extra_columns}")
        return matrix
    input_dim, output_dim = read_dims(line)
    stddev = line.get_float("param-stddev", 1.0 / np.sqrt(input_dim))
    if not stddev >= 0.0:
        raise bad_initializer(line, "param-stddev must not be negative")
    return normal(rng, (output_dim, input_dim), stddev)


def read_dims(line: ConfigLine) -> tuple[int, int]:
    """Return the values of the required keys ``input-dim`` and ``output-dim``, both above 0."""
    input_dim, output_dim = line.get_int("input-dim", 0), line.get_int("output-dim", 0)
    if input_dim <= 0 or output_dim <= 0:
        raise bad_initializer(line, "input-dim and output-dim must be given and above 0")
    return input_dim, output_dim


def preconditioners_from_config(line: ConfigLine, input_dim: int,
                                output_dim: int) -> tuple[OnlineNaturalGradient, OnlineNaturalGradient]:
    """Return the preconditioners of a layer's input and output, with the keys of affine components."""
    return make_preconditioners(line, (default_rank_in(input_dim), default_rank_out(output_dim)),
                                update_period=line.get_int("update-period", 4),
                                num_samples_history=line.get_float("num-samples-history", 2000.0))


def make_preconditioners(line: ConfigLine, default_ranks: tuple[int, int], alphas: tuple[str, str] = ("alpha", "alpha"),
                         **settings: Any) -> tuple[OnlineNaturalGradient, OnlineNaturalGradient]:
    """Return the preconditioners of a layer's input and output; negative ranks stand for the default ranks.

    ``alphas`` are the keys of the two alphas, ``settings`` other arguments of both preconditioners.
    """
    ranks = line.get_int("rank-in", -1), line.get_int("rank-out", -1)
    try:
        inner, outer = (OnlineNaturalGradient(default if rank < 0 else rank, alpha=line.get_float(key, 4.0), **settings)
                        for rank, default, key in zip(ranks, default_ranks, alphas, strict=True))
    except ValueError as error:
        raise bad_initializer(line, str(error)) from error
    return inner, outer


LINEAR_AND_BIAS = (Field("<LinearParams>", "matrix", "linear_params", "linear-params"),
                   Field("<BiasParams>", "vector", "bias_params", "bias"))
WEIGHTS_AND_BIAS = (LINEAR_AND_BIAS[0]._replace(kind="weights"), LINEAR_AND_BIAS[1])
ORTHONORMAL_CONSTRAINT = Field("<OrthonormalConstraint>", "float32", "orthonormal_constraint", "orthonormal-constraint",
                               default=0.0, omitted=True)
