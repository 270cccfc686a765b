"""The types of what networks are trained on, for those who check types."""
from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from nnet3py.egs.example import NnetExample


class Minibatches(Protocol):
    """A source of minibatches, pass after pass."""

    def minibatches(self, seed: int) -> Iterator[NnetExample]:
        """One pass, in an order that depends on ``seed``."""


if TYPE_CHECKING:        # torch need not be there
    from collections.abc import Callable, Iterable, Mapping
    from typing import TypeAlias

    import numpy as np
    import torch
    from numpy.typing import NDArray
    from torch.utils.data import DataLoader, Dataset

    from nnet3py.training.targets import Targets as ArrayTargets

    Array: TypeAlias = np.ndarray | torch.Tensor
    Targets: TypeAlias = ArrayTargets | torch.Tensor
    # Features and targets of an utterance, perhaps with an i-vector.
    Utterance: TypeAlias = tuple[Array, Targets] | tuple[Array, Targets, Array | None]
    # Features, targets and perhaps i-vectors of several utterances: by name, or in lists.
    Utterances: TypeAlias = (
        tuple[Mapping[str, Array], Mapping[str, Targets]]
        | tuple[Mapping[str, Array], Mapping[str, Targets], Mapping[str, Array]]
        | tuple[list[Array], list[Array]] | tuple[list[Array], list[Array], list[Array]])
    Examples: TypeAlias = Iterable[NnetExample] | Iterable[tuple[str, NnetExample]]
    # Rspecifiers: of an archive of examples; of features and targets.
    Archives: TypeAlias = str | tuple[str, str]
    OfTorch: TypeAlias = DataLoader[object] | Dataset[object]
    TrainingData: TypeAlias = (
        Utterance | Iterable[Utterance] | Mapping[str, Utterance] | Utterances | Examples | Archives | OfTorch
        | Minibatches)
    # What goes before targets that are an argument of their own, and these.
    FeaturesOrData: TypeAlias = TrainingData | Array | Mapping[str, Array] | list[Array]
    TargetsOfAll: TypeAlias = Targets | Mapping[str, Targets] | list[Array] | str
    # Losses of one's own: of arrays, with the derivative; of tensors.
    LossFunction: TypeAlias = (
        Callable[[NDArray[np.float32], np.ndarray], tuple[float, np.ndarray]]
        | Callable[[torch.Tensor, torch.Tensor], torch.Tensor] | torch.nn.Module)
