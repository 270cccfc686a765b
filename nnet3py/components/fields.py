"""Reading and checking what many component types have in common: dimensions in files, impossible config lines."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nnet3py.components.info_text import number, truth
from nnet3py.errors import ConfigError
from nnet3py.formats.matrices import read_vector

if TYPE_CHECKING:
    from nnet3py.config_line import ConfigLine
    from nnet3py.io.tokens import TokenReader, TokenWriter

LARGEST_DIM = 1 << 24      # a dimension in a file beyond this is damage: nothing else there bears witness to its size


def invalid_initializer(line: ConfigLine, type_name: str, reason: str) -> ConfigError:
    """The error for a config line whose values are missing or impossible, in Kaldi's words; ``reason`` says which."""
    return ConfigError(f'Invalid initializer for layer of type {type_name}: "{line.whole_line}"', reason)


def read_dim(reader: TokenReader, tag: str) -> int:
    """Read a dimension, whose tag was read before.

    Raises
    ------
    FormatError : a number below 1, or so large that no model has it
    """
    dim = reader.integer()
    if not 0 < dim <= LARGEST_DIM:
        raise reader.error(f"expected a dimension between 1 and {LARGEST_DIM} after {tag}, found {dim}")
    return dim


def read_block_dim(reader: TokenReader, dim: int) -> int:
    """Read a block dimension, which must divide ``dim``; its tag was read before."""
    block_dim = read_dim(reader, "<BlockDim>")
    if dim % block_dim:
        raise reader.error(f"expected a block dimension that divides the dimension {dim}, found {block_dim}")
    return block_dim


def read_vector_of(reader: TokenReader, tag: str, dim: int, may_be_empty: bool = False) -> np.ndarray:
    """Read a tag and its float32 vector of ``dim`` elements (or none at all)."""
    reader.expect(tag)
    vector = read_vector(reader)
    if vector.size != dim and not (may_be_empty and vector.size == 0):
        raise reader.error(f"expected {dim} elements after {tag}, found {vector.size}")
    return vector


def as_float32(value: float) -> float:
    """``value`` rounded to float32, which is how Kaldi holds settings."""
    return float(np.float32(value))


REQUIRED = object()


class Field(NamedTuple):
    """One field of a file: ``read_fields``, ``write_fields`` and ``fields_info`` follow from tables of these.

    Attributes
    ----------
    tag : what stands before the value
    kind : ``dim``, or a method of reader and writer, such as ``integer``; ``block_dim`` divides the field ``dim``; a
        ``real`` may be a double in files and is held as float32; a ``mark`` is a tag without a value, and there if true
    attribute : of whoever holds the value; without ``_`` in front the argument that it is made with
    info : what the information text calls it; empty if it is not shown
    default : what it is if the tag is missing, as in older files
    omitted : it is neither written nor shown if it is the default
    needs : an attribute; the field is not written if that is 0
    """

    tag: str
    kind: str
    attribute: str
    info: str = ""
    default: Any = REQUIRED
    omitted: bool = False
    needs: str = ""

    def is_left_out(self, holder: Any) -> bool:
        """Whether it goes without saying that ``holder`` has this value."""
        return self.omitted and getattr(holder, self.attribute) == self.default


Fields = tuple[Field, ...]
_WRITERS = {"dim": "integer", "block_dim": "integer", "real": "float32"}


def _read_value(reader: TokenReader, field: Field, values: dict[str, Any]) -> Any:
    if field.kind == "dim":
        return read_dim(reader, field.tag)
    if field.kind == "block_dim":
        return read_block_dim(reader, values["dim"])
    if field.kind == "real":
        return as_float32(reader.real())
    return field.kind == "mark" or getattr(reader, field.kind)()


def read_fields(reader: TokenReader, fields: Fields, type_name: str = "", closed: bool = True) -> dict[str, Any]:
    """Read tags with a value each: attribute, without ``_`` in front, -> value.

    With ``type_name`` its opening tag may stand before them, and its closing tag must follow if ``closed``.
    """
    values: dict[str, Any] = {}
    token: str | None = None                    # the one read last, if nothing was made of it yet
    for i, field in enumerate(fields):
        token = reader.token() if token is None else token
        if i == 0 and token == f"<{type_name}>":
            token = reader.token()
        if token == field.tag or field.default is REQUIRED:
            reader.check_token(token, *([f"<{type_name}>"] if type_name and i == 0 else []), field.tag)
            value, token = _read_value(reader, field, values), None
        else:
            value = field.default
        values[field.attribute.lstrip("_")] = value
    if type_name and closed:
        reader.check_token(reader.token() if token is None else token, f"</{type_name}>")
    return values


def write_fields(writer: TokenWriter, holder: Any, fields: Fields) -> None:
    """Write the tags, each with the attribute of ``holder``."""
    for field in fields:
        if field.is_left_out(holder) or (field.needs and not getattr(holder, field.needs)):
            continue
        writer.token(field.tag)
        if field.kind != "mark":
            getattr(writer, _WRITERS.get(field.kind, field.kind))(getattr(holder, field.attribute))


def fields_info(holder: Any, fields: Fields) -> str:
    """What the information text says of the fields that it names, each with a comma and a blank in front."""
    return "".join(f", {field.info}={_shown(getattr(holder, field.attribute))}" for field in fields
                   if field.info and not field.is_left_out(holder))


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return truth(value)
    return number(value) if isinstance(value, float) else str(value)


def fields_text(holder: Any, fields: Fields) -> str:
    """Tags and values for a message about values that do not go together."""
    values = ((field.tag, getattr(holder, field.attribute)) for field in fields)
    return ", ".join(f"{tag} {value:g}" if isinstance(value, float) else f"{tag} {value}" for tag, value in values)
