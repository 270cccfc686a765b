"""Adding a minibatch's change to the model, limited in size. Kaldi: ``UpdateNnetWithMaxChange``.

The change of each updatable component is scaled down to the component's own ``max-change``, then the change of all
components together to the global limit. Both limits are on the 2-norm of the change.
"""
from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from nnet3py.components.updatable import is_updatable
from nnet3py.log import kaldi_place
from nnet3py.network.nnet import Nnet
from nnet3py.runtime.parameter_store import ParameterStore

logger = logging.getLogger(__name__)


@dataclass
class MaxChangeStats:
    """Counts of how often the limits on changes were active."""

    num_minibatches: int = 0    # minibatches counted
    num_global: int = 0         # minibatches in which the global limit was active
    # the same for the limit of each component, by name
    num_per_component: dict[str, int] = field(default_factory=dict)

    def lines(self, component_names: list[str]) -> list[str]:
        """Return the trainer's final log lines on max-change, one for each limit that was ever active."""
        percent = 100.0 / max(self.num_minibatches, 1)
        counts = [(name, self.num_per_component.get(name, 0)) for name in component_names]
        lines = [f"For {name}, per-component max-change was enforced {count * percent:.6g} % of the time."
                 for name, count in counts if count]
        if self.num_global:
            lines.append(f"The global max-change was enforced {self.num_global * percent:.6g} % of the time.")
        return lines


def update_with_max_change(nnet: ParameterStore, delta: ParameterStore, max_param_change: float,
                           max_change_scale: float, scale: float, momentum: float, stats: MaxChangeStats,
                           of_components: bool = True) -> Callable[[], bool]:
    """Add ``scale`` times ``delta`` to ``nnet``, in place, within the limits; then multiply ``delta`` by ``momentum``.

    Parameters
    ----------
    max_param_change : the global limit; 0: none
    max_change_scale : factor of all limits
    scale : factor of the change
    momentum : factor that ``delta``'s trainable components are then multiplied by; they become 0 if the change is not
        applied
    stats : counts of active limits, which are updated
    of_components : whether the components' own limits apply; if not, only the global one does, and the log differs

    Returns
    -------
    A function to call once when the device has finished: it updates ``stats``, logs active limits, and returns False if
    the change was infinite and so was not applied.
    """
    limits = component_limits(delta.host, of_components) * max_change_scale
    factors = nnet.add_limited(delta, limits, max_param_change * max_change_scale, scale, momentum)
    return lambda: _report(delta.host, factors(), max_param_change, stats, of_components)


def component_limits(delta: Nnet, of_components: bool = True) -> np.ndarray:
    """Return the limit of each component, float64 (components,); 0: none, NaN: the component is not trained."""
    return np.array([component.max_change * of_components if is_updatable(component) else math.nan
                     for component in delta.components])


def _report(delta: Nnet, factors: np.ndarray, max_param_change: float, stats: MaxChangeStats,
            of_components: bool) -> bool:
    """Count and log the active limits; return whether the change was applied."""
    stats.num_minibatches += 1
    trained = [c for c, component in enumerate(delta.components) if is_updatable(component)]
    limited = [c for c in trained if factors[c] < 1.0]
    for c in limited:
        name = delta.component_names[c]
        stats.num_per_component[name] = stats.num_per_component.get(name, 0) + 1
    if math.isnan(factors[-1]):
        logger.warning("Infinite parameter change, will not apply.")
        return False
    stats.num_global += bool(factors[-1] < 1.0)
    if not of_components:
        if factors[-1] < 1.0:
            logger.info(f"Parameter change too big: {max_param_change / factors[-1]:.6g} > --max-param-change="
                        f"{max_param_change:.6g}, scaling by {factors[-1]:.6g}",
                        extra=kaldi_place("Train", "nnet-discriminative-training.cc", 96))
        return True
    message = ""
    if limited:
        worst = min(limited, key=lambda c: float(factors[c]))
        own_limit = component_limits(delta)[worst]
        message = (f"Per-component max-change active on {len(limited)} / {len(trained)} Updatable Components. "
                   f"(Smallest factor={factors[worst]:.6g} on {delta.component_names[worst]} with "
                   f"max-change={own_limit:.6g}). ")
    if factors[-1] < 1.0:
        message += f"Global max-change factor was {factors[-1]:.6g} with max-change={max_param_change:.6g}."
    if message:
        logger.info(message, extra=kaldi_place("UpdateNnetWithMaxChange", "nnet-utils.cc", 2205))
    return True
