"""Running averages of the training objective, and the trainer's lines about them. Kaldi: ``ObjectiveFunctionInfo``."""
from __future__ import annotations

import logging
from dataclasses import dataclass

from nnet3py.log import kaldi_place

logger = logging.getLogger(__name__)

_TOTAL = kaldi_place("PrintTotalStats", "nnet-training.cc", 317)
_PHASE = kaldi_place("PrintStatsForThisPhase", "nnet-training.cc", 278)


@dataclass
class ObjectiveStats:
    """Totals of one output's objective, over all and over the current phase of ``print_interval`` minibatches."""

    name: str
    print_interval: int
    total_weight: float = 0.0
    total_objective: float = 0.0
    phase: int = 0
    phase_minibatches: int = 0
    phase_weight: float = 0.0
    phase_objective: float = 0.0

    def add(self, minibatch: int, weight: float, objective: float) -> None:
        """Count one minibatch; when it begins a new phase, log the finished one first."""
        phase = minibatch // self.print_interval
        if phase != self.phase:
            self._log_phase(phase)
            self.phase, self.phase_minibatches = phase, 0
            self.phase_weight = self.phase_objective = 0.0
        self.phase_minibatches += 1
        self.phase_weight += weight
        self.phase_objective += objective
        self.total_weight += weight
        self.total_objective += objective

    def average(self) -> float:
        """The objective per frame (per unit of weight) over all minibatches; NaN if there was no weight."""
        return self.total_objective / self.total_weight if self.total_weight else float("nan")

    def log_total(self) -> None:
        """Log the two closing lines, the second in the form that scripts look for."""
        logger.info(f"Overall average objective function for '{self.name}' is {self.average():.6g} over "
                    f"{self.total_weight:.6g} frames.", extra=_TOTAL)
        logger.info(f"[this line is to be parsed by a script:] log-prob-per-frame={self.average():.6g}", extra=_TOTAL)

    def _log_phase(self, next_phase: int) -> None:
        first, last = self.phase * self.print_interval, next_phase * self.print_interval - 1
        average = self.phase_objective / self.phase_weight if self.phase_weight else float("nan")
        if self.phase_minibatches == self.print_interval:
            which = f"'{self.name}' for minibatches {first}-{last}"
        else:   # Kaldi prints this form without the closing quote, and scripts know it so
            which = f"'{self.name} using {self.phase_minibatches} minibatches in minibatch range {first}-{last}"
        logger.info(f"Average objective function for {which} is {average:.6g} over {self.phase_weight:.6g} frames.",
                    extra=_PHASE)
