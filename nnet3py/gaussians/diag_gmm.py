"""Mixtures of Gaussians with diagonal covariance, and acoustic models with them. Kaldi: ``DiagGmm``, ``AmDiagGmm``."""
from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from nnet3py.errors import FormatError
from nnet3py.formats.matrices import read_matrix, read_vector, write_matrix, write_vector
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.io.tokens import TokenReader, TokenWriter

_SMALLEST = 40          # bytes of a mixture in a file, at least


def read_weights(reader: TokenReader, *openings: str) -> np.ndarray:
    """Read the beginning of a mixture's file, of either kind: float32 (gaussians,), the weights."""
    reader.check_token(reader.token(), *openings)
    token = reader.token()
    if token == "<GCONSTS>":
        read_vector(reader)              # recomputed from the rest
        token = reader.token()
    reader.check_token(token, "<WEIGHTS>")
    return read_vector(reader)


def write_weights(writer: TokenWriter, opening: str, log_constants: np.ndarray, weights: np.ndarray) -> None:
    """Write that beginning."""
    writer.token(opening)
    writer.newline_if_text()
    writer.token("<GCONSTS>")
    write_vector(writer, log_constants)
    writer.token("<WEIGHTS>")
    write_vector(writer, weights)


@dataclass
class DiagGmm:
    """A mixture in the natural parameters that files hold.

    Attributes
    ----------
    weights : float32 (gaussians,)
    means_inv_vars : float32 (gaussians, dim), means over variances
    inv_vars : float32 (gaussians, dim)
    """

    weights: np.ndarray
    means_inv_vars: np.ndarray
    inv_vars: np.ndarray

    @classmethod
    def single(cls, mean: np.ndarray, variance: np.ndarray) -> DiagGmm:
        """One Gaussian; ``mean`` and ``variance`` (dim,)."""
        inv_var = (1.0 / np.asarray(variance)).astype(np.float32)
        return cls(np.ones(1, dtype=np.float32), (np.asarray(mean) * inv_var).astype(np.float32)[None], inv_var[None])

    @property
    def dim(self) -> int:
        """Dimension of the features."""
        return self.inv_vars.shape[1]

    def log_constants(self) -> np.ndarray:
        """float32 (gaussians,): the part of each log-likelihood that does not depend on the features.

        Added up in single precision, dimension by dimension, as Kaldi's ComputeGconsts does. FormatError for NaN.
        """
        with np.errstate(divide="ignore"):
            total = np.log(self.weights) + np.float32(-0.5 * self.dim * math.log(2 * math.pi))
        for means, inv_vars in zip(self.means_inv_vars.T.astype(np.float64), self.inv_vars.T, strict=True):
            total = (total + (0.5 * np.log(inv_vars).astype(np.float64)
                              - 0.5 * means * means / inv_vars.astype(np.float64))).astype(np.float32)
        if np.isnan(total).any():
            raise FormatError(f"Gaussian {int(np.isnan(total).argmax())} of a mixture has no finite likelihood",
                              hint="variances must be above 0")
        return np.where(total == np.inf, np.float32(-np.inf), total)

    @classmethod
    def read(cls, reader: TokenReader) -> DiagGmm:
        """Read a mixture; FormatError for anything else."""
        weights = read_weights(reader, "<DiagGMM>", "<DiagGMMBegin>")
        reader.expect("<MEANS_INVVARS>")
        means = read_matrix(reader)
        reader.expect("<INV_VARS>")
        inv_vars = read_matrix(reader)
        reader.check_token(reader.token(), "</DiagGMM>", "<DiagGMMEnd>")
        if means.shape != inv_vars.shape or len(weights) != len(means):
            raise reader.error(f"expected weights, means and variances of the same Gaussians, found {weights.shape}, "
                               f"{means.shape} and {inv_vars.shape}")
        if not (np.isfinite(means).all() and np.isfinite(inv_vars).all() and (inv_vars > 0).all()
                and (weights >= 0).all() and np.isfinite(weights).all()):
            raise reader.error("expected finite means, and weights and variances above 0")
        return cls(weights, means, inv_vars)

    def write(self, writer: TokenWriter) -> None:
        """Write it, text or binary."""
        write_weights(writer, "<DiagGMM>", self.log_constants(), self.weights)
        writer.token("<MEANS_INVVARS>")
        write_matrix(writer, self.means_inv_vars)
        writer.token("<INV_VARS>")
        write_matrix(writer, self.inv_vars)
        writer.token("</DiagGMM>")
        writer.newline_if_text()


@dataclass
class GmmModel:
    """A transition model with a mixture for each pdf, as gmm-init-model makes it."""

    transition_model: TransitionModel
    pdfs: list[DiagGmm]

    @classmethod
    def read(cls, reader: TokenReader) -> GmmModel:
        """Read a model; FormatError for anything else."""
        transition_model = TransitionModel.read(reader)
        reader.expect("<DIMENSION>")
        dim = reader.integer()
        reader.expect("<NUMPDFS>")
        count = reader.integer()
        reader.check_count(count, _SMALLEST, "pdfs")
        pdfs = [DiagGmm.read(reader) for _ in range(count)]
        if any(pdf.dim != dim for pdf in pdfs):
            raise reader.error(f"expected mixtures of dimension {dim}")
        return cls(transition_model, pdfs)

    def write(self, writer: TokenWriter) -> None:
        """Write it, text or binary."""
        self.transition_model.write(writer)
        writer.token("<DIMENSION>")
        writer.integer(self.pdfs[0].dim)
        writer.token("<NUMPDFS>")
        writer.integer(len(self.pdfs))
        for pdf in self.pdfs:
            pdf.write(writer)
