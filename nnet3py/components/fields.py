"""Fields of components: reading and writing model files, and the information text of ``nnet3-info``, from one table.

A component declares its fields as a tuple of :class:`Field`; reader, writer and text follow from it.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias

import numpy as np

from nnet3py.errors import ConfigError
from nnet3py.formats.matrices import read_matrix, read_vector, write_matrix, write_vector

if TYPE_CHECKING:
    from typing_extensions import Self

    from nnet3py.config_line import ConfigLine
    from nnet3py.io.tokens import TokenReader, TokenWriter

_PERCENTILES = ((0, 1, 2, 5), (10, 20, 50, 80, 90), (95, 98, 99, 100))


def number(value: float) -> str:
    """Format a number with 6 significant digits, as a C++ stream prints it (``1e-05``, ``0.001``, ``2000``)."""
    return significant(value, 6)


def significant(value: float, digits: int) -> str:
    """Format a number with ``digits`` significant digits; NaN as ``-nan``, like the root of a negative variance."""
    return "-nan" if np.isnan(value) else f"{value:.{digits}g}"


def truth(value: bool) -> str:
    """Return ``true`` or ``false``."""
    return "true" if value else "false"


def compact(value: float) -> str:
    """Format a number in few characters that show its magnitude: ``123``, ``1.2``, ``0.12``, ``0.005``."""
    size = abs(value)
    if 10.0 <= size < 10000.0:
        return f"{value:.0f}"
    if size >= 0.995:
        return f"{value:.1f}"
    return f"{value:.2f}" if size >= 0.01 else f"{value:.1g}"


@np.errstate(over="ignore", invalid="ignore")   # parameters that have diverged are shown as they are
def vector_summary(vector: np.ndarray) -> str:
    """Format all values of a vector, or, from 10 values on, percentiles, mean and standard deviation.

    Kaldi: SummarizeVector.
    """
    if vector.size < 10:
        return "[ " + "".join(compact(float(value)) + " " for value in vector) + "]"
    ordered = np.sort(vector)
    names = " ".join(",".join(str(p) for p in group) for group in _PERCENTILES)
    values = " ".join(",".join(compact(float(ordered[(vector.size - 1) * p // 100])) for p in group)
                      for group in _PERCENTILES)
    mean, stddev = _mean_and_stddev(vector)
    return f"[percentiles({names})=({values}), mean={significant(mean, 3)}, stddev={significant(stddev, 3)}]"


@np.errstate(over="ignore", invalid="ignore")
def parameter_stats(name: str, values: np.ndarray, with_mean: bool = False, norms: bool = False,
                    singular_values: bool = False) -> str:
    """Return the fields that describe one parameter array, each with its leading comma. Kaldi: PrintParameterStats.

    Parameters
    ----------
    name : beginning of the names of these fields
    values : float32 vector or matrix
    with_mean : print mean and standard deviation instead of the root mean square
    norms : add summaries of the 2-norms of rows and columns (matrices only)
    singular_values : add a summary of the singular values (matrices only)
    """
    if with_mean:
        mean, stddev = _mean_and_stddev(values)
        text = f", {name}-{{mean,stddev}}={significant(mean, 4)},{significant(stddev, 4)}"
    else:
        text = f", {name}-rms={significant(_root(_mean(values * values)), 4)}"
    if norms:
        squares = values * values
        text += f", {name}-row-norms={vector_summary(np.sqrt(squares.sum(axis=1)))}"
        text += f", {name}-col-norms={vector_summary(np.sqrt(squares.sum(axis=0)))}"
    if singular_values and np.isfinite(values).all():   # a matrix with NaN has none
        text += f", {name}-singular-values={vector_summary(np.linalg.svd(values, compute_uv=False))}"
    return text


def _mean(values: np.ndarray) -> np.floating:
    return values.sum() / values.dtype.type(max(values.size, 1))


def _mean_and_stddev(values: np.ndarray) -> tuple[float, float]:
    mean = _mean(values)
    return float(mean), _root(_mean(values * values) - mean * mean)


def _root(value: np.floating) -> float:
    """Return the square root; NaN for a negative value, as rounding can make of a constant vector's variance."""
    return float(np.sqrt(value)) if value >= 0 else float("nan")


LARGEST_DIM = 1 << 24      # a larger dimension in a file is taken for damage, since nothing else confirms it


def invalid_initializer(line: ConfigLine, type_name: str, reason: str) -> ConfigError:
    """Return the error for a config line with missing or impossible values, in Kaldi's words, with the reason."""
    return ConfigError(f'Invalid initializer for layer of type {type_name}: "{line.whole_line}"', reason)


def read_dim(reader: TokenReader, tag: str) -> int:
    """Read a dimension, after its tag. Raises FormatError for a number below 1, or so large that no model has it."""
    dim = reader.integer()
    if not 0 < dim <= LARGEST_DIM:
        raise reader.error(f"expected a dimension between 1 and {LARGEST_DIM} after {tag}, found {dim}")
    return dim


