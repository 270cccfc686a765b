"""Running averages of the training objective, and the trainer's lines about them. Kaldi: ``ObjectiveFunctionInfo``."""
from __future__ import annotations

import logging
from dataclasses import dataclass

from nnet3py.log import kaldi_place

logger = logging.getLogger(__name__)

_TOTAL = kaldi_place("PrintTotalStats", "nnet-training.cc", 317)
_SCRIPTS = kaldi_place("PrintTotalStats", "nnet-training.cc", 324)
_PHASE = kaldi_place("PrintStatsForThisPhase", "nnet-training.cc", 278)


@dataclass
class ObjectiveStats:
    """Totals of one output's objective, over all and over the current phase of ``print_interval`` minibatches.

    An auxiliary objective, such as the l2 term of chain training's output, is shown beside it where there is any.
    """

    name: str
    print_interval: int
    total_weight: float = 0.0
    total_objective: float = 0.0
    total_aux: float = 0.0
    phase: int = 0
    phase_minibatches: int = 0
    phase_weight: float = 0.0
    phase_objective: float = 0.0
    phase_aux: float = 0.0

    def add(self, minibatch: int, weight: float, objective: float, aux_objective: float = 0.0) -> None:
        """Count one minibatch; when it begins a new phase, log the finished one first."""
        phase = minibatch // self.print_interval
        if phase != self.phase:
            self._log_phase(phase)
            self.phase, self.phase_minibatches = phase, 0
            self.phase_weight = self.phase_objective = self.phase_aux = 0.0
        self.phase_minibatches += 1
        self.phase_weight += weight
        self.phase_objective += objective
        self.phase_aux += aux_objective
        self.total_weight += weight
        self.total_objective += objective
        self.total_aux += aux_objective

    def average(self) -> float:
        """The objective per frame (per unit of weight) over all minibatches; NaN if there was no weight."""
        return self.total_objective / self.total_weight if self.total_weight else float("nan")

    def log_total(self) -> None:
        """Log the two closing lines, the second in the form that scripts look for."""
        shown = per_frame(self.total_objective, self.total_aux, self.total_weight)
        logger.info(f"Overall average objective function for '{self.name}' is {shown} over {self.total_weight:.6g} "
                    "frames.", extra=_TOTAL)
        logger.info(f"[this line is to be parsed by a script:] log-prob-per-frame={self.average():.6g}", extra=_SCRIPTS)

    def _log_phase(self, next_phase: int) -> None:
        first, last = self.phase * self.print_interval, next_phase * self.print_interval - 1
        if self.phase_minibatches == self.print_interval:
            which = f"'{self.name}' for minibatches {first}-{last}"
        else:   # Kaldi prints this form without the closing quote, and scripts expect that
            quote = "'" if self.phase_aux else ""
            which = f"'{self.name}{quote} using {self.phase_minibatches} minibatches in minibatch range {first}-{last}"
        shown = per_frame(self.phase_objective, self.phase_aux, self.phase_weight)
        logger.info(f"Average objective function for {which} is {shown} over {self.phase_weight:.6g} frames.",
                    extra=_PHASE)


def per_frame(objective: float, aux_objective: float, weight: float) -> str:
    """An objective divided by its weight, as logs show it: with an auxiliary one "F + G = H"."""
    value, aux = (total / weight if weight else float("nan") for total in (objective, aux_objective))
    return f"{value:.6g} + {aux:.6g} = {value + aux:.6g}" if aux_objective else f"{value:.6g}"
