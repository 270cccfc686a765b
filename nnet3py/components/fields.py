"""Reading and checking what many component types have in common: dimensions in files, impossible config lines."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

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


Fields = tuple[tuple[str, str, str], ...]     # of each: tag, kind (a method of reader and writer, or dim), attribute


def read_fields(reader: TokenReader, fields: Fields, type_name: str = "") -> list[Any]:
    """Read tags with a value each; with ``type_name`` its opening tag may stand before them."""
    values = []
    for i, (tag, kind, _) in enumerate(fields):
        if type_name and i == 0:
            reader.expect_one_or_two(f"<{type_name}>", tag)
        else:
            reader.expect(tag)
        values.append(read_dim(reader, tag) if kind == "dim" else getattr(reader, kind)())
    return values


def write_fields(writer: TokenWriter, holder: Any, fields: Fields) -> None:
    """Write the tags, each with the attribute of ``holder``."""
    for tag, kind, attribute in fields:
        writer.token(tag)
        getattr(writer, "integer" if kind == "dim" else kind)(getattr(holder, attribute))


def fields_text(holder: Any, fields: Fields) -> str:
    """Tags and values for a message about values that do not go together."""
    values = ((tag, getattr(holder, attribute)) for tag, _, attribute in fields)
    return ", ".join(f"{tag} {value:g}" if isinstance(value, float) else f"{tag} {value}" for tag, value in values)