def read_block_dim(reader: TokenReader, dim: int) -> int:
    """Read a block dimension, after its tag; it must divide ``dim``."""
    block_dim = read_dim(reader, "<BlockDim>")
    if dim % block_dim:
        raise reader.error(f"expected a block dimension that divides the dimension {dim}, found {block_dim}")
    return block_dim


def as_float32(value: float) -> float:
    """Return ``value`` rounded to float32, the type of Kaldi's settings."""
    return float(np.float32(value))


REQUIRED = object()
OLDER = object()           # `Field.default` of a field that only older files have: read but never written
AS_DIM = object()          # `Field.default` that stands for the value of the field ``dim``


class Field(NamedTuple):
    """Field of a component in model files and in the information text."""

    # the tag before the value, then perhaps ``|`` and the tag in older files; empty if the value follows the one before
    # it under the same tag (but not under that of older files)
    tag: str
    # ``dim``, ``block_dim`` (it divides the field ``dim``), ``mark`` (a tag without a value, there if true), ``vector``
    # and ``matrix`` (float32), ``weights`` (a matrix whose norms are shown), ``weight_vector`` (one whose root mean
    # square is shown), ``double_vector`` and ``double_matrix``, or a method of reader and writer, such as ``integer``;
    # or a class with ``read`` and ``write``
    kind: str | type
    # attribute that holds the value; without its leading ``_``, if any, the name of the constructor's argument.
    # ``part.name`` is an attribute of the attribute ``part``, ``counters.0`` an element of an array; empty for a value
    # that is read and dropped
    attribute: str = ""
    info: str = ""                # name in the information text; empty if the field is not shown
    default: object = REQUIRED    # value if the tag is missing, as in older files
    omitted: bool = False         # whether the default value is neither written nor shown
    hidden: Any = None            # value that is not shown
    needs: str = ""               # attribute; if it is 0, the field is not written
    size: str = ""                # earlier field that must equal the number of elements of the vector
    may_be_empty: bool = False    # whether the vector may be empty instead

    def of(self, holder: object) -> Any:
        """Return the field's value in the object ``holder``."""
        value: Any = holder
        for name in self.attribute.split("."):
            value = value[int(name)] if name.isdigit() else getattr(value, name)
        return value

    def is_left_out(self, holder: object) -> bool:
        """Return whether the value of the object ``holder`` is the default and need not be written."""
        default = getattr(holder, "dim", None) if self.default is AS_DIM else self.default
        return self.omitted and self.of(holder) == default


Fields = tuple[Field, ...]
Values: TypeAlias = dict[str, Any]      # values of fields by attribute, each of the type of its field's kind
_READERS: dict[str, Callable[[TokenReader], Any]] = {
    "vector": read_vector, "weight_vector": read_vector, "matrix": read_matrix, "weights": read_matrix,
    "double_vector": lambda reader: read_vector(reader, np.float64),
    "double_matrix": lambda reader: read_matrix(reader, np.float64),
    "float64": lambda reader: reader.real(), "mark": lambda reader: True}
_WRITERS: dict[str, Callable[[TokenWriter, Any], None]] = {
    "vector": write_vector, "weight_vector": write_vector, "matrix": write_matrix, "weights": write_matrix,
    "double_vector": write_vector, "double_matrix": write_matrix, "mark": lambda writer, value: None,
    "dim": lambda writer, value: writer.integer(value), "block_dim": lambda writer, value: writer.integer(value)}


def _read_value(reader: TokenReader, field: Field, values: Values) -> Any:
    kind = field.kind
    if isinstance(kind, type):
        return kind.read(reader)            # type: ignore[attr-defined]
    if kind == "dim":
        return read_dim(reader, field.tag)
    if kind == "block_dim":
        return read_block_dim(reader, values["dim"])
    value = _READERS[kind](reader) if kind in _READERS else getattr(reader, kind)()
    if field.size and value.size != values[field.size] and not (field.may_be_empty and value.size == 0):
        raise reader.error(f"expected {values[field.size]} elements after {field.tag}, found {value.size}")
    return value


