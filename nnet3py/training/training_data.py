"""Minibatches from training data of many forms: arrays or tensors, pairs of them, tables, examples, archives."""
from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np

from nnet3py.compiler.build_graph import compute_simple_nnet_context
from nnet3py.egs.example import NnetExample, NnetIo, examples_ahead, read_egs
from nnet3py.egs.make import ExampleMaker
from nnet3py.egs.merger import ExampleMerger, MinibatchSizes, append_rows
from nnet3py.egs.raw_example import shuffle_with_buffer
from nnet3py.errors import Nnet3Error, ShapeError, UsageError, within
from nnet3py.formats.general import GeneralMatrix, check_finite, take_rows
from nnet3py.index import sequence_indexes
from nnet3py.network.inference import compute_only
from nnet3py.network.nnet import Nnet
from nnet3py.network.recurrence import is_local
from nnet3py.random_sequence import philox
from nnet3py.training.minibatches import ExampleMinibatches, Minibatches, TableMinibatches, example_maker, is_minibatch
from nnet3py.training.objectives import Frames
from nnet3py.training.options import MinibatchOptions
from nnet3py.training.targets import (
    are_classes,
    as_array,
    as_supervision,
    as_targets,
    check_class_output,
    is_array,
    is_loader,
    items_of,
    target_width,
)


