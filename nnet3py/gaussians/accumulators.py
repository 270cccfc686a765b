"""Statistics for estimating mixtures: counts, sums and squares of features by Gaussian. Kaldi: ``AccumDiagGmm``."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nnet3py.errors import FormatError, ShapeError
from nnet3py.formats.matrices import read_matrix, read_packed, read_vector, write_matrix, write_packed, write_vector
from nnet3py.gaussians.symmetric import outer_products
from nnet3py.io.tokens import TokenReader, TokenWriter

MEANS, VARIANCES, WEIGHTS, TRANSITIONS = 1, 2, 4, 8
_LETTERS = {"m": MEANS, "v": VARIANCES, "w": WEIGHTS, "t": TRANSITIONS, "a": MEANS | VARIANCES | WEIGHTS | TRANSITIONS}
_SMALLEST = 4            # bytes of a Gaussian's statistics, at least


def parse_flags(text: str) -> int:
    """The flags that letters such as ``mvw`` name; FormatError for others. Kaldi: StringToGmmFlags."""
    flags = 0
    for letter in text:
        if letter not in _LETTERS:
            raise FormatError(f"expected some of the letters m, v and w, found '{text}'")
        flags |= _LETTERS[letter]
    return flags


def augmented(flags: int) -> int:
    """Flags with what they need: variances need means, and these weights."""
    if flags & VARIANCES:
        flags |= MEANS
    if flags & MEANS:
        flags |= WEIGHTS
    return flags


@dataclass
class GmmStats:
    """Statistics of a mixture.

    Attributes
    ----------
    flags : what was gathered
    occupancy : float64 (gaussians,)
    means : float64 (gaussians, dim), sums of features
    squares : float64, sums of squares (gaussians, dim), or of products (gaussians, dim (dim + 1) / 2)
    is_full : which of the two
    """

    flags: int
    occupancy: np.ndarray
    means: np.ndarray
    squares: np.ndarray
    is_full: bool

    @classmethod
    def zeros(cls, num_gaussians: int, dim: int, flags: int, is_full: bool) -> GmmStats:
        """Statistics of nothing."""
        size = dim * (dim + 1) // 2 if is_full else dim
        return cls(augmented(flags), np.zeros(num_gaussians), np.zeros((num_gaussians, dim)),
                   np.zeros((num_gaussians, size)), is_full)

    @property
    def dim(self) -> int:
        """Dimension of the features."""
        return self.means.shape[1]

    def add(self, features: np.ndarray, posteriors: np.ndarray) -> None:
        """Add float32 features (frames, dim) with float32 posteriors (frames, gaussians), times the frames' weights."""
        moments = [np.ones((len(features), 1))]
        double = features.astype(np.float64)
        if self.flags & MEANS:
            moments.append(double)
        if self.flags & VARIANCES:
            moments.append(outer_products(double) if self.is_full else double * double)
        sums = posteriors.astype(np.float64).T @ np.concatenate(moments, axis=1)  # one product is quicker than three
        self.occupancy += sums[:, 0]
        if self.flags & MEANS:
            self.means += sums[:, 1:1 + self.dim]
        if self.flags & VARIANCES:
            self.squares += sums[:, 1 + self.dim:]

    def add_stats(self, other: GmmStats) -> None:
        """Add statistics of other features; ShapeError if they are not of the same kind."""
        if self.means.shape != other.means.shape or self.flags != other.flags or self.is_full != other.is_full:
            raise ShapeError(f"statistics of {other.means.shape[0]} Gaussians of dimension {other.dim} with flags "
                             f"{other.flags} cannot be added to {self.means.shape[0]} of dimension {self.dim} with "
                             f"flags {self.flags}")
        self.occupancy += other.occupancy
        self.means += other.means
        self.squares += other.squares

    @classmethod
    def read(cls, reader: TokenReader) -> GmmStats:
        """Read statistics; FormatError for anything else."""
        reader.expect("<GMMACCS>")
        reader.expect("<VECSIZE>")
        dim = reader.integer()
        reader.expect("<NUMCOMPONENTS>")
        count = reader.integer()
        reader.check_count(count, _SMALLEST, "Gaussians")
        reader.check_count(dim, 0, "dimensions")
        reader.expect("<FLAGS>")
        flags = reader.integer("uint16")
        statistics: dict[str, np.ndarray] = {}
        is_full = False
        while (token := reader.token()) != "</GMMACCS>":
            if token == "<OCCUPANCY>":
                statistics[token] = read_vector(reader, np.float64)
            elif token == "<FULLVARACCS>":
                is_full = True
                statistics["squares"] = np.array([read_packed(reader, np.float64) for _ in range(count)])
            elif token in ("<MEANACCS>", "<DIAGVARACCS>"):
                statistics["squares" if token == "<DIAGVARACCS>" else token] = read_matrix(reader, np.float64)
            else:
                raise reader.unexpected(token, "a part of the statistics of Gaussians")
        return _assembled(reader, statistics, count, dim, flags, is_full)

    def write(self, writer: TokenWriter) -> None:
        """Write them, text or binary. Full products are written about the mean, as Kaldi's are."""
        writer.token("<GMMACCS>")
        writer.token("<VECSIZE>")
        writer.integer(self.dim)
        writer.token("<NUMCOMPONENTS>")
        writer.integer(len(self.occupancy))
        writer.token("<FLAGS>")
        writer.integer(self.flags, "uint16")
        writer.token("<OCCUPANCY>")
        write_vector(writer, self.occupancy.astype(np.float32))
        writer.token("<MEANACCS>")
        write_matrix(writer, self._stored(self.means, MEANS))
        if not self.is_full:
            writer.token("<DIAGVARACCS>")
            write_matrix(writer, self._stored(self.squares, VARIANCES))
        elif self.flags & VARIANCES:
            writer.token("<FULLVARACCS>")
            for triangle in (self.squares - self._about_means(self.occupancy, self.means)).astype(np.float32):
                write_packed(writer, triangle)
        writer.token("</GMMACCS>")

    def _stored(self, values: np.ndarray, flag: int) -> np.ndarray:
        return values.astype(np.float32) if self.flags & flag else np.zeros((0, 0), dtype=np.float32)

    @staticmethod
    def _about_means(occupancy: np.ndarray, means: np.ndarray) -> np.ndarray:
        """The part that the products of the means contribute."""
        safe = np.where(occupancy != 0, occupancy, 1.0)[:, None]
        return np.where(occupancy[:, None] != 0, outer_products(means) / safe, 0.0)


def _assembled(reader: TokenReader, statistics: dict[str, np.ndarray], count: int, dim: int, flags: int,
               is_full: bool) -> GmmStats:
    stats = GmmStats.zeros(count, dim, flags, is_full)
    stats.flags = flags
    places = (("<OCCUPANCY>", stats.occupancy), ("<MEANACCS>", stats.means), ("squares", stats.squares))
    for name, place in places:
        values = statistics.get(name)
        if values is None or not values.size:
            continue
        if values.shape != place.shape or not np.isfinite(values).all():
            raise reader.error(f"expected finite statistics of {count} Gaussians of dimension {dim}, found "
                               f"{' x '.join(map(str, values.shape))} numbers")
        place[...] = values
    if is_full:
        stats.squares += GmmStats._about_means(stats.occupancy, stats.means)
    return stats