def read_fields(reader: TokenReader, fields: Fields, type_name: str) -> Values:
    """Read tags with a value each, and the closing tag, into a dict: attribute without a leading ``_`` -> value.

    The opening tag may precede them. Of two tags of the same attribute, as in older files, the later value counts.
    """
    values: Values = {}
    token: str | None = None                    # token that was read but not used yet
    is_there = stands_alone = False
    for i, field in enumerate(fields):
        if field.tag:
            token = reader.token() if token is None else token
            if i == 0 and token == f"<{type_name}>":
                token = reader.token()
            tags = field.tag.split("|")
            is_there = token in tags
            if not is_there and field.default is REQUIRED:
                reader.check_token(token, *([f"<{type_name}>"] if i == 0 else []), *tags)
                is_there = True                 # the tag lacks its <, which peeking may have consumed
            stands_alone = token in tags[1:]
            token = None if is_there else token
        elif stands_alone:
            continue
        name = field.attribute.lstrip("_")
        if is_there:
            values[name] = _read_value(reader, field, values)
        elif field.default is not OLDER:
            values[name] = values["dim"] if field.default is AS_DIM else field.default
    token = reader.token() if token is None else token
    if token != f"<{type_name}>":               # very old files close with the opening tag
        reader.check_token(token, f"</{type_name}>")
    values.pop("", None)
    return values


def take_part(values: Values, part: str) -> Values:
    """Remove the values ``part.name`` from the values of ``read_fields``, and return them by ``name``."""
    return {name.removeprefix(f"{part}."): values.pop(name) for name in list(values) if name.startswith(f"{part}.")}


def write_fields(writer: TokenWriter, holder: object, fields: Fields) -> None:
    """Write each field's tag with its value in ``holder``."""
    for field in fields:
        if field.default is OLDER or field.is_left_out(holder) or (field.needs and not getattr(holder, field.needs)):
            continue
        if field.tag:
            writer.token(field.tag.split("|")[0])
        value = field.of(holder)
        if isinstance(field.kind, type):
            value.write(writer)
        elif field.kind in _WRITERS:
            _WRITERS[field.kind](writer, value)
        else:
            getattr(writer, field.kind)(value)


class InFiles:
    """Base of objects that are stored in files as a sequence of fields between an opening and a closing tag."""

    FIELDS: ClassVar[Fields] = ()

    @classmethod
    def read(cls, reader: TokenReader) -> Self:
        """Read the fields after the opening tag (which may still be there), up to and including the closing tag."""
        return cls.from_fields(reader, read_fields(reader, cls.FIELDS, cls.__name__))

    @classmethod
    def from_fields(cls, reader: TokenReader, values: Values) -> Self:
        """Make an object from the values of ``FIELDS``, by name without a leading ``_``.

        Values of array elements (``counters.0``) go into the arrays. Raises FormatError for inconsistent values.
        """
        component = cls(**{name: value for name, value in values.items() if "." not in name})
        for name, value in values.items():
            if "." in name:
                array, place = name.split(".")
                getattr(component, array)[int(place)] = value
        component.check_read(reader)
        return component

    def check_read(self, reader: TokenReader) -> None:
        """Raise FormatError if the values of ``FIELDS``, just read, are inconsistent."""

    def write(self, writer: TokenWriter) -> None:
        """Write the opening tag, the fields and the closing tag."""
        writer.token(f"<{type(self).__name__}>")
        write_fields(writer, self, self.FIELDS)
        writer.token(f"</{type(self).__name__}>")


def fields_info(holder: object, fields: Fields, names: tuple[str, ...] = (), verbose: int = 0) -> str:
    """Return the information text for the named fields, each preceded by a comma and a blank.

    ``names`` gives the order, if that differs from the file; a name that no field has is an attribute, not shown if
    it is None, and ``x-min`` is the least element of ``x``. If no field is named, the text has the dimensions.
    ``verbose`` 2 adds the singular values of weights.
    """
    shown = {field.info: field for field in fields if field.info}
    return "".join(_shown(holder, name, shown.get(name), verbose)
                   for name in names or tuple(shown) or ("input-dim", "output-dim"))


def _shown(holder: object, name: str, field: Field | None, verbose: int) -> str:
    value = _attribute(holder, name.replace("-", "_")) if field is None else field.of(holder)
    if value is None or (field is not None and field.is_left_out(holder)):
        return ""
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        kind = field.kind if field is not None else "vector"
        return parameter_stats(name, value, with_mean=kind == "vector", norms=kind == "weights",
                               singular_values=kind == "weights" and verbose >= 2)
    if field is not None and np.array_equal(value, field.hidden):
        return ""
    if isinstance(value, (bool, float)):
        return f", {name}={truth(value) if isinstance(value, bool) else number(float(value))}"
    return f", {name}={','.join(map(str, value)) if isinstance(value, np.ndarray) else value}"


def _attribute(holder: object, name: str) -> Any:
    """Return an attribute, or the least or largest element of one."""
    array, _, which = name.rpartition("_")
    return float(getattr(getattr(holder, array), which)()) if which in ("min", "max") else getattr(holder, name)


def fields_text(holder: object, fields: Fields) -> str:
    """Return tags and values for a message about inconsistent values."""
    values = ((field.tag, field.of(holder)) for field in fields)
    return ", ".join(f"{tag} {value:g}" if isinstance(value, float) else f"{tag} {value}" for tag, value in values)
