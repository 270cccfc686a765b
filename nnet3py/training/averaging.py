"""Weighted averages of networks. Kaldi: ``nnet3-average``."""
from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Sequence

from nnet3py.errors import Nnet3Error, UsageError
from nnet3py.network.nnet import Nnet

logger = logging.getLogger(__name__)


def normalized_weights(weights: Sequence[float] | None, count: int) -> list[float]:
    """``weights``, or equal ones, scaled to a sum of 1; warns if they are off by more than 1 %.

    Raises
    ------
    UsageError : not one weight per model, or they are not finite or sum to 0
    """
    if weights is None:
        return [1.0 / count] * count
    if len(weights) != count:
        raise UsageError(f"{len(weights)} weights were given for {count} models")
    total = sum(weights)
    if not math.isfinite(total):
        raise UsageError(f"the weights of the models are not all finite numbers: {list(weights)}")
    if total == 0.0:
        raise UsageError("the weights of the models sum to 0")
    if abs(total - 1.0) > 0.01:
        logger.warning(f"Normalizing weights to sum to one, sum was {total:.6g}")
    return [weight / total for weight in weights]


def average_nnets(nnets: Iterable[tuple[str, Nnet]], weights: Sequence[float]) -> Nnet:
    """Sum of ``weights[i]`` times network i, statistics included; configuration and learning rates are the first one's.

    Parameters
    ----------
    nnets : (name, network) pairs, taken one at a time so that two networks are in memory at once
    weights : one per network

    Raises
    ------
    Nnet3Error : networks of different structure
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
    """What the components of networks must have in common so that the networks can be added."""
    return [(type(c).__name__, c.input_dim, c.output_dim, [value.shape for value in c.parameters().values()])
            for c in nnet.components]
