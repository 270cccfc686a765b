"""ONNX files as networks: those made here, whose metadata hold the network, and those of other programs."""
from __future__ import annotations

import logging
import os
from typing import Any, overload

import numpy as np

from nnet3py.acoustic_model import AcousticModel, acoustic_model
from nnet3py.errors import FormatError
from nnet3py.export.export_options import ALL_OUTPUTS, ExportOptions
from nnet3py.export.network_text import network_of_text
from nnet3py.export.onnx_graph import NETWORK
from nnet3py.export.onnx_reading import OnnxFile, read_onnx
from nnet3py.export.onnx_weights import set_weights
from nnet3py.export.plain_weights import named_arrays
from nnet3py.network.nnet import Nnet

logger = logging.getLogger("nnet3py.export")

# metadata of what the export put after the network
_AFTER = {"use_priors": "subtracts the logs of priors", "log_softmax": "ends with a log-softmax",
          "apply_exp": "ends with an exponential"}


@overload
def from_onnx(path: str | os.PathLike[str], *, like: None = None) -> Nnet: ...
@overload
def from_onnx(path: str | os.PathLike[str], *, like: AcousticModel | str | os.PathLike[str]) -> AcousticModel: ...
def from_onnx(path: str | os.PathLike[str], *,
              like: AcousticModel | str | os.PathLike[str] | None = None) -> Nnet | AcousticModel:
    """TODO"""
    file = read_onnx(path)
    nnet = _own_network(file)
    if like is None:
        return nnet
    return acoustic_model(like).with_network(nnet)


def _own_network(file: OnnxFile) -> Nnet:
    """The network of a file that was made here."""
    nnet = network_of_text(file.metadata[NETWORK], sum(array.nbytes for array in file.arrays.values()), file.path)
    factor, edges = file.metadata.get("frame_subsampling_factor", ""), file.metadata.get("edges", "")
    if not factor.isdecimal():
        raise FormatError(f"the metadata of the ONNX file are damaged: frame_subsampling_factor={factor}",
                          path=file.path)
    set_weights(nnet, file, ExportOptions(output=ALL_OUTPUTS, collapse=False, frame_subsampling_factor=int(factor),
                                          edges="none" if edges == "none" else "given"))
    for name, array in named_arrays(nnet).items():
        if np.isnan(array).any():
            raise FormatError(f"the file has no '{name}', or NaN in it", path=file.path,
                              hint="was the file quantized, or changed by another program?")
    for key, what in _AFTER.items():
        if file.metadata.get(key) == "1":
            logger.warning("%s %s after the network, which the imported network does not", file.path, what)
    return nnet
