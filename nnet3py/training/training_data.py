"""Training data for Python programs, as minibatches: arrays or tensors, pairs of them, tables, examples, archives."""
from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np

from nnet3py.compiler.build_graph import compute_simple_nnet_context
from nnet3py.egs.example import NnetExample, NnetIo, read_egs
from nnet3py.egs.make import ExampleMaker
from nnet3py.egs.merger import ExampleMerger, append_rows
from nnet3py.egs.minibatch_size import MinibatchSizes
from nnet3py.egs.reading_ahead import examples_ahead
from nnet3py.egs.reorder import shuffle_with_buffer
from nnet3py.errors import Nnet3Error, ShapeError, UsageError, within
from nnet3py.formats.general import check_finite, take_rows
from nnet3py.index import sequence_indexes
from nnet3py.network.nnet import Nnet
from nnet3py.network.recurrence import is_local
from nnet3py.random_sequence import philox
from nnet3py.training.array_minibatches import LoaderMinibatches
from nnet3py.training.class_outputs import check_class_output
from nnet3py.training.data_types import Minibatches
from nnet3py.training.minibatches import (
    ExampleMinibatches,
    MinibatchOptions,
    TableMinibatches,
    example_maker,
    is_minibatch,
)
from nnet3py.training.targets import are_classes, as_supervision, as_targets, target_width
from nnet3py.training.tensors import as_array, is_array, is_loader, items_of

BUFFER = 5000            # examples of an archive among which it is shuffled

Pair = tuple[Any, ...]   # features, targets and perhaps an i-vector


def training_data(nnet: Nnet, data: Any, options: MinibatchOptions, has_loss: bool = False) -> Minibatches:
    """Minibatches for a network. Tensors of PyTorch may take the place of arrays.

    Parameters
    ----------
    data : one of

        - ``(feats, targets)``, arrays of one sequence, (frames, dim) and what ``as_targets`` takes; or of several, with
          one axis more in front; or two lists, of the arrays of all utterances
        - an iterable of ``(feats, targets)`` or ``(feats, targets, ivector)``, one utterance each, of any lengths; or a
          dict of these by name; or a data set of PyTorch. Of a single frame: (dim,), and its class or (width,)
        - a ``DataLoader`` of PyTorch, whose batches are used as they are, (sequences, frames, dim) or (frames, dim), in
          its own order, and read again in each pass; see :mod:`nnet3py.training.array_minibatches`
        - ``(feats, targets)``, dicts by name, of the same names: what ``dict(read_matrices("scp:feats.scp"))`` gives
        - an iterable of examples, or of (key, example) as ``read_egs`` gives them
        - an rspecifier of examples, read again in each pass: ``"ark:egs.ark"``
        - ``(feats, targets)``, rspecifiers of tables; targets are integer vectors, or matrices with
          ``options.dense_targets``
        - an object with the method ``minibatches(seed)``

    options : how utterances become minibatches. Examples that hold several sequences are taken for minibatches.
    has_loss : whether a loss takes the place of the objective of ``output``. Targets that are arrays may then be any
        class, from -1 on, or numbers of any width, and the output need not be a log-softmax

    Raises
    ------
    UsageError : anything else; or targets that are classes, for an output that is no log-softmax
    ShapeError : features or targets of other dimensions than the network's
    """
    if hasattr(data, "minibatches"):
        return data      # type: ignore[no-any-return]
    if isinstance(data, str):
        return ArchiveMinibatches(data, options.minibatch_size)
    if is_loader(data):
        return LoaderMinibatches(nnet, data, has_loss)
    data = items_of(data)
    if isinstance(data, tuple) and len(data) == 2 and all(isinstance(part, str) for part in data):
        if not options.dense_targets and not has_loss:
            check_class_output(nnet)
        return TableMinibatches(nnet, *data, options)
    utterances = _utterances(data)
    if utterances is not None:
        return _of_utterances(nnet, utterances, options, has_loss)
    if not isinstance(data, Iterable):
        raise UsageError(f"cannot train on {type(data).__name__}", _WANTED)
    items = iter(data)
    first = next(items, None)
    if first is None:
        raise UsageError("there is nothing to train on: the data is empty", _WANTED)
    items = chain([first], items)
    if _example(first) is not None:
        return ExampleMinibatches([_checked_example(item) for item in items], options.minibatch_size)
    return _of_utterances(nnet, ((str(i), item) for i, item in enumerate(items)), options, has_loss)


_WANTED = ("expected arrays (feats, targets), a list of such pairs, examples, or the rspecifier of an archive of "
           "examples such as 'ark:egs.ark'")


