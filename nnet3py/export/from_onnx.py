"""ONNX files as networks: those made here, whose metadata hold the network, and those of other programs."""
from __future__ import annotations

import logging
import os
from typing import overload

import numpy as np

from nnet3py.acoustic_model import AcousticModel, acoustic_model
from nnet3py.errors import FormatError, UsageError
from nnet3py.export.export_options import ALL_OUTPUTS, ExportOptions
from nnet3py.export.network_text import network_of_text
from nnet3py.export.onnx_graph import NETWORK
from nnet3py.export.onnx_import import PADDING, ForeignNetwork, foreign_network
from nnet3py.export.onnx_reading import OnnxFile, read_onnx
from nnet3py.export.onnx_weights import set_weights
from nnet3py.export.plain_weights import named_arrays
from nnet3py.network.nnet import Nnet

logger = logging.getLogger("nnet3py.export")

# metadata of what the export put after the network
_AFTER = {"use_priors": "subtracts the logs of priors", "log_softmax": "ends with a log-softmax",
          "apply_exp": "ends with an exponential"}


@overload
def from_onnx(path: str | os.PathLike[str], *, like: None = None, padding: str = "zeros") -> Nnet: ...
@overload
def from_onnx(path: str | os.PathLike[str], *, like: AcousticModel | str | os.PathLike[str],
              padding: str = "zeros") -> AcousticModel: ...
def from_onnx(path: str | os.PathLike[str], *, like: AcousticModel | str | os.PathLike[str] | None = None,
              padding: str = "zeros") -> Nnet | AcousticModel:
    """Make a network of an ONNX file, of this package or of another program such as PyTorch.

    A file of :func:`export_onnx` becomes the network that was exported, with the weights that are in the file: in the
    form for inference, or with ``collapse=False`` in every respect as it was. What the export added after the network
    (priors, log-softmax, exponential) is not part of it.

    The graph of another file must compute columns for each frame, of an input of frames and perhaps of a vector for
    each sequence, which becomes ``ivector``; docs/export.md lists the operators. Its outputs are called ``output``, and
    if there are more, as in the file. Where the graph reduces the number of frames, outputs are for every second, third
    or so frame (``frame_subsampling_factor``). The logger ``nnet3py.export`` says which rows of the graph are which
    frames.

    Parameters
    ----------
    path : the file; weights may be in another file beside it
    like : an acoustic model, its file or its folder, whose transition model and priors the result gets
    padding : of convolutions of another program's file: "zeros", as in the graph, so that results depend on where
        chunks end (``frames_per_chunk``); or "replicate", a network with context, whose outputs differ from the
        graph's at the beginning and the end, where the first and last frames are repeated

    Returns
    -------
    A network, or with ``like`` an acoustic model

    Raises
    ------
    FormatError : a file that is not ONNX, or one of ours whose weights another program changed in form
    ShapeError : an output that is not as wide as ``like`` has pdfs
    Nnet3Error : an operator that no network has, with its node; the package onnx is not installed
    """
    if padding not in PADDING:
        raise UsageError(f"padding={padding!r}: expected {' or '.join(map(repr, PADDING))}")
    nnet = imported(read_onnx(path), padding)[0]
    return nnet if like is None else acoustic_model(like).with_network(nnet)


def imported(file: OnnxFile, padding: str = PADDING[0]) -> tuple[Nnet, ForeignNetwork | None]:
    """The network of a file, and how it belongs to the graph, if that is another program's.

    Raises as :func:`from_onnx`.
    """
    if file.is_own and NETWORK in file.metadata:
        return _own_network(file), None
    foreign = foreign_network(file, padding)
    _log(file, foreign, padding)
    return foreign.nnet, foreign


def _own_network(file: OnnxFile) -> Nnet:
    """The network of a file that was made here."""
    nnet = network_of_text(file.metadata[NETWORK], sum(array.nbytes for array in file.arrays.values()), file.path)
    factor, edges = file.metadata.get("frame_subsampling_factor", ""), file.metadata.get("edges", "")
    if not factor.isdecimal() or factor == "0":
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
            logger.warning("%s %s after the network; the imported network does not", file.path, what)
    if int(factor) > 1:
        logger.info("%s has a row of output for every %s frames: frame_subsampling_factor", file.path, factor)
    return nnet


def _log(file: OnnxFile, foreign: ForeignNetwork, padding: str) -> None:
    rows = f"{foreign.step} r" if foreign.step > 1 else "r"
    logger.info("Row r of the output of %s is the network's output for frame %s%s", file.path, rows,
                f" + {foreign.first}" if foreign.first else "")
    if foreign.step > 1:
        logger.info("%s has a row of output for every %d frames: frame_subsampling_factor", file.path, foreign.step)
    if foreign.has_zeros and padding == "zeros":
        logger.warning("%s pads with zeros, so outputs depend on where chunks end: compute utterances as a whole "
                       "(frames_per_chunk), or import it with padding='replicate'", file.path)
    elif foreign.is_recurrent:
        logger.info("%s is recurrent: its outputs are those of whole utterances (frames_per_chunk)", file.path)
