"""Weighted averages of networks, and the change between two networks.

Kaldi: ``nnet3-average``, ``nnet3-show-progress``.
"""
from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from nnet3py.errors import Nnet3Error, UsageError
from nnet3py.log import kaldi_place
from nnet3py.network.nnet import Nnet
from nnet3py.network.whole_model import component_dot_products, format_per_component, num_updatable_components

if TYPE_CHECKING:
    from nnet3py.egs.example import NnetExample
    from nnet3py.training.options import DiagnosticOptions

logger = logging.getLogger(__name__)


def normalized_weights(weights: Sequence[float] | None, count: int) -> list[float]:
    """Return ``weights`` scaled to a sum of 1, equal weights for None; warn if the sum is off by more than 1 %.

    Raises UsageError for another number of weights than of models, or weights that are not finite or sum to 0.
    """
    if weights is None:
        return [1.0 / count] * count
    if len(weights) != count:
        raise UsageError(f"found {len(weights)} weights, expected one for each of {count} models")
    total = sum(weights)
    if not math.isfinite(total):
        raise UsageError(f"the weights of the models are not all finite numbers: {list(weights)}")
    if total == 0.0:
        raise UsageError("the weights of the models sum to 0, so they cannot be scaled to a sum of 1")
    if abs(total - 1.0) > 0.01:
        logger.warning(f"Normalizing weights to sum to one, sum was {total:.6g}")
    return [weight / total for weight in weights]


def average_nnets(nnets: Iterable[tuple[str, Nnet]], weights: Sequence[float]) -> Nnet:
    """Return the sum of ``weights[i]`` times network i, with statistics, and with the first network's learning rates.

    Raises Nnet3Error for networks of different structure.

    ``nnets`` : (name, network) pairs, read one at a time so that two networks are in memory at once; ``weights`` : a
    weight for each network.
    """
    result: Nnet | None = None
    first_name = ""
    for (name, nnet), weight in zip(nnets, weights, strict=True):
        if result is None:
            result, first_name = nnet, name
            result.scale(weight)
            continue
        mine, theirs = _structure(result), _structure(nnet)
        if mine != theirs:
            raise Nnet3Error(f"{name} has other components than {first_name} ({len(theirs)} and {len(mine)} of them)",
                             "only networks of one training can be averaged")
        result.add(weight, nnet)
    if result is None:
        raise UsageError("no models to average")
    return result


def _structure(nnet: Nnet) -> list[tuple[object, ...]]:
    """Return the properties of each component that must be equal for networks to be added."""
    return [(type(c).__name__, c.input_dim, c.output_dim, [value.shape for value in c.parameters().values()])
            for c in nnet.components]


def _place(line: int) -> dict[str, object]:
    return kaldi_place("main", "nnet3-show-progress.cc", line)


def objective_changes(old: Nnet, new: Nnet, egs: Sequence[NnetExample], num_segments: int = 1,
                      options: DiagnosticOptions | None = None) -> list[float]:
    """Return, to first order, the change of the objective per frame due to each updatable component; log it.

    The straight line from ``old`` to ``new`` is divided into segments; derivatives are computed at the middle of each.
    Raises UsageError without examples, and Nnet3Error for networks of different structure, or examples
    that do not fit them.

    Parameters
    ----------
    egs : merged examples; the objective is that of their output ``output``
    num_segments : the number of segments, 1 or more
    """
    from nnet3py.training.diagnostics import NnetDiagnostics  # slow to load

    if not egs:
        raise UsageError("No examples read.", "is the archive empty?")
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
    logger.info(f"Total objf change per component is {format_per_component(old, changes.tolist())}", extra=_place(128))
    return [float(change) for change in changes]


def log_parameter_changes(old: Nnet, new: Nnet) -> Nnet:
    """Log each updatable component's change, size and relative change (2-norms), and return ``old`` minus ``new``.

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
