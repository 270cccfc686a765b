"""PLP against Kaldi's, and linear prediction against the equations it solves."""
from __future__ import annotations

import feature_cases as cases
import numpy as np
import pytest

from nnet3py.feat.plp import PlpTransform
from nnet3py.feat.speech import SpeechFeatures, speech_options


@pytest.mark.parametrize("name", cases.PLP)
def test_kaldis(name: str) -> None:
    computer = SpeechFeatures(speech_options("plp", {"dither": 0.0, **cases.PLP[name]}))
    cases.assert_near(computer.compute(*cases.sound()), cases.kaldis(name))


def test_linear_prediction_solves_its_equations() -> None:
    """C0 is the log of the prediction's error, the cepstra are those of the all-pole model: by matrices, and an FFT."""
    rng = np.random.default_rng(0)
    centers, energies = np.linspace(100, 4000, 20), rng.uniform(1, 50, (3, 20)).astype(np.float32)
    found = PlpTransform(centers, 8, 9, 0.4).apply(energies)
    square = centers ** 2
    heard = (energies * (square / (square + 1.6e5)) ** 2 * (square + 1.44e6) / (square + 9.61e6)) ** 0.4
    heard = np.hstack((heard[:, :1], heard, heard[:, -1:]))
    for row, spectrum in zip(found, heard, strict=True):
        # The spectrum's mirror image makes it that of a real signal, whose autocorrelations an FFT gives.
        signal = np.fft.ifft(np.concatenate((spectrum, spectrum[-2:0:-1]))).real
        lags = np.abs(np.subtract.outer(np.arange(8), np.arange(8)))
        predictor = np.linalg.solve(signal[lags], signal[1:9])
        error = signal[0] - predictor @ signal[1:9]
        assert row[0] == pytest.approx(max(np.log(error), np.finfo(np.float32).tiny), rel=1e-4)
        model = -2 * np.log(np.abs(np.fft.fft(np.concatenate(([1], -predictor)), 4096)))
        np.testing.assert_allclose(row[1:], np.fft.ifft(model).real[1:9] * 1.0, rtol=1e-3, atol=1e-4)


def test_silence_has_finite_features() -> None:
    computer = SpeechFeatures(speech_options("plp", {"dither": 0.0}))
    assert np.isfinite(computer.compute(np.zeros(1600, dtype=np.float32), 16000)).all()
