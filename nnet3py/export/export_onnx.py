"""Models as ONNX files, for Python programs."""
from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from nnet3py.export.export_options import ExportOptions, ExportSettings
from nnet3py.export.onnx_file import write_onnx
from nnet3py.export.operations import Graph
from nnet3py.export.quantize import Utterance, check_kind, quantize_file

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from nnet3py.acoustic_model import AcousticModel
    from nnet3py.network.nnet import Nnet

logger = logging.getLogger("nnet3py.export")


def export_onnx(model: Nnet | AcousticModel | str | os.PathLike[str], path: str | os.PathLike[str],
                options: ExportOptions | None = None, *, quantize: str = "", quantize_on: Sequence[Utterance] = (),
                **settings: Unpack[ExportSettings]) -> Graph:
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
    quantize_on : features (frames, dim), or pairs of these and an i-vector, as ``nnet3py.front_end`` gives them, on
        which that is measured: half a minute of speech. Without them it is measured on random numbers

    Returns
    -------
    The operations that were written.

    Raises
    ------
    Nnet3Error : what cannot be exported, before anything is written; the package onnx is not installed
    """
    options = options or ExportOptions(**settings)
    if quantize:
        check_kind(quantize)
    graph = write_onnx(model, path, options)
    if quantize:
        loss = quantize_file(os.fspath(path), quantize, quantize_on)
        logger.info("Quantized %s to %s: %s", path, quantize, loss.text())
    return graph
