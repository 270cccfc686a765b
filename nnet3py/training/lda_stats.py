"""LDA statistics of a network's outputs, from frame-level and chain examples. Kaldi: ``NnetLdaStatsAccumulator``."""
from __future__ import annotations

import dataclasses

import numpy as np

from nnet3py.cached_property import cached_property
from nnet3py.chain.numerator import compute_numerator
from nnet3py.egs.chain_example import NnetChainExample, Supervision
from nnet3py.egs.example import NnetExample, NnetIo
from nnet3py.errors import Nnet3Error, NumericError, ShapeError
from nnet3py.formats.general import GeneralMatrix, SparseMatrix, check_finite, to_dense
from nnet3py.formats.lda_stats import LdaStats
from nnet3py.random_sequence import philox


class LdaAccumulator:
    """Accumulator of LDA statistics of vectors, each with weights of classes, in double precision.

    Parameters
    ----------
    rand_prune : threshold of random pruning: a smaller weight becomes the threshold or 0, with the same expectation;
        0: no pruning
    seed : seed of the pruning
    """

    def __init__(self, rand_prune: float = 0.0, seed: int = 0) -> None:
        self._rand_prune = np.float32(rand_prune)
        self._seed = seed
        self._counts = np.zeros(0)
        self._sums = self._second = np.zeros((0, 0))

    @cached_property
    def _rng(self) -> np.random.Generator:
        return philox(self._seed)     # made when needed: it takes 10 ms to load

    @property
    def count(self) -> float:
        """The sum of the weights."""
        return float(self._counts.sum())

    def add(self, vectors: np.ndarray, supervision: GeneralMatrix) -> None:
        """Add vectors with the classes that have weight in the same rows of the supervision.

        Raises ShapeError if numbers of vectors and rows differ, or classes or dimensions differ from those before, and
        NumericError for NaN or infinity in vectors or supervision.

        ``vectors`` : float32 (rows, dim); ``supervision`` : weights of classes (rows, classes), dense, compressed or
        sparse.
        """
        check_finite(vectors, "the network's output")
        check_finite(supervision, "the supervision")
        if len(vectors) != supervision.shape[0]:
            raise ShapeError(f"supervision of 'output' has {supervision.shape[0]} rows for {len(vectors)} output "
                             "frames")
        shape = supervision.shape[1], vectors.shape[1]
        if not self._counts.size:
            self._counts, self._sums = np.zeros(shape[0]), np.zeros(shape)
            self._second = np.zeros((shape[1], shape[1]))
        if self._sums.shape != shape:
            raise ShapeError(f"the examples have {shape[0]} classes and outputs of dimension {shape[1]}, those before "
                             f"{self._sums.shape[0]} and {self._sums.shape[1]}")
        rows, classes, weights = _elements(supervision)
        weights = self._pruned(weights).astype(np.float64)
        order = np.argsort(classes, kind="stable")
        order = order[weights[order] != 0.0]
        if not len(order):
            return
        rows, classes, weights = rows[order], classes[order], weights[order]
        x = vectors.astype(np.float64)
        self._counts += np.bincount(classes, weights, shape[0])
        present, first = np.unique(classes, return_index=True)
        self._sums[present] += np.add.reduceat(weights[:, None] * x[rows], first, axis=0)
        row_weights = np.bincount(rows, weights, len(x))
        self._second += x.T @ (row_weights[:, None] * x)

    def stats(self) -> LdaStats:
        """Return the statistics so far. Raises NumericError if nothing with a weight was added."""
        if self.count == 0.0:
            raise NumericError("Accumulated no stats.", "the examples have no supervision of weight other than 0")
        used = self._counts != 0.0
        sums = self._sums[used]
        within = self._second - sums.T @ (sums / self._counts[used, None])
        return LdaStats(self._counts, self._sums, within[np.tril_indices(len(within))])

    def _pruned(self, weights: np.ndarray) -> np.ndarray:
        """Return float32 weights after random pruning (see ``rand_prune``). Kaldi: RandPrune."""
        threshold = self._rand_prune
        if threshold <= 0.0:
            return weights
        size = np.abs(weights)
        kept = np.where(self._rng.random(len(weights)) * threshold <= size, np.sign(weights) * threshold, 0.0)
        return np.where(size >= threshold, weights, kept)


def _elements(supervision: GeneralMatrix) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return row, column and float32 weight of each element that is not zero."""
    if isinstance(supervision, SparseMatrix):
        rows = np.repeat(np.arange(supervision.num_rows), np.diff(supervision.row_starts))
        return rows, supervision.columns, supervision.values
    dense = to_dense(supervision)
    rows, columns = np.nonzero(dense)
    return rows, columns, dense[rows, columns]


def frame_example(eg: NnetChainExample) -> NnetExample:
    """Return the chain example as a frame-level one: the supervision becomes weights of pdfs, sparse (frames, pdfs).

    Raises Nnet3Error for a merged example, one with other outputs than ``output``, or an error of :func:`pdf_weights`.
    """
    names = [output.name for output in eg.outputs]
    if names != ["output"]:
        raise Nnet3Error(f"the example has the outputs {', '.join(names)}, expected only 'output'",
                         "examples of several languages cannot be used here")
    output = eg.outputs[0]
    if output.supervision.num_sequences != 1:
        raise Nnet3Error(f"the example is merged of {output.supervision.num_sequences} sequences, expected one",
                         "gather LDA statistics before nnet3-chain-merge-egs")
    return NnetExample([*eg.inputs, NnetIo("output", output.indexes, pdf_weights(output.supervision))])


def pdf_weights(supervision: Supervision) -> SparseMatrix:
    """Return the weight of each pdf in each frame, float32 sparse (frames, pdfs).

    The weights are the posteriors of the FST's paths if all pdfs are equally likely; of a supervision without times, 1
    for the pdfs of its alignment. Raises Nnet3Error for a supervision without times and without an alignment, or an FST
    that is not normalized, and ShapeError for an alignment with pdfs that the supervision does not have.
    """
    num_frames, num_pdfs = supervision.frames_per_sequence, supervision.label_dim
    if not supervision.is_end_to_end:
        numerator = compute_numerator(dataclasses.replace(supervision, weight=1.0),
                                  np.zeros((num_frames, num_pdfs), dtype=np.float32))
        return SparseMatrix.from_arrays(numerator.row_starts, numerator.columns, numerator.values, num_pdfs)
    pdfs = supervision.alignment_pdfs
    if len(pdfs) != num_frames:
        raise Nnet3Error(f"Alignment pdfs not present or wrong length.  Using e2e egs? ({len(pdfs)} for {num_frames} "
                         "frames)")
    if not 0 <= int(pdfs.min()) <= int(pdfs.max()) < num_pdfs:
        raise ShapeError(f"the alignment of a supervision has the pdfs {pdfs.min()} to {pdfs.max()}, expected 0 to "
                         f"{num_pdfs - 1}")
    return SparseMatrix.from_arrays(np.arange(num_frames + 1), pdfs, np.ones(num_frames, dtype=np.float32), num_pdfs)
