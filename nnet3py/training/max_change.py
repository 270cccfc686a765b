"""Adding a minibatch's change to the model, limited in size. Kaldi: ``UpdateNnetWithMaxChange``.

Each updatable component's change is cut to the component's own ``max-change``; what remains of all of them together is
cut to the global limit. Both limits are on the 2-norm of the change.
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
                           stats: MaxChangeStats, of_components: bool = True) -> bool:
    """Add ``scale`` times ``delta`` to ``nnet``, in place, within the limits.

    Parameters
    ----------
    max_param_change : the global limit; 0 for none
    max_change_scale : multiplies every limit
    scale : multiplies the change
    stats : counts how often limits were active
    of_components : components' own limits hold; otherwise there is only the global one, and the log differs

    Returns
    -------
    False if the change is infinite and was therefore not applied.
    """
    limits = component_limits(delta, of_components) * max_change_scale
    factors = limiting_factors(delta.squares(), limits, max_param_change * max_change_scale, abs(scale))
    applied = _report(delta, factors, max_param_change, stats, of_components)
    if applied:
        nnet.add_components(factors[:-1] * scale * factors[-1], delta)
    return applied


def queue_update(nnet: ParameterStore, delta: ParameterStore, max_param_change: float, max_change_scale: float,
                 scale: float, momentum: float, stats: MaxChangeStats,
                 of_components: bool = True) -> Callable[[], None]:
    """The same on a device, without the host waiting for it; then ``delta`` is multiplied by ``momentum``.

    Parameters
    ----------
    momentum : what remains of ``delta``'s trainable components; 0 for a change that is not applied

    Returns
    -------
    A function to call once when the device has done it, which counts and logs.
    """
    limits = component_limits(delta.host, of_components) * max_change_scale
    counts = nnet.add_limited(delta, limits, max_param_change * max_change_scale, scale, momentum)

    def report() -> None:
        _report(delta.host, counts(), max_param_change, stats, of_components)

    return report


def component_limits(delta: Nnet, of_components: bool = True) -> np.ndarray:
    """The limit of each component, float64; 0 for none, NaN for one that is not trained."""
    return np.array([component.max_change * of_components if is_updatable(component) else math.nan
                     for component in delta.components])


def limiting_factors(squares: np.ndarray, limits: np.ndarray, global_limit: float, scale: float) -> np.ndarray:
    """The factors of components, 0 for one not trained, and last that of the whole; NaN for an infinite change.

    Parameters
    ----------
    squares : float64, sums of squares of each component's change
    limits : float64, of each component's change times ``scale``
    global_limit : of the whole change times ``scale`` that is then left; 0 for none
    """
    sizes = np.sqrt(squares) * scale
    with np.errstate(invalid="ignore", divide="ignore"):
        factors = np.where((limits != 0.0) & (sizes > limits), limits / sizes, 1.0)
        factors[np.isnan(limits)] = 0.0
        size = scale * math.sqrt((factors * factors * squares).sum())
    return np.append(factors, _global_factor(size, global_limit))


def _global_factor(size: float, limit: float) -> float:
    """What the change must be multiplied by to stay within ``limit`` (0: none); NaN if its size is infinite."""
    if limit == 0.0 or not size > limit:   # a NaN size passes, as in Kaldi
        return 1.0
    return math.nan if math.isinf(size) else limit / size


def _report(delta: Nnet, factors: np.ndarray, max_param_change: float, stats: MaxChangeStats,
            of_components: bool) -> bool:
    """Count and log which limits were active; returns whether the change is applied."""
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
