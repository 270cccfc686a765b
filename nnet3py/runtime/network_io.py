"""Input and output of a network: checking features and i-vectors, and scaling outputs."""
from __future__ import annotations

import numpy as np

from nnet3py.errors import NumericError, ShapeError, UsageError
from nnet3py.formats.general import check_finite
from nnet3py.network.nnet import Nnet


class NetworkIo:
    """The dimensions of a simple network, and what is done to its outputs.

    Parameters
    ----------
    nnet : a network with ``input``, ``output`` and perhaps ``ivector``
    priors : float32 (output dim,), divided out of the output in the log domain; None or empty for none
    acoustic_scale : the factor of outputs

    Raises
    ------
    ShapeError : the numbers of priors and of the network's outputs differ
    """

    def __init__(self, nnet: Nnet, priors: np.ndarray | None = None, acoustic_scale: float = 1.0) -> None:
        self.input_dim, self.output_dim = nnet.input_dim("input"), nnet.output_dim("output")
        self.ivector_dim = max(nnet.input_dim("ivector"), 0)
        self._acoustic_scale = np.float32(acoustic_scale)
        self._log_priors = None
        if priors is not None and len(priors):
            if len(priors) != self.output_dim:
                raise ShapeError(f"the model has {len(priors)} priors for {self.output_dim} outputs")
            self._log_priors = np.log(np.asarray(priors, dtype=np.float32))

    def check_features(self, feats: np.ndarray) -> None:
        """Raise ShapeError or NumericError unless they are finite, (frames, input dim)."""
        if feats.ndim != 2 or feats.shape[1] != self.input_dim:
            width = feats.shape[1] if feats.ndim == 2 else f"{feats.ndim}-dimensional"
            raise ShapeError(f"Neural net expects 'input' features with dimension {self.input_dim} but you provided "
                             f"{width}", None if feats.ndim == 2 else "give a matrix (frames, dim), or several")
        check_finite(feats, "the feature matrix")

    def check_ivectors(self, ivector: np.ndarray | None, online_ivectors: np.ndarray | None, period: int) -> None:
        """Raise unless the i-vectors that the network needs are given, of one kind, finite and of its dimension.

        ``ivector`` is float (ivector dim,), ``online_ivectors`` float (count, ivector dim), one every ``period``
        frames.
        """
        if ivector is not None and online_ivectors is not None:
            raise UsageError("a constant i-vector and online i-vectors cannot both be given")
        if online_ivectors is not None and period <= 0:
            raise UsageError(f"--online-ivector-period={period} must be 1 or more")
        given, num_axes = (ivector, 1) if ivector is not None else (online_ivectors, 2)
        dim = 0 if given is None else given.shape[-1] if given.ndim == num_axes else f"{given.ndim}-dimensional"
        if dim != self.ivector_dim:
            raise ShapeError(f"Neural net expects 'ivector' features with dimension {self.ivector_dim} but you "
                             f"provided {dim}", "give or leave out ivector= (or --ivectors, --online-ivectors)")
        if given is not None:
            check_finite(np.atleast_2d(given), "the i-vector")

    def finish(self, output: np.ndarray) -> np.ndarray:
        """Subtract log priors from, and scale, the network's output (frames, output dim), in place; returns it.

        Raises NumericError for NaN in it.
        """
        if np.isnan(output).any():
            raise NumericError("the network's output has NaN", "has its training diverged?")
        if self._log_priors is not None:
            output -= self._log_priors
        if self._acoustic_scale != 1.0:
            output *= self._acoustic_scale
        return output
