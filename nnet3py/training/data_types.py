"""The types of what networks are trained on, for those who check types."""
from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol, TypeAlias

import numpy as np

from nnet3py.egs.example import NnetExample
from nnet3py.training.targets import Targets


class Minibatches(Protocol):
    """A source of minibatches, pass after pass."""

    def minibatches(self, seed: int) -> Iterator[NnetExample]:
        """One pass, in an order that depends on ``seed``."""


# Features and targets of an utterance, perhaps with an i-vector.
Utterance: TypeAlias = tuple[np.ndarray, Targets] | tuple[np.ndarray, Targets, np.ndarray | None]
# Features, targets and perhaps i-vectors by the names of utterances.
UtterancesByName: TypeAlias = (
    tuple[Mapping[str, np.ndarray], Mapping[str, Targets]]
    | tuple[Mapping[str, np.ndarray], Mapping[str, Targets], Mapping[str, np.ndarray]])
Examples: TypeAlias = Iterable[NnetExample] | Iterable[tuple[str, NnetExample]]
# Rspecifiers: of an archive of examples; of features and targets.
Archives: TypeAlias = str | tuple[str, str]
TrainingData: TypeAlias = (
    Utterance | Iterable[Utterance] | Mapping[str, Utterance] | UtterancesByName | Examples | Archives | Minibatches)
# What goes before targets that are an argument of their own, and these.
FeaturesOrData: TypeAlias = TrainingData | np.ndarray | Mapping[str, np.ndarray]
TargetsOfAll: TypeAlias = Targets | Mapping[str, Targets] | str
