"""Perceptual linear prediction (Hermansky 1990): cepstra of an all-pole model of a compressed mel spectrum."""
from __future__ import annotations

import numpy as np

from nnet3py.engine.loop import Loop

_LOOPS = "nnet3py.feat.spectrum_loops"
_predict = Loop(_LOOPS, "predict_linearly", "f8[,] f8 f8[,] f8[] f8[]")
_cepstra = Loop(_LOOPS, "cepstra_of_predictors", "f8[,] f8[,]")
_LEAST_ERROR = 1e-5
LEAST = float(np.finfo(np.float32).tiny)


class PlpTransform:
    """From mel energies to C0 and cepstra.

    Parameters
    ----------
    centers : float64 (bins,), of the mel filters, in Hz
    order : of linear prediction
    num_ceps : with C0; at most ``order + 1``
    compress : the power to which energies are raised
    """

    def __init__(self, centers: np.ndarray, order: int, num_ceps: int, compress: float) -> None:
        self._order, self._num_ceps, self._compress = order, num_ceps, compress
        square = centers ** 2
        self._loudness = (square / (square + 1.6e5)) ** 2 * (square + 1.44e6) / (square + 9.61e6)
        last = len(centers) + 1                                  # the first and last energy are doubled
        places = np.arange(last + 1)
        halves = np.where((places == 0) | (places == last), 0.5, 1.0)
        self._cosines = halves * np.cos(np.pi * np.arange(order + 1)[:, None] * places / last) / last

    def apply(self, energies: np.ndarray) -> np.ndarray:
        """float32 (frames, num_ceps) of mel energies, float32 (frames, bins)."""
        heard = (energies * self._loudness) ** self._compress
        heard = np.concatenate((heard[:, :1], heard, heard[:, -1:]), axis=1)
        correlations = np.ascontiguousarray((heard[:, None] * self._cosines).sum(axis=2))
        predictors, cepstra = np.empty((2, len(heard), self._order))
        errors = np.empty(len(heard))
        _predict(correlations, _LEAST_ERROR, predictors, np.empty(self._order), errors)
        _cepstra(predictors, cepstra)
        first = np.maximum(np.log(np.maximum(errors, LEAST)), LEAST)
        return np.concatenate((first[:, None], cepstra[:, :self._num_ceps - 1]), axis=1).astype(np.float32)
