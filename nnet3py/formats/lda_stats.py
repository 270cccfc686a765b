"""Statistics for linear discriminant analysis: counts, sums and scatter of vectors by class. Kaldi: ``LdaEstimate``."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nnet3py.errors import ShapeError
from nnet3py.formats.matrices import read_matrix, read_packed, read_vector, write_matrix, write_packed, write_vector
from nnet3py.io.tokens import TokenReader, TokenWriter


@dataclass
class LdaStats:
    """Counts, sums and scatter of classified vectors.

    Scatter is the lower triangle by rows of the sum of (x - m)(x - m)ᵀ over all vectors, with m the mean of a vector's
    class.
    """

    counts: np.ndarray          # float64 (classes,), number of vectors in each class, or sum of their weights
    sums: np.ndarray            # float64 (classes, dim)
    scatter: np.ndarray         # float64 (dim (dim + 1) / 2,)

    @classmethod
    def zeros(cls, num_classes: int, dim: int) -> LdaStats:
        """Make statistics with all counts and sums 0."""
        return cls(np.zeros(num_classes), np.zeros((num_classes, dim)), np.zeros(dim * (dim + 1) // 2))

    @property
    def num_classes(self) -> int:
        """Number of classes."""
        return len(self.counts)

    @property
    def dim(self) -> int:
        """Dimension of the vectors."""
        return self.sums.shape[1]

    def add(self, other: LdaStats) -> None:
        """Add the statistics of other vectors, in place; ShapeError if classes or dimensions differ."""
        if self.sums.shape != other.sums.shape:
            raise ShapeError(f"statistics of {other.num_classes} classes and dimension {other.dim} cannot be added to "
                             f"those of {self.num_classes} classes and dimension {self.dim}")
        total = (self.scatter + self.second_of_means()) + (other.scatter + other.second_of_means())
        self.counts, self.sums = self.counts + other.counts, self.sums + other.sums
        self.scatter = total - self.second_of_means()

    def second_of_means(self) -> np.ndarray:
        """Return the sum over classes of n m mᵀ, with n the count and m the mean, float64 (dim (dim + 1) / 2,)."""
        used = self.counts != 0.0
        sums = self.sums[used]
        return (sums.T @ (sums / self.counts[used, None]))[np.tril_indices(self.dim)]

    @classmethod
    def read(cls, reader: TokenReader) -> LdaStats:
        """Read from ``<LDAACCS>`` to ``</LDAACCS>``; FormatError for other contents."""
        reader.expect("<LDAACCS>")
        dim = reader.tagged("<VECSIZE>", TokenReader.integer)
        num_classes = reader.tagged("<NUMCLASSES>", TokenReader.integer)
        if dim < 1 or num_classes < 1:
            raise reader.error(f"expected LDA statistics of some classes and dimensions, found {num_classes} classes "
                               f"and dimension {dim}")
        readers = {"<ZERO_ACCS>": (read_vector, (num_classes,)), "<FIRST_ACCS>": (read_matrix, (num_classes, dim)),
                   "<SECOND_ACCS>": (read_packed, (dim * (dim + 1) // 2,))}
        statistics: dict[str, np.ndarray] = {}
        while (token := reader.token()) != "</LDAACCS>":
            read, shape = readers.get(token, (None, ()))
            if read is None or token in statistics or token == "<SECOND_ACCS>" and len(statistics) < 2:
                raise reader.error(f"expected {' '.join(sorted(readers))}, each once, in LDA statistics, "
                                   f"found '{token[:40]}'")
            statistics[token] = read(reader, dtype=np.float64)
            if statistics[token].shape != shape:
                raise reader.error(f"expected {shape} numbers after {token}, found {statistics[token].shape}")
        if len(statistics) < len(readers):
            raise reader.error(f"LDA statistics lack {', '.join(sorted(set(readers) - set(statistics)))}")
        return cls(statistics["<ZERO_ACCS>"], statistics["<FIRST_ACCS>"], statistics["<SECOND_ACCS>"])

    def write(self, writer: TokenWriter) -> None:
        """Write the statistics as float32; larger numbers become infinite."""
        with np.errstate(over="ignore"):
            counts, sums, scatter = (a.astype(np.float32) for a in (self.counts, self.sums, self.scatter))
        writer.token("<LDAACCS>")
        writer.tagged("<VECSIZE>", TokenWriter.integer, self.dim)
        writer.tagged("<NUMCLASSES>", TokenWriter.integer, self.num_classes)
        writer.tagged("<ZERO_ACCS>", write_vector, counts)
        writer.tagged("<FIRST_ACCS>", write_matrix, sums)
        writer.tagged("<SECOND_ACCS>", write_packed, scatter)
        writer.token("</LDAACCS>")
