"""A network without its weights as a line of text, from which ONNX files made here become networks again.

It is a model file whose weights are NaN, which hardly takes room when compressed, and shows what was not put back.
"""
from __future__ import annotations

import base64
import copy
import io
import zlib
from collections.abc import Collection

import numpy as np

from nnet3py.components.base import Component
from nnet3py.errors import FormatError
from nnet3py.export.plain_weights import named_arrays
from nnet3py.io.holder import BINARY_HEADER
from nnet3py.io.tokens import TokenReader, TokenWriter
from nnet3py.network.nnet import Nnet

_LARGEST_REST = 1 << 26        # bytes of what a model file holds beside weights; more are not believed


def as_it_is(nnet: Nnet) -> Nnet:
    """A copy of a network that shares its arrays, but keeps nodes and settings when those of the other change."""
    kept = Nnet()
    kept.nodes, kept.component_names = list(nnet.nodes), list(nnet.component_names)
    kept.components = [_as_it_is(component) for component in nnet.components]
    return kept


def _as_it_is(component: Component) -> Component:
    kept = copy.copy(component)
    if component.children:
        kept.children = type(component.children)(map(_as_it_is, component.children))       # type: ignore[call-arg]
    return kept


def network_text(nnet: Nnet, left_out: Collection[str]) -> str:
    """The network as text.

    Parameters
    ----------
    left_out : names of arrays, as :func:`~nnet3py.export.plain_weights.named_arrays` has them, that are stored
        elsewhere; NaN takes their place
    """
    bare = as_it_is(nnet)
    for name, array in named_arrays(bare).items():
        if name in left_out:
            place, _, attribute = name.rpartition(".")
            setattr(_component(bare, place), attribute, np.full_like(array, np.nan))
    sink = _Compressed()
    sink.write(BINARY_HEADER)
    bare.write_to(TokenWriter(sink, binary=True))
    return base64.b64encode(sink.content()).decode("ascii")


def _component(nnet: Nnet, name: str) -> Component:
    """A component by its name; one inside a composite by the composite's name and its number."""
    if name in nnet.component_names:
        return nnet.components[nnet.component_names.index(name)]
    parent, _, number = name.rpartition(".")
    return _component(nnet, parent).children[int(number)]


class _Compressed:
    """A stream that compresses what is written to it."""

    def __init__(self) -> None:
        self._compressor = zlib.compressobj()
        self._pieces: list[bytes] = []

    def write(self, data: bytes) -> int:
        self._pieces.append(self._compressor.compress(data))
        return len(data)

    def content(self) -> bytes:
        return b"".join([*self._pieces, self._compressor.flush()])


def network_of_text(text: str, weight_bytes: int, path: str) -> Nnet:
    """The network that :func:`network_text` made a text of; the arrays that were left out are NaN.

    Parameters
    ----------
    weight_bytes : of all arrays that were left out
    path : of the file that the text is from, for messages

    Raises
    ------
    FormatError : another text
    """
    try:
        decompressor = zlib.decompressobj()
        content = decompressor.decompress(base64.b64decode(text, validate=True), weight_bytes + _LARGEST_REST)
        if not decompressor.eof:
            raise ValueError("it is too long, or not complete")
    except (ValueError, zlib.error) as error:
        raise FormatError(f"the network in the metadata is damaged: {error}", path=path) from error
    reader = TokenReader(io.BytesIO(content), path=path, size=len(content))
    reader.read_header()
    return Nnet.read(reader)
