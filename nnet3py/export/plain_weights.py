"""All arrays that a network computes with, by name: to ``.npz`` and safetensors files, and back into a network."""
from __future__ import annotations

import io
import os
from typing import Any

import numpy as np

from nnet3py.components.base import Component, with_children
from nnet3py.errors import FormatError, Nnet3Error, ShapeError
from nnet3py.extras import load
from nnet3py.io.streams import open_input, open_output
from nnet3py.network.nnet import Nnet

NEW_COUNT = 1000.0        # least count of frames for changed statistics of batch normalization
# arrays that are not trained but that a component computes with
FIXED = {
    "FixedAffineComponent": ("linear_params", "bias_params"), "FixedScaleComponent": ("vector",),
    "FixedBiasComponent": ("vector",), "BatchNormComponent": ("count", "sum", "sumsq"),
}


def named_arrays(nnet: Nnet) -> dict[str, np.ndarray]:
    """The arrays themselves (changing them in place changes the network): ``component.attribute`` -> float32, float64.

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
    """All components by their names; those inside a composite have its name and their number: ``component.0``."""
    components: dict[str, Component] = {}

    def add(name: str, component: Component) -> None:
        components[name] = component
        for number, child in enumerate(component.children):
            add(f"{name}.{number}", child)
    for name, component in nnet.named_components():
        add(name, component)
    return components


def set_arrays(nnet: Nnet, given: dict[str, np.ndarray], path: str | None = None) -> list[str]:
    """Put arrays into a network, in place; returns the names of those that changed.

    ``given`` has arrays of any type, by the names and of the shapes of :func:`named_arrays`.

    Raises
    ------
    ShapeError : a name that the network does not have, or another shape; the network is then unchanged
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
    """The statistics that give a batch normalization this mean and variance, by the names of :func:`named_arrays`.

    ``mean`` and ``variance`` are float (block dim,); the count of frames stays as it was, but is at least
    ``NEW_COUNT``.
    """
    count = max(float(component.count[0]), NEW_COUNT)
    mean64 = mean.astype(np.float64)
    return {f"{name}.count": np.array([count]), f"{name}.sum": mean64 * count,
            f"{name}.sumsq": (variance.astype(np.float64) + mean64**2) * count}


def import_safetensors() -> Any:
    """The module ``safetensors.numpy``. Raises Nnet3Error with the command that installs it."""
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
    """The arrays in a file of :func:`write_weights`, as :func:`named_arrays`. Raises FormatError for anything else."""
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
