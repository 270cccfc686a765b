"""Minibatches of arrays (sequences, frames, dim), with the frames that a network looks at before and after."""
from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from nnet3py.compiler.build_graph import compute_simple_nnet_context
from nnet3py.egs.example import NnetExample, NnetIo
from nnet3py.errors import Nnet3Error, ShapeError, UsageError, within
from nnet3py.formats.general import GeneralMatrix
from nnet3py.index import sequence_indexes
from nnet3py.network.inference import compute_only
from nnet3py.network.nnet import Nnet
from nnet3py.training.class_outputs import check_class_output
from nnet3py.training.output_objectives import Frames
from nnet3py.training.targets import are_classes, as_supervision, target_width
from nnet3py.training.tensors import as_array


class ArrayInputs:
    """Makes inputs of a network from arrays of sequences.

    Parameters
    ----------
    nnet : has an ``input`` and perhaps an ``ivector``
    outputs : the outputs that are computed together
    frame_subsampling_factor : frames of input for each row of output
    padding : repeat the first and the last frame as often as the network looks beyond them, as ``nnet3py.compute``
        does; False: the arrays have these frames already, so that there are fewer rows of output

    Raises
    ------
    UsageError : a factor below 1
    Nnet3Error : a network with other inputs
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
        """Rows of output for so many frames of input; 0 or less if there are too few."""
        context = 0 if (self._padding if padding is None else padding) else self.left_context + self.right_context
        return -(-(num_input_frames - context) // self._factor)

    def inputs(self, feats: Any, ivector: Any = None) -> tuple[list[NnetIo], Frames, np.ndarray]:
        """Inputs of a minibatch, and what they are enough for.

        Parameters
        ----------
        feats : float (sequences, frames, dim), or (frames, dim) of one sequence
        ivector : float (sequences, ivector dim), or (ivector dim,) of one sequence, where the network has that input

        Returns
        -------
        The inputs; how the output's rows are arranged; their indexes, int32 (rows, 3)

        Raises
        ------
        ShapeError : arrays whose shapes do not fit the network
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
        """Raise ShapeError unless targets are (sequences, frames, …) of the output."""
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
    """Targets (sequences, frames, …) of an output as a matrix of an example.

    Raises what ``as_supervision`` and, for classes of an objective, ``check_class_output`` do.
    """
    rows = target.reshape(-1, *target.shape[2:])
    if not has_loss and are_classes(rows):
        check_class_output(nnet, output)
    dim = nnet.output_dim(output)
    if has_loss:
        dim = max(dim, target_width(rows)) if are_classes(rows) else target_width(rows)
    return as_supervision(rows, len(rows), dim)


class LoaderMinibatches:
    """The batches of a ``DataLoader`` of PyTorch, or of anything that gives tensors or arrays pass after pass.

    Parameters
    ----------
    nnet : the network
    batches : (feats, targets) or (feats, targets, ivectors): (sequences, frames, dim), and integers (sequences, frames)
        for classes or numbers (sequences, frames, width). Without the axis of frames, sequences of one frame. The first
        and the last frame are repeated where the network looks beyond them
    has_loss : as for :func:`nnet3py.training.training_data.training_data`

    Raises
    ------
    Nnet3Error : a network with other inputs than ``input`` and ``ivector``
    """

    def __init__(self, nnet: Nnet, batches: Iterable[Any], has_loss: bool) -> None:
        self._nnet, self._batches, self._has_loss = nnet, batches, has_loss
        self._inputs = ArrayInputs(nnet)

    def minibatches(self, seed: int) -> Iterator[NnetExample]:
        """One pass; the order is that of the batches, whatever ``seed`` is.

        Raises
        ------
        UsageError : batches that are not (feats, targets), or none
        ShapeError : arrays that do not fit the network or each other
        """
        number = -1
        for number, batch in enumerate(self._batches):
            with within(f"batch {number}"):
                yield self._example(batch)
        if number < 0:
            raise Nnet3Error("there is nothing to train on: the loader has no batches (in this pass)",
                             "an iterator can be read once only; give what makes one, such as the DataLoader itself")

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
    """Frames before and after an output frame that one of the network's outputs needs."""
    if output == "output":
        return compute_simple_nnet_context(nnet)
    form = copy.copy(nnet)             # shares all parameters; only nodes are changed
    form.nodes = [copy.copy(node) for node in nnet.nodes]
    form.components, form.component_names = list(nnet.components), list(nnet.component_names)
    compute_only(form, output)
    return compute_simple_nnet_context(form)
