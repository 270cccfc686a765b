"""Drawings of a compilation in files: network, computation graph, memory."""
from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from nnet3py.errors import Nnet3Error, UsageError
from nnet3py.io.streams import write_text
from nnet3py.report.draw_graph import draw_graph
from nnet3py.report.draw_memory import draw_memory
from nnet3py.report.draw_network import draw_network
from nnet3py.report.svg import Drawing, stacked

if TYPE_CHECKING:
    from nnet3py.compiler.computation import Computation
    from nnet3py.compiler.request import ComputationRequest
    from nnet3py.network.nnet import Nnet

logger = logging.getLogger(__name__)


def drawings(nnet: Nnet, request: ComputationRequest, computation: Computation) -> dict[str, Drawing]:
    """By name: ``network``, ``graph`` (not where it would be too large, which is logged) and ``memory``."""
    pictures = {"network": draw_network(nnet)}
    try:
        pictures["graph"] = draw_graph(nnet, request)
    except Nnet3Error as error:
        logger.warning("No drawing of the computation graph: %s", error)
    pictures["memory"] = draw_memory(computation, nnet)
    return pictures


def write_drawings(target: str, nnet: Nnet, request: ComputationRequest, computation: Computation) -> list[str]:
    """Write the drawings; returns the files' names.

    Parameters
    ----------
    target : a file NAME.svg, which gets all of them, or a folder, which is made

    Raises
    ------
    UsageError : a folder that cannot be made
    """
    pictures = drawings(nnet, request, computation)
    if target.endswith(".svg") and not os.path.isdir(target):
        write_text(target, stacked("Compilation", list(pictures.values())))
        return [target]
    try:
        os.makedirs(target, exist_ok=True)
    except OSError as error:
        raise UsageError(f"the folder {target} for drawings cannot be made: {error.strerror}",
                         "give a new folder's name, or a file's that ends in .svg") from None
    paths = []
    for name, drawing in pictures.items():
        paths.append(os.path.join(target, f"{name}.svg"))
        write_text(paths[-1], drawing.svg())
    return paths
