"""Adding a minibatch's change to the model, limited in size. Kaldi: ``UpdateNnetWithMaxChange``.

Each updatable component's change is cut to the component's own ``max-change``; what remains of all of them together is
cut to the global limit. Both limits are on the 2-norm of the change.
"""
from __future__ import annotations

import logging
import math
from dataclasses import dataclass, field

import numpy as np

from nnet3py.components.base import Properties
from nnet3py.log import kaldi_place
from nnet3py.network.nnet import Nnet

logger = logging.getLogger(__name__)


@dataclass
class MaxChangeStats:
    """How often the limits were active."""

    num_minibatches: int = 0
    num_global: int = 0
    num_per_component: dict[str, int] = field(default_factory=dict)

    def lines(self, component_names: list[str]) -> list[str]:
        """The trainer's closing lines on max-change: one for each limit that was ever active."""
        percent = 100.0 / max(self.num_minibatches, 1)
        counts = [(name, self.num_per_component.get(name, 0)) for name in component_names]
        lines = [f"For {name}, per-component max-change was enforced {count * percent:.6g} % of the time."
                 for name, count in counts if count]
        if self.num_global:
            lines.append(f"The global max-change was enforced {self.num_global * percent:.6g} % of the time.")
        return lines


def update_with_max_change(nnet: Nnet, delta: Nnet, max_param_change: float, max_change_scale: float, scale: float,
                           stats: MaxChangeStats) -> bool:
    """Add ``scale`` times ``delta`` to ``nnet``, in place, within the limits.

    Parameters
    ----------
    max_param_change : the global limit; 0 for none
    max_change_scale : multiplies every limit
    scale : multiplies the change
    stats : counts how often limits were active

    Returns
    -------
    False if the change is infinite and was therefore not applied.
    """
    stats.num_minibatches += 1
    squares, factors = delta.squares(), np.zeros(len(delta.components))
    total, smallest = 0.0, (1.0, "", 0.0)
    num_updatable = num_limited = 0
    for c, change in enumerate(delta.components):
        if not change.has(Properties.UPDATABLE):
            continue
        num_updatable += 1
        name, limit = delta.component_names[c], change.max_change * max_change_scale   # type: ignore[attr-defined]
        square = float(squares[c])
        size, factor = math.sqrt(square) * abs(scale), 1.0
        if limit != 0.0 and size > limit:
            factor = limit / size
            num_limited += 1
            stats.num_per_component[name] = stats.num_per_component.get(name, 0) + 1
            if factor < smallest[0]:
                smallest = (factor, name, limit / max_change_scale)
        factors[c] = factor
        total += factor * factor * square
    global_factor = _global_factor(abs(scale) * math.sqrt(total), max_param_change * max_change_scale)
    if global_factor is None:
        logger.warning("Infinite parameter change, will not apply.")
        return False
    stats.num_global += global_factor < 1.0
    _log_limits(num_limited, num_updatable, smallest, global_factor, max_param_change)
    nnet.add_components(factors * scale * global_factor, delta)
    return True


def _global_factor(size: float, limit: float) -> float | None:
    """What the change must be multiplied with to stay within ``limit`` (0: none); None if its size is infinite."""
    if limit == 0.0 or not size > limit:   # a NaN size passes, as in Kaldi
        return 1.0
    return None if math.isinf(size) else limit / size


def _log_limits(num_limited: int, num_updatable: int, smallest: tuple[float, str, float], global_factor: float,
                max_param_change: float) -> None:
    message = ""
    if num_limited:
        factor, name, limit = smallest
        message = (f"Per-component max-change active on {num_limited} / {num_updatable} Updatable Components. "
                   f"(Smallest factor={factor:.6g} on {name} with max-change={limit:.6g}). ")
    if global_factor < 1.0:
        message += f"Global max-change factor was {global_factor:.6g} with max-change={max_param_change:.6g}."
    if message:
        logger.info(message, extra=kaldi_place("UpdateNnetWithMaxChange", "nnet-utils.cc", 2205))