class ArrayInputs:
    """Maker of a network's inputs from arrays of sequences.

    Raises UsageError for a factor below 1, and Nnet3Error for a network with other inputs.

    Parameters
    ----------
    nnet : the network, with an ``input`` and perhaps an ``ivector``
    outputs : the names of the outputs, which have the same frames
    frame_subsampling_factor : frames of input for each row of output
    padding : whether to pad sequences by copies of the first and the last frame for the network's context, as
        ``nnet3py.compute`` does; False: the arrays contain the context, so that there are fewer rows of output
    """

    def __init__(self, nnet: Nnet, outputs: Sequence[str] = ("output",), frame_subsampling_factor: int = 1,
                 padding: bool = True) -> None:
        if frame_subsampling_factor < 1:
            raise UsageError(f"frame_subsampling_factor={frame_subsampling_factor} must be 1 or more")
        self._dim, self._ivector_dim = nnet.input_dim("input"), max(nnet.input_dim("ivector"), 0)
        self._factor, self._padding = frame_subsampling_factor, padding
        contexts = [_context(nnet, output) for output in outputs]
        self.left_context, self.right_context = (max(frames) for frames in zip(*contexts, strict=True))

    def num_frames(self, num_input_frames: int, padding: bool | None = None) -> int:
        """Return the number of output rows for a sequence of ``num_input_frames``; 0 or less if these are too few."""
        context = 0 if (self._padding if padding is None else padding) else self.left_context + self.right_context
        return -(-(num_input_frames - context) // self._factor)

    def inputs(self, feats: Any, ivector: Any = None) -> tuple[list[NnetIo], Frames, np.ndarray]:
        """Return the inputs of a minibatch, and the output rows that can be computed from them.

        Raises ShapeError for arrays whose shapes do not fit the network.

        Parameters
        ----------
        feats : float (sequences, frames, dim), or (frames, dim) of one sequence
        ivector : float (sequences, ivector dim), or (ivector dim,) of one sequence, where the network has an input
            ``ivector``

        Returns
        -------
        The inputs; the order of the output's rows; the indexes of these rows, int32 (rows, 3)
        """
        feats = np.asarray(as_array(feats))
        if feats.ndim == 2:
            feats = feats[None]
        if feats.ndim != 3 or feats.shape[2] != self._dim or not feats.size:
            raise ShapeError(f"expected features (sequences, frames, {self._dim}) or (frames, {self._dim}), found "
                             f"{feats.shape}")
        sequences, given = feats.shape[:2]
        count = self.num_frames(given)
        if count < 1:
            raise ShapeError(f"expected more than {self.left_context + self.right_context} frames, as the network "
                             f"looks at {self.left_context} before and {self.right_context} after, found {given}",
                             "padding=True repeats the first and the last frame")
        last = (count - 1) * self._factor
        times = np.arange(-self.left_context, last + self.right_context + 1)
        places = np.clip(times, 0, given - 1) if self._padding else times + self.left_context
        rows = feats[:, places].reshape(-1, self._dim)
        io = [NnetIo("input", sequence_indexes(sequences, times), rows.astype(np.float32, copy=False))]
        vectors = self._ivectors(ivector, sequences)
        if vectors is not None:
            io.append(NnetIo("ivector", sequence_indexes(sequences, np.zeros(1)), vectors))
        return io, Frames(sequences, count), sequence_indexes(sequences, np.arange(count) * self._factor)

    def check_targets(self, target: np.ndarray, frames: Frames, num_input_frames: int) -> None:
        """Raise ShapeError unless targets have the shape (sequences, frames, …) of the output."""
        shape = frames.num_sequences, frames.num_frames
        if target.shape[:2] == shape:
            return
        other = self.num_frames(num_input_frames, not self._padding)
        fits = target.ndim > 1 and other > 0 and target.shape[:2] == (shape[0], other)
        raise ShapeError(f"expected targets of {shape[0]} sequences of {shape[1]} frames, found {target.shape}",
                         f"padding={not self._padding} makes {other} frames of {num_input_frames}" if fits else None)

    def _ivectors(self, ivector: Any, sequences: int) -> np.ndarray | None:
        vectors = None if ivector is None else np.atleast_2d(np.asarray(as_array(ivector), dtype=np.float32))
        if self._ivector_dim and vectors is not None and vectors.shape == (sequences, self._ivector_dim):
            return vectors
        if not self._ivector_dim and vectors is None:
            return None
        wanted = f"i-vectors ({sequences}, {self._ivector_dim})" if self._ivector_dim else "no i-vectors"
        raise ShapeError(f"expected {wanted}, found {'none' if vectors is None else vectors.shape}")


def supervision_of(nnet: Nnet, output: str, target: np.ndarray, has_loss: bool) -> GeneralMatrix:
    """Convert targets (sequences, frames, …) of an output to a matrix for an example.

    Raises the errors of ``as_supervision`` and, for classes without a loss, of ``check_class_output``.
    """
    rows = target.reshape(-1, *target.shape[2:])
    if not has_loss and are_classes(rows):
        check_class_output(nnet, output)
    dim = nnet.output_dim(output)
    if has_loss:
        dim = max(dim, target_width(rows)) if are_classes(rows) else target_width(rows)
    return as_supervision(rows, len(rows), dim)


class LoaderMinibatches:
    """Source of minibatches from a PyTorch ``DataLoader``, or another repeatable iterable of tensors or arrays.

    Raises Nnet3Error for a network with other inputs than ``input`` and ``ivector``.

    Parameters
    ----------
    nnet : the network
    batches : (feats, targets) or (feats, targets, ivectors): features (sequences, frames, dim), and targets, integers
        (sequences, frames) for classes or numbers (sequences, frames, width). Without the axis of frames, sequences of
        one frame. Features are padded by copies of the first and the last frame for the network's context
    has_loss : as for :func:`training_data`
    """

    def __init__(self, nnet: Nnet, batches: Iterable[Any], has_loss: bool) -> None:
        self._nnet, self._batches, self._has_loss = nnet, batches, has_loss
        self._inputs = ArrayInputs(nnet)

    def minibatches(self, seed: int) -> Iterator[NnetExample]:
        """Yield the minibatches of one pass in the order of the batches; ``seed`` is ignored.

        Raises
        ------
        UsageError : batches that are not (feats, targets)
        Nnet3Error : there are no batches
        ShapeError : arrays that do not fit the network or each other
        """
        number = -1
        for number, batch in enumerate(self._batches):
            with within(f"batch {number}"):
                yield self._example(batch)
        if number < 0:
            raise Nnet3Error("there is nothing to train on: the loader has no batches (in this pass)",
                             "an iterator can be read once only; give an iterable, such as the DataLoader itself")

    def _example(self, batch: Any) -> NnetExample:
        if not isinstance(batch, tuple | list) or len(batch) not in (2, 3):
            raise UsageError(f"expected batches (feats, targets) or (feats, targets, ivectors), found a "
                             f"{type(batch).__name__}" + (f" of {len(batch)}" if hasattr(batch, "__len__") else ""),
                             "an archive of examples is named: train(nnet, 'ark:egs.ark')")
        feats, targets, *ivectors = (np.asarray(as_array(part)) for part in batch)
        if feats.ndim == 2:
            feats, targets = feats[:, None], targets[:, None]
        io, frames, indexes = self._inputs.inputs(feats, *ivectors)
        self._inputs.check_targets(targets, frames, feats.shape[1])
        return NnetExample([*io, NnetIo("output", indexes, supervision_of(self._nnet, "output", targets,
                                                                            self._has_loss))])


def _context(nnet: Nnet, output: str) -> tuple[int, int]:
    """Return the number of frames before and after an output frame that the network's outputs need."""
    if output == "output":
        return compute_simple_nnet_context(nnet)
    form = copy.copy(nnet)             # shares all parameters; only nodes are changed
    form.nodes = [copy.copy(node) for node in nnet.nodes]
    form.components, form.component_names = list(nnet.components), list(nnet.component_names)
    compute_only(form, output)
    return compute_simple_nnet_context(form)


BUFFER = 5000            # examples of an archive among which it is shuffled

Pair = tuple[Any, ...]   # features, targets and perhaps an i-vector


def training_data(nnet: Nnet, data: Any, options: MinibatchOptions, has_loss: bool = False) -> Minibatches:
    """Return a source of minibatches for a network. PyTorch tensors may be given instead of arrays.

    Parameters
    ----------
    data : one of

        - ``(feats, targets)``, arrays of one sequence, (frames, dim) and what ``as_targets`` takes; or of several, with
          one axis more in front; or two lists, of the arrays of all utterances
        - an iterable of ``(feats, targets)`` or ``(feats, targets, ivector)``, one utterance each, of any lengths; or a
          dict of these by name; or a data set of PyTorch. Of a single frame: (dim,), and its class or (width,)
        - a ``DataLoader`` of PyTorch, whose batches are used as they are, (sequences, frames, dim) or (frames, dim), in
          its own order, and read again in each pass; see :class:`LoaderMinibatches`
        - ``(feats, targets)``, dicts with the same names, as ``dict(read_matrices("scp:feats.scp"))`` returns them
        - an iterable of examples, or of (key, example) as ``read_egs`` gives them
        - an rspecifier of examples, read again in each pass: ``"ark:egs.ark"``
        - ``(feats, targets)``, rspecifiers of tables; targets are integer vectors, or matrices with
          ``options.dense_targets``
        - an object with the method ``minibatches(seed)``

    options : options for making minibatches. Examples with several sequences are used as minibatches.
    has_loss : whether a loss is used instead of the objective of ``output``. Targets that are arrays may then be any
        class, from -1 on, or numbers of any width, and the output need not be a log-softmax

    Raises
    ------
    UsageError : data of any other kind; targets that are classes, for an output that is no log-softmax
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
        raise UsageError(f"cannot train on {type(data).__name__}", _EXPECTED)
    items = iter(data)
    first = next(items, None)
    if first is None:
        raise UsageError("there is nothing to train on: the data is empty", _EXPECTED)
    items = chain([first], items)
    if _example(first) is not None:
        return ExampleMinibatches([_checked_example(item) for item in items], options.minibatch_size)
    return _of_utterances(nnet, ((str(i), item) for i, item in enumerate(items)), options, has_loss)


_EXPECTED = ("expected arrays (feats, targets), a list of such pairs, examples, or the rspecifier of an archive of "
           "examples such as 'ark:egs.ark'")


def _utterances(data: Any) -> Iterable[tuple[str, Pair]] | None:
    """Return name, features and targets of the utterances in arrays, lists or dicts; None for data of another kind."""
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
        raise UsageError(f"expected examples only, found {type(item).__name__} among them", _EXPECTED)
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
                             f"{type(pair).__name__}", _EXPECTED)
        with within(f"utterance {key}"):
            checked.append((key, *_checked_input(nnet, *map(as_array, pair))))
    if not checked:
        raise UsageError("there is nothing to train on: the data is empty", _EXPECTED)
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
    """Return whether each output row depends only on the input row of the same time."""
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
    """Source of minibatches of single frames from all utterances, in random order, for networks without context.

    Parameters
    ----------
    utterances : pairs of features, float32 (frames, dim), and targets as for ``as_supervision``
    dim : number of columns of the targets as a matrix
    minibatch_size : rules for the size, of which only the largest number is used: the number of frames in a minibatch.
        The last minibatch of a pass may be smaller
    """

    def __init__(self, utterances: list[tuple[np.ndarray, Any]], dim: int, minibatch_size: str) -> None:
        self._size = MinibatchSizes(minibatch_size).rule(1).largest
        self._feats = np.concatenate([feats for feats, _ in utterances])
        self._supervision = append_rows([as_supervision(targets, len(feats), dim) for feats, targets in utterances])

    def minibatches(self, seed: int) -> Iterator[NnetExample]:
        """Yield the minibatches of one pass, in an order that depends on ``seed``."""
        order = philox(seed).permutation(len(self._feats))
        for begin in range(0, len(order), self._size):
            rows = order[begin:begin + self._size]
            indexes = sequence_indexes(len(rows), np.zeros(1))
            yield NnetExample([NnetIo("input", indexes, self._feats[rows]),
                               NnetIo("output", indexes, take_rows(self._supervision, rows))])


class ArchiveMinibatches:
    """Source of minibatches from an archive of examples, which is read in each pass, shuffled and merged.

    Examples that are minibatches already are used as they are.

    ``rspecifier`` : rspecifier of the examples; ``minibatch_size`` : rules for the number of examples in a minibatch.
    """

    def __init__(self, rspecifier: str, minibatch_size: str) -> None:
        self._rspecifier, self._sizes = rspecifier, MinibatchSizes(minibatch_size)

    def minibatches(self, seed: int) -> Iterator[NnetExample]:
        """Yield the minibatches of one pass: shuffled by ``seed``, or in the archive's order if they are merged there.

        Raises the errors of ``read_egs``.
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