def _utterances(data: Any) -> Iterable[tuple[str, Pair]] | None:
    """The utterances of arrays, lists or dicts, with their names; None if it is something else."""
    if isinstance(data, Mapping):
        return data.items()
    if not isinstance(data, tuple) or len(data) not in (2, 3):
        return None
    if is_array(data[0]):
        return _utterances_of_arrays(tuple(map(as_array, data)))
    if all(isinstance(part, Mapping) for part in data):
        return _utterances_of_dicts(data)
    if all(isinstance(part, list) and all(map(is_array, part)) for part in data):
        return _utterances_of_lists(data)
    return None


def _example(item: Any) -> NnetExample | None:
    if isinstance(item, tuple) and len(item) == 2:
        item = item[1]
    return item if isinstance(item, NnetExample) else None


def _checked_example(item: Any) -> NnetExample:
    example = _example(item)
    if example is None:
        raise UsageError(f"expected examples only, found {type(item).__name__} among them", _WANTED)
    return example


def _utterances_of_arrays(data: tuple[Any, ...]) -> Iterable[tuple[str, Pair]]:
    feats, *others = data
    if feats.ndim == 3:
        if any(len(other) != len(feats) for other in others):
            raise ShapeError(f"expected targets of {len(feats)} sequences, as there are features {feats.shape}, found "
                             f"{', '.join(str(len(other)) for other in others)}")
        return ((str(i), parts) for i, parts in enumerate(zip(*data, strict=True)))
    if feats.ndim != 2:
        raise ShapeError(f"expected features, float (frames, dim) or (sequences, frames, dim), found {feats.shape}")
    return [("0", data)]


def _utterances_of_lists(data: tuple[list[Any], ...]) -> Iterable[tuple[str, Pair]]:
    counts = [len(part) for part in data]
    if len(set(counts)) > 1:
        raise ShapeError(f"expected lists of equal length, features and targets of each utterance, found {counts[0]} "
                         f"features and {' and '.join(map(str, counts[1:]))} targets")
    return ((str(i), parts) for i, parts in enumerate(zip(*data, strict=True)))


def _utterances_of_dicts(data: tuple[Mapping[str, Any], ...]) -> Iterable[tuple[str, Pair]]:
    feats, *others = data
    for other in others:
        lonely = sorted(map(str, feats.keys() ^ other.keys()))
        if lonely:
            raise UsageError(f"expected features and targets of the same names, found {lonely[0]!r} in one of them only"
                             + (f", and {len(lonely) - 1} more" if len(lonely) > 1 else ""),
                             "leave out what has no targets: {name: feats[name] for name in targets}")
    return ((name, tuple(part[name] for part in data)) for name in feats)


def _of_utterances(nnet: Nnet, utterances: Iterable[tuple[str, Pair]], options: MinibatchOptions,
                   has_loss: bool) -> Minibatches:
    if not nnet.is_simple():
        raise UsageError("arrays train networks with an 'input', an 'output' and perhaps an 'ivector'; this one has "
                         f"{', '.join(name for name, _ in nnet.named_nodes())}", "train it on examples")
    checked = []
    for key, pair in utterances:
        if not isinstance(pair, tuple | list) or len(pair) not in (2, 3):
            raise UsageError(f"utterance {key}: expected (feats, targets) or (feats, targets, ivector), found "
                             f"{type(pair).__name__}", _WANTED)
        with within(f"utterance {key}"):
            checked.append((key, *_checked_input(nnet, *map(as_array, pair))))
    if not checked:
        raise UsageError("there is nothing to train on: the data is empty", _WANTED)
    dim = nnet.output_dim("output")
    if has_loss:
        widths = [target_width(targets) for _, _, targets, _ in checked]
        dim = max(*widths, dim) if are_classes(checked[0][2]) else max(widths)
    for key, feats, targets, _ in checked:
        if not has_loss and are_classes(targets):
            check_class_output(nnet)
        with within(f"utterance {key}"):
            as_targets(targets, len(feats), dim)      # its errors come now
    if has_no_context(nnet) and options.left_context <= 0 >= options.right_context:
        return FrameMinibatches([(feats, targets) for _, feats, targets, _ in checked], dim, options.minibatch_size)
    shortest = min(len(feats) for _, feats, _, _ in checked)
    if "," not in options.num_frames and 0 < shortest < int(options.num_frames):
        options = replace(options, num_frames=f"{options.num_frames},{shortest}")      # so that this one is used, too
    maker = example_maker(nnet, options, dim)
    return ExampleMinibatches([example for key, *parts in checked for example in _examples(maker, dim, key, *parts)],
                              options.minibatch_size)


