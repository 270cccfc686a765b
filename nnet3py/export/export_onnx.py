"""Models as ONNX files, for Python programs."""
from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from nnet3py.advice import arguments_elsewhere
from nnet3py.export import quantize as quantizing
from nnet3py.export.export_options import ExportOptions, ExportSettings
from nnet3py.export.onnx_file import write_onnx
from nnet3py.export.operations import Graph

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from nnet3py.acoustic_model import AcousticModel
    from nnet3py.export.quantize import Utterance
    from nnet3py.network.nnet import Nnet

logger = logging.getLogger("nnet3py.export")


@arguments_elsewhere(
    ExportOptions, opset_or_opset_version="the opset is 17",
    dynamic_axes_or_dynamic_shapes="nothing is to be done: the file takes any number of sequences and frames",
    input_names_or_output_names="they are input, ivector and output; output= chooses the node",
    args_or_dummy_input="none is needed: export_onnx(model, path)")
def export_onnx(model: Nnet | AcousticModel | str | os.PathLike[str], path: str | os.PathLike[str],
                options: ExportOptions | None = None, *, quantize: str = "",
                quantize_on: Utterance | Sequence[Utterance] = (), **settings: Unpack[ExportSettings]) -> Graph:
    """Write a model as an ONNX file of standard operators (opset 17), with any number of sequences and frames.

    Inputs are ``input``, float32 (N, T, dim), and ``ivector``, float32 (N, dim), where the network has one; the output
    is ``output``, float32 (N, ceil(T / frame_subsampling_factor), dim), equal to that of :func:`nnet3py.compute` with
    one chunk. Metadata tell the context, the subsampling and the like.

    Parameters
    ----------
    model : a network, an acoustic model, the file of one, or a model folder; left as it is
    path : the file to write
    options, settings : see :class:`~nnet3py.export.export_options.ExportOptions`; or its attributes by name
    quantize : "int8", "int16" or "float16": smaller numbers, see :func:`nnet3py.export.quantize.quantize`; the logger
        ``nnet3py.export`` says what accuracy that costs
    quantize_on : features, float (frames, dim), or a pair of these and an i-vector, as ``nnet3py.front_end`` gives it,
        or several of them, on which that is measured: half a minute of speech. Without them it is measured on random
        numbers

    Returns
    -------
    The operations that were written.

    Raises
    ------
    Nnet3Error : what cannot be exported, before anything is written; the package onnx is not installed
    """
    options = options or ExportOptions(**settings)
    if quantize:
        quantizing.check_kind(quantize)
    graph = write_onnx(model, path, options)
    if quantize:
        loss = quantizing.quantize(path, path, quantize, quantize_on)
        logger.info("Quantized %s to %s: %s", path, quantize, loss.text())
    return graph
