"""What runs ONNX files: sessions of onnxruntime, and what is used of them."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from nnet3py.errors import Nnet3Error
from nnet3py.extras import load


class ModelMeta(Protocol):
    """What a model says of itself."""

    @property
    def custom_metadata_map(self) -> dict[str, str]: ...


class NodeArg(Protocol):
    """An input or output."""

    @property
    def name(self) -> str: ...


class OnnxSession(Protocol):
    """What is used of a session of onnxruntime."""

    def get_modelmeta(self) -> ModelMeta: ...
    def get_inputs(self) -> Sequence[NodeArg]: ...
    def get_outputs(self) -> Sequence[NodeArg]: ...
    def run(self, output_names: Sequence[str] | None, input_feed: dict[str, np.ndarray], /) -> Sequence[Any]: ...


def session(path_or_bytes: str | bytes, threads: int = 1) -> Any:
    """An onnxruntime session on the CPU. Raises Nnet3Error if it is not installed, or cannot read the file."""
    onnxruntime = load("onnxruntime", "running ONNX files needs", "onnx")
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads, settings.log_severity_level = threads, 3
    try:
        return onnxruntime.InferenceSession(path_or_bytes, settings, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise Nnet3Error(f"onnxruntime cannot load the model: {error}") from error
