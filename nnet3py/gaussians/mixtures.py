"""Gaussian mixtures with diagonal or full covariance, their files, likelihoods, and posteriors of Gaussians.

Likelihoods and posteriors are in single precision, as in Kaldi: ``DiagGmm``, ``FullGmm``, ``AmDiagGmm``.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np

from nnet3py.engine.loop import Loop
from nnet3py.errors import FormatError, ShapeError
from nnet3py.formats.matrices import read_matrix, read_packed, read_vector, write_matrix, write_packed, write_vector
from nnet3py.formats.posteriors import Posterior
from nnet3py.gaussians.symmetric import lower_triangle, outer_products, packed, unpacked
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.io.tokens import TokenReader, TokenWriter

_prune = Loop("nnet3py.gaussians.posterior_loops", "pruned_posteriors", "f4[,] f4[] i8[] i4[] f4[] f4[] i8")

_LEAST_BYTES = 40      # of a mixture in a file
_BLOCK_FRAMES = 1000   # frames whose products of features are in memory at a time


def read_weights(reader: TokenReader, *openings: str) -> np.ndarray:
    """Read the beginning of a mixture's file, of either kind; return the weights, float32 (gaussians,)."""
    reader.check_token(reader.token(), *openings)
    token = reader.token()
    if token == "<GCONSTS>":
        read_vector(reader)              # recomputed from the rest
        token = reader.token()
    reader.check_token(token, "<WEIGHTS>")
    return read_vector(reader)


def write_weights(writer: TokenWriter, opening: str, log_constants: np.ndarray, weights: np.ndarray) -> None:
    """Write the beginning of a mixture's file."""
    writer.token(opening)
    writer.newline_if_text()
    writer.tagged("<GCONSTS>", write_vector, log_constants)
    writer.tagged("<WEIGHTS>", write_vector, weights)