def has_no_context(nnet: Nnet) -> bool:
    """Whether each output row depends only on the input row of the same time."""
    return (nnet.input_dim("ivector") < 0 and nnet.modulus() == 1 and is_local(nnet)
            and compute_simple_nnet_context(nnet) == (0, 0))


def _checked_input(nnet: Nnet, feats: Any, targets: Any,
                   ivector: Any = None) -> tuple[np.ndarray, Any, np.ndarray | None]:
    matrix = np.asarray(feats)
    dim, ivector_dim = nnet.input_dim("input"), max(nnet.input_dim("ivector"), 0)
    if matrix.shape == (dim,):         # a single frame
        matrix, targets = matrix[None], np.asarray(targets)[None]
    if matrix.ndim != 2 or matrix.shape[1] != dim:
        raise ShapeError(f"expected features (frames, {dim}), as the network's input has {dim} columns, found "
                         f"{matrix.shape}")
    check_finite(matrix, "the feature matrix")
    vector = None if ivector is None else np.asarray(ivector, dtype=np.float32)
    if (0 if vector is None else vector.shape[0] if vector.ndim == 1 else -1) != ivector_dim:
        raise ShapeError(f"expected {f'an i-vector ({ivector_dim},)' if ivector_dim else 'no i-vector'}, found "
                         f"{'none' if vector is None else vector.shape}")
    if vector is not None:
        check_finite(vector[None], "the i-vector")
    return matrix.astype(np.float32, copy=False), targets, vector


def _examples(maker: ExampleMaker, dim: int, key: str, feats: np.ndarray, targets: Any,
              ivector: np.ndarray | None) -> list[NnetExample]:
    wanted = as_targets(targets, len(feats), dim)
    vectors = None if ivector is None else ivector[None]
    examples = (maker.from_targets(key, feats, wanted, vectors) if isinstance(wanted, np.ndarray)
            else maker.from_posteriors(key, feats, wanted, vectors))
    return [example for _, example in examples]


class FrameMinibatches:
    """Frames of all utterances, each a sequence of its own, for networks that look at no others: drawn row by row.

    Parameters
    ----------
    utterances : features float32 (frames, dim), and what ``as_supervision`` takes
    dim : columns of the targets, as matrices
    minibatch_size : the largest number of its rules is the number of frames of a minibatch; what is left over at the
        end of a pass is a smaller one
    """

    def __init__(self, utterances: list[tuple[np.ndarray, Any]], dim: int, minibatch_size: str) -> None:
        self._size = MinibatchSizes(minibatch_size).rule(1).largest
        self._feats = np.concatenate([feats for feats, _ in utterances])
        self._supervision = append_rows([as_supervision(targets, len(feats), dim) for feats, targets in utterances])

    def minibatches(self, seed: int) -> Iterator[NnetExample]:
        """One pass, in an order that depends on ``seed``."""
        order = philox(seed & (2**64 - 1)).permutation(len(self._feats))
        for begin in range(0, len(order), self._size):
            rows = order[begin:begin + self._size]
            indexes = sequence_indexes(len(rows), np.zeros(1))
            yield NnetExample([NnetIo("input", indexes, self._feats[rows]),
                               NnetIo("output", indexes, take_rows(self._supervision, rows))])


class ArchiveMinibatches:
    """Examples of an archive, which is read in each pass, shuffled and merged; minibatches are used as they are.

    Parameters
    ----------
    rspecifier : of the examples
    minibatch_size : rules for how many are merged
    """

    def __init__(self, rspecifier: str, minibatch_size: str) -> None:
        self._rspecifier, self._sizes = rspecifier, MinibatchSizes(minibatch_size)

    def minibatches(self, seed: int) -> Iterator[NnetExample]:
        """One pass, in an order that depends on ``seed``; that of minibatches is the archive's.

        Raises what ``read_egs`` does.
        """
        with closing(examples_ahead(read_egs(self._rspecifier))) as entries:       # type: ignore[type-var]
            examples: Iterator[NnetExample] = (example for _, example in entries)
            first = next(examples, None)
            if first is None:
                raise Nnet3Error(f"there are no examples in {self._rspecifier}")
            examples = chain([first], examples)
            if is_minibatch(first):
                yield from examples
                return
            for _, example in ExampleMerger(self._sizes).merge(shuffle_with_buffer(examples, BUFFER, seed + 1)):
                yield example
