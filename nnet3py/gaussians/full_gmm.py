"""Mixtures of Gaussians with full covariance. Kaldi: ``FullGmm``."""
from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from nnet3py.errors import FormatError
from nnet3py.formats.matrices import read_matrix, read_packed, write_matrix, write_packed
from nnet3py.gaussians.diag_gmm import DiagGmm, read_weights, write_weights
from nnet3py.gaussians.symmetric import packed, unpacked
from nnet3py.io.tokens import TokenReader, TokenWriter


@dataclass
class FullGmm:
    """A mixture in the natural parameters that files hold.

    Attributes
    ----------
    weights : float32 (gaussians,)
    means_inv_covars : float32 (gaussians, dim), inverse covariance times mean
    inv_covars : float32 (gaussians, dim (dim + 1) / 2), lower triangles by rows
    """

    weights: np.ndarray
    means_inv_covars: np.ndarray
    inv_covars: np.ndarray

    @classmethod
    def of_moments(cls, weights: np.ndarray, means: np.ndarray, covariances: np.ndarray) -> FullGmm:
        """From means (gaussians, dim) and covariances (gaussians, dim, dim), inverted in double precision."""
        inverses = np.linalg.inv(covariances.astype(np.float64)).astype(np.float32)
        products = np.einsum("ide,ie->id", inverses, means.astype(np.float32))
        return cls(weights.astype(np.float32), products.astype(np.float32), packed(inverses))

    @classmethod
    def of_diagonal(cls, gmm: DiagGmm) -> FullGmm:
        """The same mixture. Kaldi: FullGmm::CopyFromDiagGmm."""
        inverses = np.zeros((len(gmm.weights), gmm.dim, gmm.dim), dtype=np.float32)
        diagonal = np.arange(gmm.dim)
        inverses[:, diagonal, diagonal] = gmm.inv_vars
        return cls(gmm.weights.copy(), gmm.means_inv_vars.copy(), packed(inverses))

    @property
    def dim(self) -> int:
        """Dimension of the features."""
        return self.means_inv_covars.shape[1]

    def inverses(self) -> np.ndarray:
        """float64 (gaussians, dim, dim), inverse covariances."""
        return unpacked(self.inv_covars.astype(np.float64))

    def covariances(self) -> np.ndarray:
        """float64 (gaussians, dim, dim). FormatError if one is not positive definite."""
        inverses = self.inverses()
        try:
            np.linalg.cholesky(inverses)
        except np.linalg.LinAlgError:
            raise FormatError("a Gaussian's covariance is not positive definite") from None
        return np.linalg.inv(inverses)

    def means(self) -> np.ndarray:
        """float64 (gaussians, dim)."""
        return np.einsum("ide,ie->id", self.covariances(), self.means_inv_covars.astype(np.float64))

    def to_diagonal(self) -> DiagGmm:
        """The mixture with the variances only, the means kept. Kaldi: DiagGmm::CopyFromFullGmm."""
        covariances = self.covariances()
        variances = np.diagonal(covariances, axis1=1, axis2=2)
        means = np.einsum("ide,ie->id", covariances, self.means_inv_covars.astype(np.float64))
        inv_vars = (1.0 / variances).astype(np.float32)
        return DiagGmm(self.weights.copy(), (means * inv_vars).astype(np.float32), inv_vars)

    def log_constants(self) -> np.ndarray:
        """float32 (gaussians,): the part of each log-likelihood that does not depend on the features."""
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

    @classmethod
    def read(cls, reader: TokenReader) -> FullGmm:
        """Read a mixture; FormatError for anything else."""
        weights = read_weights(reader, "<FullGMM>", "<FullGMMBegin>")
        reader.expect("<MEANS_INVCOVARS>")
        means = read_matrix(reader)
        reader.expect("<INV_COVARS>")
        inv_covars = [read_packed(reader) for _ in range(len(means))]
        reader.check_token(reader.token(), "</FullGMM>", "<FullGMMEnd>")
        size = means.shape[1] * (means.shape[1] + 1) // 2
        if len(weights) != len(means) or any(len(inv_covar) != size for inv_covar in inv_covars):
            raise reader.error(f"expected {len(means)} weights and covariances of dimension {means.shape[1]}")
        stacked = np.array(inv_covars, dtype=np.float32).reshape(len(means), size)
        if not all(np.isfinite(part).all() for part in (weights, means, stacked)) or (weights < 0).any():
            raise reader.error("expected finite means and covariances, and weights that are not negative")
        return cls(weights, means, stacked)

    def write(self, writer: TokenWriter) -> None:
        """Write it, text or binary."""
        write_weights(writer, "<FullGMM>", self.log_constants(), self.weights)
        writer.token("<MEANS_INVCOVARS>")
        write_matrix(writer, self.means_inv_covars)
        writer.token("<INV_COVARS>")
        for triangle in self.inv_covars:
            write_packed(writer, triangle)
        writer.token("</FullGMM>")
        writer.newline_if_text()
