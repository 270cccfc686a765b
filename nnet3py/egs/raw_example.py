"""Examples that are moved without being decoded: shuffled, selected, distributed over archives.

A binary example is kept as its bytes. Its length is found by going through its structure, which is checked only as
far as that needs; see ``walk_example.py``.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from nnet3py.egs.walk_example import walk_chain_example, walk_discriminative_example, walk_example
from nnet3py.io.holder import Holder
from nnet3py.io.skim import Skimmer, Walk, walked
from nnet3py.io.specifiers import parse_wspecifier

if TYPE_CHECKING:
    from nnet3py.io.tokens import TokenReader, TokenWriter

RawExample: TypeAlias = "bytes | object"       # object: an NnetExample, read from text


def _write_raw(writer: TokenWriter, value: RawExample) -> None:
    if isinstance(value, bytes):
        writer.raw(value)
    else:
        value.write(writer)  # type: ignore[attr-defined]


def _reading_of(load: Callable[[], Holder], walk: Callable[[Walk], None]) -> Callable[[TokenReader], RawExample]:
    """Reads examples: binary ones are their bytes, those in text, or that cannot be walked over, are decoded."""
    def read(reader: TokenReader) -> RawExample:
        value = walked(reader, walk) if reader.binary else None
        if value is not None:
            return value
        holder = load()
        if not reader.binary:
            return holder.read(reader)
        reader.start_capture()
        holder.read(reader)
        return reader.end_capture()

    return read


def _example() -> Holder:
    from nnet3py.egs.example import EXAMPLE

    return EXAMPLE


def _chain_example() -> Holder:
    from nnet3py.egs.chain_example import CHAIN_EXAMPLE

    return CHAIN_EXAMPLE


def _discriminative_example() -> Holder:
    from nnet3py.egs.discriminative_example import DISCRIMINATIVE_EXAMPLE

    return DISCRIMINATIVE_EXAMPLE


def _raw_holder(name: str, load: Callable[[], Holder], walk: Callable[[Walk], None]) -> Holder[RawExample]:
    return Holder(name, _reading_of(load, walk), _write_raw, skimmer=lambda: Skimmer(walk))


RAW_EXAMPLE = _raw_holder("training example", _example, walk_example)
RAW_CHAIN_EXAMPLE = _raw_holder("chain example", _chain_example, walk_chain_example)
RAW_DISCRIMINATIVE_EXAMPLE = _raw_holder("discriminative example", _discriminative_example, walk_discriminative_example)
_DECODING = {RAW_EXAMPLE: _example, RAW_CHAIN_EXAMPLE: _chain_example,
             RAW_DISCRIMINATIVE_EXAMPLE: _discriminative_example}


def are_binary(*wspecifiers: str) -> bool:
    """Whether everything is written in binary to tables of these wspecifiers. Raises SpecifierError."""
    return all(parse_wspecifier(wspecifier).binary for wspecifier in wspecifiers)


def copying_holder(*wspecifiers: str, raw: Holder[RawExample] = RAW_EXAMPLE) -> Holder:
    """The holder for examples that are only moved: ``raw`` if everything is written in binary, else a decoding one."""
    return raw if are_binary(*wspecifiers) else _DECODING[raw]()
