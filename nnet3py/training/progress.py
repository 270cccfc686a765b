"""How a network changed between two points of its training. Kaldi: ``nnet3-show-progress``."""
from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from nnet3py.errors import Nnet3Error, UsageError
from nnet3py.log import kaldi_place
from nnet3py.network.nnet import Nnet
from nnet3py.network.whole_model import component_dot_products, format_per_component, num_updatable_components

if TYPE_CHECKING:
    from nnet3py.egs.example import NnetExample
    from nnet3py.training.diagnostics import DiagnosticOptions

logger = logging.getLogger(__name__)


def _place(line: int) -> dict[str, object]:
    return kaldi_place("main", "nnet3-show-progress.cc", line)


def objective_changes(old: Nnet, new: Nnet, egs: Sequence[NnetExample], num_segments: int = 1,
                      options: DiagnosticOptions | None = None) -> list[float]:
    """What each updatable component's change did to the objective per frame, to first order. Logs on the way.

    The straight line from ``old`` to ``new`` is cut into segments; in the middle of each the derivative is taken.

    Parameters
    ----------
    egs : merged examples; the objective is that of their output named ``output``
    num_segments : 1 or more

    Raises
    ------
    UsageError : no segments, or no examples
    Nnet3Error : networks of different structure, or examples that do not fit them
    """
    from nnet3py.training.diagnostics import NnetDiagnostics  # slow to load

    if num_segments < 1:
        raise UsageError(f"--num-segments={num_segments} must be 1 or more")
    if not egs:
        raise UsageError("No examples read.")
    changes = np.zeros(num_updatable_components(old))
    for segment in range(num_segments):
        position = (segment + 0.5) / num_segments
        nnet = new.copy()
        nnet.scale(position)
        nnet.add(1.0 - position, old)
        gradient = nnet.as_gradient()
        diagnostics = NnetDiagnostics(nnet, options, gradient=gradient)
        for eg in egs:
            diagnostics.compute(eg)
        diagnostics.log_totals()
        totals = diagnostics.outputs.get("output")
        if totals is None or not totals.weight:
            raise Nnet3Error("the examples have no supervision for 'output', so there is no objective to look at")
        logger.info(f"At position {position:.6g}, objf per frame is {totals.objective / totals.weight:.6g}",
                    extra=_place(115))
        diagnostics.compiler.log_time()
        change = np.subtract(component_dot_products(gradient, new), component_dot_products(gradient, old))
        changes += change / (totals.weight * num_segments)
    logger.info(f"Total objf change per component is {format_per_component(old, changes.tolist())}",
                extra=_place(128))
    return [float(change) for change in changes]


def log_parameter_changes(old: Nnet, new: Nnet) -> Nnet:
    """Log each updatable component's change, size and relative change (2-norms); returns ``old`` minus ``new``.

    Raises ShapeError for networks of different structure.
    """
    difference = old.copy()
    difference.add(-1.0, new)
    changed, before, after = (np.sqrt(component_dot_products(nnet, nnet)) for nnet in (difference, old, new))
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = changed / before
    for line, what, values in ((143, "Parameter differences per layer are ", changed),
                               (153, "Norms of parameter matrices from <new-nnet-in> are ", after),
                               (157, "Relative parameter differences per layer are ", relative)):
        logger.info(what + format_per_component(old, values.tolist()), extra=_place(line))
    return difference
