"""Arrays of a network by name, in ``.npz`` and safetensors files; and networks without arrays as text.

The text of a network is in the metadata of ONNX files, from which the network is made again. It is a model file whose
arrays are NaN: these hardly need space when compressed, and show arrays that were not restored.
"""
from __future__ import annotations

import base64
import copy
import io
import os
import zlib
from collections.abc import Collection
from typing import Any

import numpy as np

from nnet3py.components.base import Component, with_children
from nnet3py.errors import FormatError, Nnet3Error, ShapeError
from nnet3py.extras import load
from nnet3py.io.holder import BINARY_HEADER
from nnet3py.io.streams import open_input, open_output
from nnet3py.io.tokens import TokenReader, TokenWriter
from nnet3py.network.nnet import Nnet

NEW_COUNT = 1000.0        # least count of frames for changed statistics of batch normalization
# arrays that are not trained but that a component computes with
FIXED = {
    "FixedAffineComponent": ("linear_params", "bias_params"), "FixedScaleComponent": ("vector",),
    "FixedBiasComponent": ("vector",), "BatchNormComponent": ("count", "sum", "sumsq")}


def named_arrays(nnet: Nnet) -> dict[str, np.ndarray]:
    """Return the arrays of a network, float32 or float64, by ``component.attribute``; they are not copies.

    Components inside a composite have their number in between: ``component.0.linear_params``.
    """
    arrays: dict[str, np.ndarray] = {}
    for name, component in all_components(nnet).items():
        if not component.children:
            arrays.update({f"{name}.{attribute}": array for attribute, array in component.parameters().items()})
            arrays.update({f"{name}.{attribute}": getattr(component, attribute)
                           for attribute in FIXED.get(type(component).__name__, ())})
    return arrays


def all_components(nnet: Nnet) -> dict[str, Component]:
    """Return all components by name; those inside a composite are named ``component.0`` and so on."""
    components: dict[str, Component] = {}

    def add(name: str, component: Component) -> None:
        components[name] = component
        for number, child in enumerate(component.children):
            add(f"{name}.{number}", child)
    for name, component in nnet.named_components():
        add(name, component)
    return components


def set_arrays(nnet: Nnet, given: dict[str, np.ndarray], path: str | None = None) -> list[str]:
    """Put arrays into a network, in place; return the names of those that changed.

    ``given`` has arrays of any type, with the names and shapes of :func:`named_arrays`.

    Raises ShapeError for an unknown name, or another shape; the network is then unchanged.
    """
    arrays = named_arrays(nnet)
    of_file = f" of {path}" if path else ""
    for name, array in given.items():
        if name not in arrays:
            raise ShapeError(f"'{name}'{of_file} is not a parameter of the network",
                             f"its parameters are called {', '.join(list(arrays)[:3])}, ...")
        if arrays[name].shape != np.shape(array):
            raise ShapeError(f"'{name}'{of_file} has shape {np.shape(array)}, expected {arrays[name].shape}")
        if not np.isfinite(array).all():
            raise ShapeError(f"'{name}'{of_file} has NaN or infinity in it")
    changed = []
    for name, array in given.items():
        new = np.asarray(array).astype(arrays[name].dtype)
        if not np.array_equal(new, arrays[name]):
            arrays[name][...] = new
            changed.append(name)
    for component in with_children(nnet.components):
        if type(component).__name__ == "BatchNormComponent":
            component.compute_derived()       # type: ignore[attr-defined]
    nnet.structure_changed()       # so that compiled and prepared forms of it are made again
    return changed


def batch_norm_arrays(name: str, component: Any, mean: np.ndarray, variance: np.ndarray) -> dict[str, np.ndarray]:
    """Return statistics of batch normalization with this mean and variance, by the names of :func:`named_arrays`.

    ``mean`` and ``variance`` are float (block dim,); the count of frames stays, but is at least ``NEW_COUNT``.
    """
    count = max(float(component.count[0]), NEW_COUNT)
    mean64 = mean.astype(np.float64)
    return {f"{name}.count": np.array([count]), f"{name}.sum": mean64 * count,
            f"{name}.sumsq": (variance.astype(np.float64) + mean64**2) * count}


def import_safetensors() -> Any:
    """Import ``safetensors.numpy``. Raises Nnet3Error with the command that installs it."""
    return load("safetensors.numpy", "safetensors files need", "safetensors", "safetensors")


def write_weights(nnet: Nnet, path: str | os.PathLike[str], file_format: str) -> None:
    """Write all arrays as ``npz`` or ``safetensors``."""
    arrays = {name: np.ascontiguousarray(array) for name, array in named_arrays(nnet).items()}
    if file_format == "npz":
        buffer = io.BytesIO()
        np.savez(buffer, **arrays)         # type: ignore[arg-type]
        content = buffer.getvalue()
    else:
        content = import_safetensors().save(arrays)
    with open_output(path) as file:
        file.write(content)


def read_weights(path: str | os.PathLike[str], file_format: str) -> dict[str, np.ndarray]:
    """Read a file of :func:`write_weights`; return arrays by name. Raises FormatError for another file."""
    with open_input(path) as file:
        content = file.read()
    try:
        if file_format == "npz":
            with np.load(io.BytesIO(content), allow_pickle=False) as archive:
                return {name: archive[name] for name in archive.files}
        return dict(import_safetensors().load(content))
    except Nnet3Error:
        raise
    except Exception as error:                 # the libraries' exceptions for bad bytes have no common base
        raise FormatError(f"this is no {file_format} file of weights: {error}", path=os.fspath(path)) from error


# -- networks without arrays as text -----------------------------------------------------------------------------------

_LARGEST_REST = 1 << 26        # bytes of what a model file holds beside weights; more are not believed


def as_it_is(nnet: Nnet) -> Nnet:
    """Return a copy of a network that shares its arrays, but not its nodes and settings."""
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
    """Return a network as text.

    ``left_out`` : names of arrays (:func:`named_arrays`) that are stored elsewhere, and are NaN in the text.
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
    """Return a component by its name, such as ``composite.0``."""
    if name in nnet.component_names:
        return nnet.components[nnet.component_names.index(name)]
    parent, _, number = name.rpartition(".")
    return _component(nnet, parent).children[int(number)]


class _Compressed:
    """Stream that compresses its content."""

    def __init__(self) -> None:
        self._compressor = zlib.compressobj()
        self._pieces: list[bytes] = []

    def write(self, data: bytes) -> int:
        self._pieces.append(self._compressor.compress(data))
        return len(data)

    def content(self) -> bytes:
        return b"".join([*self._pieces, self._compressor.flush()])


def network_of_text(text: str, weight_bytes: int, path: str) -> Nnet:
    """Return the network of a text of :func:`network_text`; arrays that were left out are NaN.

    Raises FormatError for any other text.

    ``weight_bytes`` : size of all arrays that were left out; ``path`` : file of the text, for messages.
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
