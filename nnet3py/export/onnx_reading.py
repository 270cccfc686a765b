"""ONNX files as they are read: the graph, its weights, its metadata."""
from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from nnet3py.errors import FormatError, Nnet3Error
from nnet3py.export.onnx_graph import import_onnx


@dataclass(frozen=True)
class OnnxFile:
    """What is in a file.

    Attributes
    ----------
    path : the file
    model : onnx's ``ModelProto``
    arrays : the initializers by name
    metadata : by key
    """

    path: str
    model: Any
    arrays: dict[str, np.ndarray]
    metadata: dict[str, str]

    @property
    def is_own(self) -> bool:
        """Whether nnet3py made it."""
        return self.metadata.get("producer") == "nnet3py"


def read_onnx(path: str | os.PathLike[str]) -> OnnxFile:
    """Read a file, and the weights beside it if they are in a file of their own.

    Raises
    ------
    Nnet3Error : the package onnx is not installed; a file that cannot be opened
    FormatError : a file that is not ONNX
    """
    onnx, path = import_onnx(), os.fspath(path)
    try:
        model = onnx.load(path)
        arrays = {each.name: onnx.numpy_helper.to_array(each) for each in model.graph.initializer}
    except OSError as error:
        raise Nnet3Error(f"{path}: {error.strerror}") from error
    except Exception as error:                   # protobuf's exceptions for bad bytes have no common base
        raise FormatError(f"this is no ONNX file: {error}", path=path) from error
    if not model.graph.node:
        raise FormatError("this is no ONNX file: it has no operators", path=path)
    return OnnxFile(path, model, arrays, {each.key: each.value for each in model.metadata_props})