def _linear_part(gmm: Mixture, features: np.ndarray, parameters: np.ndarray,
                 constants: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Return features as float32, and constants plus features times ``parameters``, float32 (frames, gaussians)."""
    if features.shape[1] != gmm.dim:
        raise ShapeError(f"expected features of dimension {gmm.dim}, as the Gaussians have, found {features.shape[1]}")
    features = features.astype(np.float32, copy=False)
    return features, (gmm.log_constants() if constants is None else constants) + features @ parameters.T


@dataclass
class DiagGmm:
    """A mixture with diagonal covariances, in the natural parameters that files hold."""

    weights: np.ndarray             # float32 (gaussians,)
    means_inv_vars: np.ndarray      # float32 (gaussians, dim), means over variances
    inv_vars: np.ndarray            # float32 (gaussians, dim), inverse variances

    @classmethod
    def single(cls, mean: np.ndarray, variance: np.ndarray) -> DiagGmm:
        """Make a mixture of one Gaussian; ``mean`` and ``variance`` are float (dim,)."""
        inv_var = (1.0 / np.asarray(variance)).astype(np.float32)
        return cls(np.ones(1, dtype=np.float32), (np.asarray(mean) * inv_var).astype(np.float32)[None], inv_var[None])

    @property
    def dim(self) -> int:
        """Dimension of the features."""
        return self.inv_vars.shape[1]

    def log_constants(self) -> np.ndarray:
        """Compute the part of each log-likelihood that does not depend on the features: float32 (gaussians,).

        Added up in single precision, dimension by dimension, as by Kaldi's ComputeGconsts. Raises FormatError for NaN.
        """
        with np.errstate(divide="ignore"):
            total = np.log(self.weights) + np.float32(-0.5 * self.dim * math.log(2 * math.pi))
        for means, inv_vars in zip(self.means_inv_vars.T.astype(np.float64), self.inv_vars.T, strict=True):
            total = (total + (0.5 * np.log(inv_vars).astype(np.float64)
                              - 0.5 * means * means / inv_vars.astype(np.float64))).astype(np.float32)
        if np.isnan(total).any():
            raise FormatError(f"Gaussian {int(np.isnan(total).argmax())} of a mixture has likelihoods of NaN",
                              hint="variances must be above 0")
        return np.where(total == np.inf, np.float32(-np.inf), total)

    def log_likelihoods(self, features: np.ndarray, constants: np.ndarray | None = None) -> np.ndarray:
        """Compute the log-likelihoods of features by each Gaussian, weights included.

        Parameters
        ----------
        features : float (frames, dim)
        constants : result of :meth:`log_constants`, for callers that ask often, with few frames

        Returns
        -------
        float32 (frames, gaussians)

        Raises
        ------
        ShapeError : features of another dimension
        """
        features, result = _linear_part(self, features, self.means_inv_vars, constants)
        result -= np.float32(0.5) * ((features * features) @ self.inv_vars.T)
        return result

    @classmethod
    def read(cls, reader: TokenReader) -> DiagGmm:
        """Read a mixture; raise FormatError for anything else."""
        weights = read_weights(reader, "<DiagGMM>", "<DiagGMMBegin>")
        means = reader.tagged("<MEANS_INVVARS>", read_matrix)
        inv_vars = reader.tagged("<INV_VARS>", read_matrix)
        reader.check_token(reader.token(), "</DiagGMM>", "<DiagGMMEnd>")
        if means.shape != inv_vars.shape or len(weights) != len(means):
            raise reader.error(f"expected weights, means and variances of the same Gaussians, found {weights.shape}, "
                               f"{means.shape} and {inv_vars.shape}")
        if not (np.isfinite(means).all() and np.isfinite(inv_vars).all() and (inv_vars > 0).all()
                and (weights >= 0).all() and np.isfinite(weights).all()):
            raise reader.error("expected finite means, and weights and variances above 0")
        return cls(weights, means, inv_vars)

    def write(self, writer: TokenWriter) -> None:
        """Write the mixture, as text or binary."""
        write_weights(writer, "<DiagGMM>", self.log_constants(), self.weights)
        writer.tagged("<MEANS_INVVARS>", write_matrix, self.means_inv_vars)
        writer.tagged("<INV_VARS>", write_matrix, self.inv_vars)
        writer.token("</DiagGMM>")
        writer.newline_if_text()


@dataclass
class GmmModel:
    """An acoustic model: a transition model with a mixture for each pdf. Kaldi: TransitionModel, AmDiagGmm."""

    transition_model: TransitionModel
    pdfs: list[DiagGmm]

    @classmethod
    def read(cls, reader: TokenReader) -> GmmModel:
        """Read a model; raise FormatError for anything else."""
        transition_model = TransitionModel.read(reader)
        dim = reader.tagged("<DIMENSION>", TokenReader.integer)
        count = reader.tagged("<NUMPDFS>", TokenReader.integer)
        reader.check_count(count, _LEAST_BYTES, "pdfs")
        pdfs = [DiagGmm.read(reader) for _ in range(count)]
        if any(pdf.dim != dim for pdf in pdfs):
            raise reader.error(f"expected mixtures of dimension {dim}, found others")
        return cls(transition_model, pdfs)

    def write(self, writer: TokenWriter) -> None:
        """Write the model, as text or binary."""
        self.transition_model.write(writer)
        writer.tagged("<DIMENSION>", TokenWriter.integer, self.pdfs[0].dim)
        writer.tagged("<NUMPDFS>", TokenWriter.integer, len(self.pdfs))
        for pdf in self.pdfs:
            pdf.write(writer)


@dataclass
class FullGmm:
    """A mixture with full covariances, in the natural parameters that files hold."""

    weights: np.ndarray             # float32 (gaussians,)
    means_inv_covars: np.ndarray    # float32 (gaussians, dim), inverse covariances times means
    inv_covars: np.ndarray          # float32 (gaussians, dim (dim + 1) / 2), their lower triangles by rows

    @classmethod
    def of_moments(cls, weights: np.ndarray, means: np.ndarray, covariances: np.ndarray) -> FullGmm:
        """Make a mixture from means (gaussians, dim) and covariances (gaussians, dim, dim).

        Covariances are inverted in double precision.
        """
        inverses = np.linalg.inv(covariances.astype(np.float64)).astype(np.float32)
        products = np.einsum("ide,ie->id", inverses, means.astype(np.float32))
        return cls(weights.astype(np.float32), products.astype(np.float32), packed(inverses))

    @classmethod
    def of_diagonal(cls, gmm: DiagGmm) -> FullGmm:
        """Convert a mixture with diagonal covariances. Kaldi: FullGmm::CopyFromDiagGmm."""
        inverses = np.zeros((len(gmm.weights), gmm.dim, gmm.dim), dtype=np.float32)
        diagonal = np.arange(gmm.dim)
        inverses[:, diagonal, diagonal] = gmm.inv_vars
        return cls(gmm.weights.copy(), gmm.means_inv_vars.copy(), packed(inverses))

    @property
    def dim(self) -> int:
        """Dimension of the features."""
        return self.means_inv_covars.shape[1]

    def inverses(self) -> np.ndarray:
        """Return float64 (gaussians, dim, dim): inverse covariances."""
        return unpacked(self.inv_covars.astype(np.float64))

    def covariances(self) -> np.ndarray:
        """Return float64 (gaussians, dim, dim): covariances. Raises FormatError if one is not positive definite."""
        inverses = self.inverses()
        try:
            np.linalg.cholesky(inverses)
        except np.linalg.LinAlgError:
            raise FormatError("a Gaussian's covariance is not positive definite") from None
        return np.linalg.inv(inverses)

    def means(self, covariances: np.ndarray | None = None) -> np.ndarray:
        """Return float64 (gaussians, dim): means; ``covariances`` is the result of :meth:`covariances`, if known."""
        covariances = self.covariances() if covariances is None else covariances
        return np.einsum("ide,ie->id", covariances, self.means_inv_covars.astype(np.float64))

    def to_diagonal(self) -> DiagGmm:
        """Return the mixture with the same means, and the variances only. Kaldi: DiagGmm::CopyFromFullGmm."""
        covariances = self.covariances()
        variances = np.diagonal(covariances, axis1=1, axis2=2)
        means = self.means(covariances)
        inv_vars = (1.0 / variances).astype(np.float32)
        return DiagGmm(self.weights.copy(), (means * inv_vars).astype(np.float32), inv_vars)

    def log_constants(self) -> np.ndarray:
        """Compute the part of each log-likelihood that does not depend on the features: float32 (gaussians,)."""
        inverses = self.inverses()
        signs, log_dets = np.linalg.slogdet(inverses)
        if (signs <= 0).any():
            raise FormatError(f"the covariance of Gaussian {int((signs <= 0).argmax())} is not positive definite")
        products = np.einsum("id,ide,ie->i", self.means_inv_covars.astype(np.float64), np.linalg.inv(inverses),
                             self.means_inv_covars.astype(np.float64))
        with np.errstate(divide="ignore"):
            constants = np.log(self.weights.astype(np.float64)) - 0.5 * (
                self.dim * math.log(2 * math.pi) - log_dets + products)
        return constants.astype(np.float32)

    def log_likelihoods(self, features: np.ndarray, constants: np.ndarray | None = None) -> np.ndarray:
        """Compute the log-likelihoods of features by each Gaussian. Arguments as of :meth:`DiagGmm.log_likelihoods`."""
        features, result = _linear_part(self, features, self.means_inv_covars, constants)
        rows, cols = lower_triangle(self.dim)
        halved = np.where(rows == cols, np.float32(0.5), np.float32(1.0))
        for first in range(0, len(features), _BLOCK_FRAMES):
            products = outer_products(features[first:first + _BLOCK_FRAMES]) * halved
            result[first:first + _BLOCK_FRAMES] -= products @ self.inv_covars.T
        return result

    @classmethod
    def read(cls, reader: TokenReader) -> FullGmm:
        """Read a mixture; raise FormatError for anything else."""
        weights = read_weights(reader, "<FullGMM>", "<FullGMMBegin>")
        means = reader.tagged("<MEANS_INVCOVARS>", read_matrix)
        reader.expect("<INV_COVARS>")
        inv_covars = [read_packed(reader) for _ in range(len(means))]
        reader.check_token(reader.token(), "</FullGMM>", "<FullGMMEnd>")
        size = means.shape[1] * (means.shape[1] + 1) // 2
        if len(weights) != len(means) or any(len(inv_covar) != size for inv_covar in inv_covars):
            raise reader.error(f"expected {len(means)} weights, as there are means, and covariances of dimension "
                               f"{means.shape[1]}, found {len(weights)} weights, or covariances of another dimension")
        stacked = np.array(inv_covars, dtype=np.float32).reshape(len(means), size)
        if not all(np.isfinite(part).all() for part in (weights, means, stacked)) or (weights < 0).any():
            raise reader.error("expected finite means and covariances, and weights that are not negative")
        return cls(weights, means, stacked)

    def write(self, writer: TokenWriter) -> None:
        """Write the mixture, as text or binary."""
        write_weights(writer, "<FullGMM>", self.log_constants(), self.weights)
        writer.tagged("<MEANS_INVCOVARS>", write_matrix, self.means_inv_covars)
        writer.token("<INV_COVARS>")
        for triangle in self.inv_covars:
            write_packed(writer, triangle)
        writer.token("</FullGMM>")
        writer.newline_if_text()


# -- posteriors ------------------------------------------------------------------------------------------------------

Mixture: TypeAlias = "DiagGmm | FullGmm"


class PrunedPosteriors(NamedTuple):
    """Posteriors of the likeliest Gaussians of each frame.

    ``log_likes`` is float32 (frames,), the log-likelihood of each frame, summed over these Gaussians only.
    """

    posterior: Posterior
    log_likes: np.ndarray


def pruned_posteriors(log_likes: np.ndarray, most: int, least: float | np.ndarray) -> PrunedPosteriors:
    """Compute the posteriors of the likeliest Gaussians of each frame. Kaldi: VectorToPosteriorEntry.

    Parameters
    ----------
    log_likes : float32 (frames, gaussians)
    most : largest number of Gaussians per frame
    least : smallest posterior that is kept, a number or float32 (frames,); the likeliest Gaussian is always kept
    """
    frames, count = log_likes.shape
    most = min(most, count)
    starts, sums = np.zeros(frames + 1, dtype=np.int64), np.empty(frames, dtype=np.float32)
    ids, weights = np.empty(frames * most, dtype=np.int32), np.empty(frames * most, dtype=np.float32)
    cuts = np.array(np.broadcast_to(np.asarray(least, dtype=np.float32), (frames,)))
    _prune(np.require(log_likes, np.float32, ["C", "A", "W"]), cuts, starts, ids, weights, sums, most)
    kept = int(starts[-1])
    return PrunedPosteriors(Posterior(starts, ids[:kept], weights[:kept]), sums)


def _likeliest(log_likes: np.ndarray, most: int) -> np.ndarray:
    """Return the ``most`` likeliest Gaussians of each frame: int64 (frames, most), by descending likelihood.

    Of equally likely ones, that with the higher number is first.
    """
    count = log_likes.shape[1]
    if most < count:
        candidates = np.sort(np.argpartition(log_likes, count - most, axis=1)[:, count - most:], axis=1)
    else:
        candidates = np.broadcast_to(np.arange(count), log_likes.shape)
    order = np.argsort(np.take_along_axis(log_likes, candidates, axis=1), axis=1, kind="stable")[:, ::-1]
    chosen: np.ndarray = np.take_along_axis(candidates, order, axis=1)
    return chosen


Selection: TypeAlias = "Sequence[np.ndarray]"      # for each frame, numbers of Gaussians


class SelectedGaussians(NamedTuple):
    """Likeliest Gaussians of each frame: their numbers, int64 (frames, n), by descending likelihood.

    ``log_likes`` is float32 (frames,), the log-likelihood of each frame, summed over these Gaussians only.
    """

    numbers: np.ndarray
    log_likes: np.ndarray


def select(gmm: Mixture, features: np.ndarray, most: int) -> SelectedGaussians:
    """Select the ``most`` likeliest Gaussians of each frame. Kaldi: GaussianSelection."""
    log_likes = gmm.log_likelihoods(features)
    numbers = _likeliest(log_likes, min(most, log_likes.shape[1]))
    return SelectedGaussians(numbers, log_sum(np.take_along_axis(log_likes, numbers, axis=1)))


def log_sum(values: np.ndarray) -> np.ndarray:
    """Return float32 (rows,): the logarithm of the sum of each row's exponentials."""
    highest = values.max(axis=1, keepdims=True)
    with np.errstate(under="ignore"):
        summed: np.ndarray = (highest + np.log(np.exp(values - highest).sum(axis=1, keepdims=True)))[:, 0]
    return summed


def preselected_log_likelihoods(gmm: Mixture, features: np.ndarray, selection: Selection) -> list[np.ndarray]:
    """Compute the log-likelihoods of the Gaussians that are listed for each frame: float32 (listed,) per frame.

    As in Kaldi (DiagGmm::LogLikelihoodsPreselect), if covariances are diagonal and a list of n numbers ends with its
    first number + n - 1, it is taken for consecutive numbers, whatever is in between.
    """
    log_likes = gmm.log_likelihoods(features)
    table = _selection_table(selection, log_likes.shape[1])
    if table is not None:
        return [*np.take_along_axis(log_likes, _numbers_read_by_kaldi(gmm, table), axis=1)]
    result = []
    for row, listed in zip(log_likes, selection, strict=True):
        numbers = np.asarray(listed)
        if not len(numbers) or numbers.min() < 0 or numbers.max() >= len(row):
            raise ShapeError(f"expected numbers of Gaussians from 0 to {len(row) - 1}, found {numbers.tolist()[:10]}",
                             "does the selection belong to another mixture?")
        result.append(row[_numbers_read_by_kaldi(gmm, numbers[None])[0]])
    return result


def _selection_table(selection: Selection, num_gaussians: int) -> np.ndarray | None:
    """Return a selection as int (frames, n) if all frames have n Gaussians; None if not, or for invalid numbers."""
    if not len(selection) or len({len(listed) for listed in selection}) > 1 or not len(selection[0]):
        return None
    table = np.array(selection)
    return table if table.min() >= 0 and table.max() < num_gaussians else None


def _numbers_read_by_kaldi(gmm: Mixture, table: np.ndarray) -> np.ndarray:
    """Replace rows that Kaldi takes for consecutive numbers (:func:`preselected_log_likelihoods`): int (frames, n)."""
    count = table.shape[1]
    consecutive = table[:, -1] + 1 - table[:, 0] == count
    if not isinstance(gmm, DiagGmm) or not consecutive.any():
        return table
    return np.where(consecutive[:, None], table[:, :1] + np.arange(count), table)


def select_among(gmm: Mixture, features: np.ndarray, selection: Selection, most: int) -> tuple[list[np.ndarray], float]:
    """Select the ``most`` likeliest of the Gaussians listed for each frame.

    Returns the selected Gaussians, int32 (selected,) per frame, and the sum of the frames' log-likelihoods over these.
    """
    chosen, total = [], 0.0
    for listed, values in zip(selection, preselected_log_likelihoods(gmm, features, selection), strict=True):
        numbers = np.asarray(listed)
        order = np.lexsort((numbers, values))[::-1][:most]
        chosen.append(numbers[order].astype(np.int32))
        total += float(log_sum(values[None, order])[0])
    return chosen, total


def softmax(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return posteriors of log-likelihoods (…, n), float32; and the logarithms of their normalizers (…,)."""
    highest = values.max(axis=-1, keepdims=True)
    with np.errstate(under="ignore"):
        exponentials = np.exp(values - highest)
    total = exponentials.sum(axis=-1, keepdims=True)
    return exponentials / total, (highest + np.log(total))[..., 0]


def dense_posteriors(gmm: Mixture, features: np.ndarray, selection: Selection) -> tuple[np.ndarray, np.ndarray]:
    """Compute the posteriors of the Gaussians that are listed for each frame.

    Returns
    -------
    float32 (frames, gaussians), posteriors, 0 for Gaussians that are not listed; and float32 (frames,), the
    log-likelihood of each frame, summed over the listed Gaussians.
    """
    likelihoods = preselected_log_likelihoods(gmm, features, selection)
    dense = np.zeros((len(features), len(gmm.weights)), dtype=np.float32)
    table = _selection_table(selection, len(gmm.weights))
    if table is not None:
        posteriors, log_likes = softmax(np.asarray(likelihoods))
        np.put_along_axis(dense, table, posteriors, axis=1)
        return dense, log_likes
    log_likes = np.zeros(len(features), dtype=np.float32)
    for frame, (listed, values) in enumerate(zip(selection, likelihoods, strict=True)):
        dense[frame, np.asarray(listed)], log_likes[frame] = softmax(values)
    return dense, log_likes


def selected_posteriors(gmm: Mixture, features: np.ndarray, selection: Selection,
                            least: float) -> tuple[Posterior, float]:
    """Return posteriors of the listed Gaussians, none below ``least``; and the sum of log-likelihoods.

    Kaldi: gmm-global-gselect-to-post.
    """
    frames, total = [], 0.0
    for listed, values in zip(selection, preselected_log_likelihoods(gmm, features, selection), strict=True):
        posteriors, log_like = softmax(values)
        total += float(log_like)
        if least != 0.0:
            posteriors = _without_small(posteriors, np.float32(least))
        frames.append([(int(number), float(value)) for number, value in zip(listed, posteriors, strict=True) if value])
    return Posterior.from_lists(frames), total


def _without_small(posteriors: np.ndarray, least: np.float32) -> np.ndarray:
    kept = np.where(posteriors < least, np.float32(0), posteriors)
    total = kept.sum(dtype=np.float32)
    if total == 0:
        kept[posteriors.argmax()] = total = np.float32(1)
    return kept * (np.float32(1) / total)
