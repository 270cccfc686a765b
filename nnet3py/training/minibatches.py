"""Sources of minibatches for training, and the types of training data.

Minibatches are made from features and targets in tables, or from examples in memory, without writing examples to files.
"""
from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Protocol

import numpy as np

from nnet3py.compiler.build_graph import compute_simple_nnet_context
from nnet3py.egs.example import NnetExample
from nnet3py.egs.make import ExampleMaker, UtteranceSplitter
from nnet3py.egs.merger import ExampleMerger, MinibatchSizes
from nnet3py.egs.options import SplitOptions
from nnet3py.egs.raw_example import shuffle
from nnet3py.errors import Nnet3Error, NumericError, ShapeError
from nnet3py.formats.general import GeneralMatrix
from nnet3py.formats.holders import FLOAT_MATRIX, GENERAL_MATRIX, INT_VECTOR
from nnet3py.formats.posteriors import Posterior, posterior_of_alignment
from nnet3py.io.tables import RandomAccessReader, SequentialReader
from nnet3py.network.nnet import Nnet
from nnet3py.training.options import MinibatchOptions

logger = logging.getLogger(__name__)


class Minibatches(Protocol):
    """Interface of sources of minibatches, which can be read once in each pass."""

    def minibatches(self, seed: int) -> Iterator[NnetExample]:
        """Yield the minibatches of one pass, in an order that depends on ``seed``."""


if TYPE_CHECKING:        # torch may be missing
    from collections.abc import Callable, Mapping
    from typing import TypeAlias

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
    # The first argument of train, where targets may be the second; and these targets.
    FeaturesOrData: TypeAlias = TrainingData | Array | Mapping[str, Array] | list[Array]
    TargetsOfAll: TypeAlias = Targets | Mapping[str, Targets] | list[Array] | str
    # Losses that users give: of arrays, with the derivative; of tensors.
    LossFunction: TypeAlias = (
        Callable[[NDArray[np.float32], np.ndarray], tuple[float, np.ndarray]]
        | Callable[[torch.Tensor, torch.Tensor], torch.Tensor] | torch.nn.Module)


class ExampleMinibatches:
    """Source of minibatches from examples in memory, which are shuffled and merged in each pass.

    Parameters
    ----------
    examples : examples of one sequence each, to be merged; or minibatches, which are only shuffled
    minibatch_size : rules for the number of examples in a minibatch, ``64``, ``1:64``
    """

    def __init__(self, examples: Iterable[NnetExample], minibatch_size: str) -> None:
        self._sizes, self._minibatch_size = MinibatchSizes(minibatch_size), minibatch_size
        self._examples = list(examples)

    @property
    def num_examples(self) -> int:
        """The number of given examples, each of one sequence or a minibatch."""
        return len(self._examples)

    def minibatches(self, seed: int) -> Iterator[NnetExample]:
        """Yield the minibatches of one pass, in an order that depends on ``seed``.

        Examples at the end of a pass that are too few for a minibatch of ``minibatch_size`` are not used in it. Raises
        Nnet3Error if there are too few examples for a single minibatch.
        """
        if any(is_minibatch(example) for example in self._examples):
            yield from shuffle(self._examples, seed)
            return
        is_empty = True
        for _, example in ExampleMerger(self._sizes).merge(shuffle(self._examples, seed)):
            is_empty = False
            yield example
        if is_empty:
            raise Nnet3Error(f"the {len(self._examples)} examples are too few for a minibatch of "
                             f"--minibatch-size={self._minibatch_size}", "give a range, such as --minibatch-size=1:64")


def is_minibatch(example: NnetExample) -> bool:
    """Return whether an example holds several sequences."""
    return any(len(io.indexes) and io.indexes[-1, 0] > 0 for io in example.io)


def example_maker(nnet: Nnet, options: MinibatchOptions, num_classes: int | None = None) -> ExampleMaker:
    """Return a maker of examples for a network; the context is that of the network, unless the options have another.

    ``num_classes`` is the number of classes of targets; None: the dimension of the network's output.
    """
    left, right = compute_simple_nnet_context(nnet)
    splitter = UtteranceSplitter(SplitOptions.parse(
        options.num_frames, left_context=left if options.left_context < 0 else options.left_context,
        right_context=right if options.right_context < 0 else options.right_context))
    return ExampleMaker(splitter, compress=False, num_pdfs=num_classes or nnet.output_dim("output"))


class TableMinibatches(ExampleMinibatches):
    """Source of minibatches from two tables; the examples of all utterances are in memory, and shuffled in each pass.

    Raises Nnet3Error if no utterance could be used, and ShapeError for features or targets of another dimension than
    the network's, or a class that it does not have.

    Parameters
    ----------
    nnet : the network, which determines the context and the number of classes
    feats : rspecifier of features
    targets : rspecifier of integer vectors, one class for each frame, or of matrices
    options : see :class:`MinibatchOptions`
    """

    def __init__(self, nnet: Nnet, feats: str, targets: str, options: MinibatchOptions) -> None:
        super().__init__((), options.minibatch_size)
        self._dim, self._input_dim = nnet.output_dim("output"), nnet.input_dim("input")
        self._dense_targets = options.dense_targets
        maker = example_maker(nnet, options)
        self.num_utterances, self.num_failed = 0, 0
        with SequentialReader(feats, GENERAL_MATRIX) as features, \
                RandomAccessReader(targets, FLOAT_MATRIX if options.dense_targets else INT_VECTOR) as labels:
            for utterance, matrix in features:
                label = labels.get(utterance)
                if label is None:
                    logger.warning("No targets for utterance %s", utterance)
                if label is not None and self._add(maker, utterance, matrix, label):
                    self.num_utterances += 1
                else:
                    self.num_failed += 1
        if not self._examples:
            raise Nnet3Error(f"no examples could be made: {self.num_utterances} utterances were used, "
                             f"{self.num_failed} failed", "have features and targets the same keys and lengths?")

    def _add(self, maker: ExampleMaker, utterance: str, features: GeneralMatrix, label: np.ndarray) -> bool:
        """Add the examples of one utterance; return False, with a warning, if the utterance cannot be used."""
        if not maker.splitter.lengths_match(utterance, features.shape[0], len(label), tolerance=2):
            return False
        self._check_dim(utterance, "features", features.shape, self._input_dim)
        if self._dense_targets:
            self._check_dim(utterance, "targets", label.shape, self._dim)
        try:
            examples = (maker.from_targets(utterance, features, label) if self._dense_targets
                        else maker.from_posteriors(utterance, features, self._posterior(utterance, label)))
            self._examples += [example for _, example in examples]
        except NumericError as error:
            logger.warning("Skipping utterance %s: %s", utterance, error)
            return False
        return True

    @staticmethod
    def _check_dim(utterance: str, what: str, shape: tuple[int, ...], dim: int) -> None:
        if shape[0] and shape[1] != dim:
            raise ShapeError(f"utterance {utterance} has {what} of dimension {shape[1]}, but the network's is {dim}")

    def _posterior(self, utterance: str, label: np.ndarray) -> Posterior:
        if len(label) and not 0 <= label.min() <= label.max() < self._dim:
            wrong = label.max() if label.max() >= self._dim else label.min()
            raise ShapeError(f"utterance {utterance} has a target {wrong}, but the network's output has the classes "
                             f"0 to {self._dim - 1}")
        return posterior_of_alignment(label)
