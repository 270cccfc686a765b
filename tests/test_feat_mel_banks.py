"""Filters on a warped frequency axis, against Kaldi's features and against the map itself."""
from __future__ import annotations

import feature_cases as cases
import numpy as np
import pytest

from nnet3py.errors import UsageError
from nnet3py.feat.mel_banks import MelBanks, Warp
from nnet3py.feat.speech import SpeechFeatures, speech_options


def test_kaldis() -> None:
    plp = SpeechFeatures(speech_options("plp", {"dither": 0.0}))
    cases.assert_near(plp.compute(*cases.sound(), warp=cases.WARP), cases.kaldis("plp-vtln"))
    options = {"dither": 0.0, "num-mel-bins": 40, "vtln-low": 80.0, "vtln-high": -400.0}
    fbank = SpeechFeatures(speech_options("fbank", options), warp=cases.WARP)
    cases.assert_near(fbank.compute(*cases.sound()), cases.kaldis("fbank-vtln"))


@pytest.mark.parametrize("factor", [0.8, 1.0, 1.25])
def test_the_map_is_continuous_and_ends_where_it_began(factor: float) -> None:
    frequencies = np.linspace(0, 8000, 8001)
    found = Warp(factor).apply(frequencies, 20.0, 7800.0, 8000.0)
    assert (np.diff(found) > 0).all() and np.diff(found).max() < 8
    assert found[20] == pytest.approx(20) and found[7800] == pytest.approx(7800) and found[7900] == 7900
    assert found[1000] == pytest.approx(1000 / factor)


@pytest.mark.parametrize("warp, message", [
    (Warp(1.1, 10.0), "--vtln-low=10 .*expected two frequencies within"), (Warp(1.1, 100.0, 200.0), None),
    (Warp(1.1, 300.0, 200.0), "--vtln-high=200"), (Warp(100.0), "the warp factor 100 is too far from 1"),
    (Warp(-1.0), "the warp factor -1: expected a positive number"), (Warp(float("nan")), "the warp factor nan")])
def test_unusable_warps(warp: Warp, message: str | None) -> None:
    if message is None:
        assert len(MelBanks(10, 20.0, 0.0, 16000.0, 512, warp).centers) == 10
        return
    with pytest.raises(UsageError, match=message):
        MelBanks(10, 20.0, 0.0, 16000.0, 512, warp)


def test_energies_are_sums_over_triangles() -> None:
    banks = MelBanks(12, 50.0, 3500.0, 8000.0, 256, Warp())
    spectrum = np.random.default_rng(0).uniform(0, 1, (5, 128)).astype(np.float32)
    edges = 700 * np.expm1(np.linspace(*(1127 * np.log1p(np.array([50.0, 3500.0]) / 700)), 14) / 1127)
    np.testing.assert_allclose(banks.centers, edges[1:-1])
    mels = [1127 * np.log1p(each / 700) for each in (edges, np.arange(128) * 8000 / 256)]
    for number in range(12):
        left, center, right = mels[0][number:number + 3]
        weights = np.clip(np.minimum((mels[1] - left) / (center - left), (right - mels[1]) / (right - center)), 0, None)
        np.testing.assert_allclose(banks.energies(spectrum)[:, number], spectrum @ weights, rtol=1e-5)
