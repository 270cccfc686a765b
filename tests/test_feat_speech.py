"""MFCC and filterbanks against a slow computation with numpy, PLP against Kaldi's and its equations."""
from __future__ import annotations

import feature_cases as cases
import numpy as np
import pytest

from nnet3py.errors import Nnet3Error, UsageError
from nnet3py.feat.sound import resample
from nnet3py.feat.spectra import WINDOWS
from nnet3py.feat.speech import PlpTransform, SpeechFeatures, SpeechOptions, speech_options

RATE = 16000
EPSILON = float(np.finfo(np.float32).eps)
MFCC_TOLERANCE = 2e-3     # the library computes in single precision; liftered coefficients are up to 12 times as large
FBANK_TOLERANCE = 1e-3

QUIET = {"dither": 0.0}


# -- the computation, as written in books ----------------------------------------------------------------------------


def frames_of(samples, rate, length, shift, snip_edges):
    """The windows' samples, float64 (frames, window)."""
    size, step = int(rate * 0.001 * length), int(rate * 0.001 * shift)
    if snip_edges:
        starts = np.arange(0, len(samples) - size + 1, step)
    else:
        starts = (np.arange((len(samples) + step // 2) // step) * step + step // 2) - size // 2
    places = starts[:, None] + np.arange(size)
    period = 2 * len(samples)
    places = places % period                               # mirrored at both ends
    places = np.where(places < len(samples), places, period - 1 - places)
    return samples.astype(np.float64)[places]


def window_of(kind, size, blackman=0.42):
    phase = 2 * np.pi * np.arange(size) / (size - 1)
    return {"povey": (0.5 - 0.5 * np.cos(phase)) ** 0.85, "hamming": 0.54 - 0.46 * np.cos(phase),
            "hanning": 0.5 - 0.5 * np.cos(phase), "rectangular": np.ones(size), "sine": np.sin(phase / 2),
            "blackman": blackman - 0.5 * np.cos(phase) + (0.5 - blackman) * np.cos(2 * phase)}[kind]


def mel(frequency):
    return 1127 * np.log(1 + np.asarray(frequency) / 700)


def filters(bins, rate, size, low, high):
    """Triangles, equal steps of mel apart, (bins, size / 2)."""
    high = high if high > 0 else rate / 2 + high
    edges = np.linspace(mel(low), mel(high), bins + 2)
    places = mel(np.arange(size // 2) * rate / size)
    up = (places - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    down = (edges[2:, None] - places) / (edges[2:] - edges[1:-1])[:, None]
    return np.maximum(0, np.minimum(up, down))


def reference(kind, samples, *, rate=RATE, length=25.0, shift=10.0, snip_edges=True, preemphasis=0.97, dc=True,
              window="povey", bins=23, low=20.0, high=0.0, ceps=13, energy=None, energy_floor=0.0, raw_energy=True,
              lifter=22.0, log=True, power=True, htk=False, round_up=True):
    frames = frames_of(samples, rate, length, shift, snip_edges)
    if dc:
        frames = frames - frames.mean(axis=1, keepdims=True)
    raw = (frames ** 2).sum(axis=1)
    frames = frames - preemphasis * np.hstack([frames[:, :1], frames[:, :-1]])
    frames = frames * window_of(window, frames.shape[1])
    energies = np.log(np.maximum(raw if raw_energy else (frames ** 2).sum(axis=1), EPSILON))
    if energy_floor > 0:
        energies = np.maximum(energies, np.log(energy_floor))
    size = 1 << (frames.shape[1] - 1).bit_length() if round_up else frames.shape[1]
    spectrum = np.abs(np.fft.rfft(frames, size))[:, :size // 2]
    outputs = (spectrum ** (2 if power else 1)) @ filters(bins, rate, size, low, high).T
    logs = np.log(np.maximum(outputs, EPSILON))
    if kind == "fbank":
        result = logs if log else outputs
        if not energy:
            return result
        return np.hstack([result, energies[:, None]] if htk else [energies[:, None], result])
    numbers = np.arange(ceps)
    cosines = np.sqrt(2 / bins) * np.cos(np.pi / bins * numbers[:, None] * (np.arange(bins) + 0.5))
    cosines[0] = np.sqrt(1 / bins)
    result = logs @ cosines.T
    if lifter:
        result = result * (1 + 0.5 * lifter * np.sin(np.pi * numbers / lifter))
    if energy is None or energy:
        result[:, 0] = energies
    elif htk:
        result[:, 0] *= np.sqrt(2)
    return np.roll(result, -1, axis=1) if htk else result


@pytest.fixture(scope="module")
def sound():
    """Half a second of tones that rise, with noise and an offset, of the range of 16 bits."""
    rng = np.random.default_rng(7)
    time = np.arange(RATE // 2) / RATE
    tones = sum(np.sin(2 * np.pi * (first * time + 2000 * time ** 2)) for first in (150, 700, 1900))
    return (2500 * tones + 300 * rng.standard_normal(len(time)) + 80).astype(np.float32)


def computed(kind, samples, frame=(), mel_options=(), own=(), rate=RATE):
    options = SpeechOptions(kind, {**QUIET, **dict(frame)}, dict(mel_options), dict(own))
    return SpeechFeatures(options).compute(samples, rate)


def assert_close(found, expected, tolerance):
    assert found.dtype == np.float32 and found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("frame, mel_options, own, arguments", [
    ({}, {}, {}, {}),
    ({}, {"num_bins": 40, "high_freq": -400.0}, {"num_ceps": 40, "use_energy": False},
     {"bins": 40, "high": -400.0, "ceps": 40, "energy": False}),
    ({}, {}, {"cepstral_lifter": 0.0, "raw_energy": False}, {"lifter": 0, "raw_energy": False}),
    ({}, {}, {"htk_compat": True}, {"htk": True}),
    ({}, {}, {"htk_compat": True, "use_energy": False}, {"htk": True, "energy": False}),
    ({}, {}, {"energy_floor": 1e12}, {"energy_floor": 1e12}),
    ({"snip_edges": False, "frame_shift_ms": 12.5}, {}, {}, {"snip_edges": False, "shift": 12.5}),
    ({"preemph_coeff": 0.0, "remove_dc_offset": False}, {"low_freq": 100.0}, {},
     {"preemphasis": 0, "dc": False, "low": 100.0}),
])
def test_mfcc(sound, frame, mel_options, own, arguments):
    assert_close(computed("mfcc", sound, frame, mel_options, own), reference("mfcc", sound, **arguments),
                 MFCC_TOLERANCE)


@pytest.mark.parametrize("frame, mel_options, own, arguments", [
    ({}, {}, {}, {}),
    ({}, {"num_bins": 80}, {"use_energy": True}, {"bins": 80, "energy": True}),
    ({}, {}, {"use_energy": True, "htk_compat": True}, {"energy": True, "htk": True}),
    ({}, {}, {"use_power": False}, {"power": False}),
    ({}, {}, {"use_log_fbank": False}, {"log": False}),
    ({"round_to_power_of_two": False, "frame_length_ms": 20.0}, {}, {}, {"round_up": False, "length": 20.0}),
    *(({"window_type": name}, {}, {}, {"window": name}) for name in WINDOWS),
])
def test_fbank(sound, frame, mel_options, own, arguments):
    assert_close(computed("fbank", sound, frame, mel_options, own), reference("fbank", sound, **arguments),
                 FBANK_TOLERANCE)


def test_another_sampling_rate(sound):
    found = computed("mfcc", sound, {"samp_freq": 8000.0}, rate=8000)
    assert_close(found, reference("mfcc", sound, rate=8000), MFCC_TOLERANCE)


def test_silence_is_floored():
    features = computed("fbank", np.zeros(RATE, np.float32))
    np.testing.assert_allclose(features, np.log(EPSILON), rtol=1e-6)


def test_sound_shorter_than_a_window():
    assert computed("mfcc", np.ones(399, np.float32)).shape == (0, 0)
    assert computed("mfcc", np.ones(400, np.float32)).shape == (1, 13)


def test_without_dither_it_is_the_same_every_time(sound):
    computer = SpeechFeatures(SpeechOptions("mfcc", QUIET))
    first = computer.compute(sound, RATE)
    np.testing.assert_array_equal(computer.compute(sound, RATE), first)
    noisy = SpeechFeatures(SpeechOptions("mfcc")).compute(sound, RATE)
    assert 0 < np.abs(noisy - first).max() < 5, "Kaldi's default adds a little noise"


@pytest.mark.parametrize("frame, mel_options, own, message", [
    ({"samp_freq": 0.0}, {}, {}, "--sample-frequency=0"),
    ({"frame_shift_ms": 0.01}, {}, {}, "--frame-shift=0.01 milliseconds: expected 1 samples"),
    ({"frame_length_ms": 0.01}, {}, {}, "--frame-length=0.01"),
    ({"window_type": "round"}, {}, {}, "--window-type=round: expected one of hamming"),
    ({}, {"num_bins": 2000}, {}, "--num-mel-bins=2000: expected at most 256"),
    ({}, {"num_bins": 200}, {}, "--num-mel-bins=200: filter 2 lies between two frequencies"),
    ({"frame_length_ms": 25.0625, "round_to_power_of_two": False}, {}, {}, "their number must be even"),
    ({"num_ceps": 13}, {}, {}, "features have no option 'num_ceps'"),
    ({}, {"low_freq": 9000.0}, {}, "--low-freq=9000 --high-freq=0: the filters would lie between 9000 and 8000"),
    ({}, {"high_freq": 9000.0}, {}, "within 0 and 8000 Hz"),
    ({}, {}, {"num_ceps": 24}, "--num-ceps=24: expected 1 to 23")])
def test_unusable_options(frame, mel_options, own, message):
    with pytest.raises(UsageError, match=message):
        SpeechFeatures(SpeechOptions("mfcc", frame, mel_options, own))


def test_sampling_rates_that_differ(sound):
    with pytest.raises(Nnet3Error, match=r"16000 samples a second, --sample-frequency is 8000.*allow-downsample"):
        computed("mfcc", sound, {"samp_freq": 8000.0})
    with pytest.raises(Nnet3Error, match="--allow-upsample=true"):
        computed("mfcc", sound, rate=8000)
    options = SpeechOptions("fbank", {**QUIET, "samp_freq": 8000.0}, allow_downsample=True)
    found = SpeechFeatures(options).compute(sound, RATE)
    expected = computed("fbank", resample(sound, RATE, 8000), {"samp_freq": 8000.0}, rate=8000)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", ["num_ceps", "numceps", "num-mel-bin"])
def test_misspelled_options_are_refused(name):
    with pytest.raises(UsageError, match=f"mfcc features have no option '{name}' .did you mean 'num-"):
        speech_options("mfcc", {name: 20})


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
