"""MFCC, filterbank, PLP and spectrogram features as Kaldi computes them, with vocal tract length normalization.

Kaldi: ``feature-mfcc.h``, ``feature-fbank.h``, ``feature-plp.h``, ``feature-spectrogram.h``.
"""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nnet3py.config_line import did_you_mean
from nnet3py.engine.loop import Loop
from nnet3py.errors import Nnet3Error, UsageError
from nnet3py.feat.options import FRAME_OPTIONS, KIND_OPTIONS, MEL_OPTIONS, conf_settings
from nnet3py.feat.sound import resample
from nnet3py.feat.spectra import (
    EPSILON,
    FrameOptions,
    FrameWindows,
    MelBanks,
    Warp,
    is_power_of_two,
    real_transform,
    window_energies,
)
from nnet3py.option_fields import OptionValue, Setting, check_limits

_multiply_rows = Loop("nnet3py.feat.loops", "multiply_rows", "f4[,] f4[,] f4[,]")
_predict = Loop("nnet3py.feat.loops", "predict_linearly", "f8[,] f8 f8[,] f8[] f8[]")
_cepstra = Loop("nnet3py.feat.loops", "cepstra_of_predictors", "f8[,] f8[,]")
_LEAST_ERROR_FACTOR = 1e-5      # of linear prediction, from one order to the next
_PLP_LEAST_ENERGY = float(np.finfo(np.float32).tiny)
_BLOCK_FRAMES = 512        # frames computed at a time, so that intermediate results stay in the processor's cache


@dataclass(frozen=True)
class SpeechOptions:
    """Options of features of sound by the names of Kaldi's fields; Kaldi's defaults for those left out.

    Attributes
    ----------
    kind : ``mfcc``, ``fbank``, ``plp`` or ``spectrogram``
    frame : options of FRAME_OPTIONS, for example ``samp_freq``
    mel : options of MEL_OPTIONS, for example ``num_bins``
    own : options of KIND_OPTIONS for this kind, for example ``num_ceps``
    allow_downsample, allow_upsample : whether to resample sound of a higher or lower sampling rate, or refuse it
    """

    kind: str
    frame: Mapping[str, OptionValue] = field(default_factory=dict)
    mel: Mapping[str, OptionValue] = field(default_factory=dict)
    own: Mapping[str, OptionValue] = field(default_factory=dict)
    allow_downsample: bool = False
    allow_upsample: bool = False


def speech_options(kind: str, values: Mapping[str, OptionValue]) -> SpeechOptions:
    """Make options from values by the names of Kaldi's command-line options.

    Parameters
    ----------
    kind : ``mfcc``, ``fbank``, ``plp`` or ``spectrogram``
    values : for example ``{"num-mel-bins": 40}``; Kaldi's defaults for the options that are not given

    Returns
    -------
    Options for :class:`SpeechFeatures`.

    Raises
    ------
    UsageError : an option that features of this kind do not have
    """
    names = sorted(setting.name for setting in conf_settings(kind))
    for name in values:
        if name not in names:
            raise UsageError(f"{kind} features have no option '{name}'",
                             did_you_mean(name, names) or f"there are {', '.join(names)}")
    frame, mel, own = ({field: values[setting.name] for field, setting in table.items() if setting.name in values}
                       for table in (FRAME_OPTIONS, MEL_OPTIONS, KIND_OPTIONS[kind]))
    return SpeechOptions(kind, frame, mel, own, bool(values.get("allow-downsample", False)),
                         bool(values.get("allow-upsample", False)))


class SpeechFeatures:
    """Computation of the MFCC, filterbank, PLP or spectrogram features of sounds.

    Parameters
    ----------
    options : options from :func:`speech_options`
    warp : default factor of the frequency axis (VTLN); 1 for none

    Attributes
    ----------
    dim : columns of the features

    Raises
    ------
    UsageError : options out of range
    """

    def __init__(self, options: SpeechOptions, warp: float = 1.0) -> None:
        self.options, self._warp = options, warp
        frame, mel, own = (_with_defaults(*each) for each in (
            (options.frame, FRAME_OPTIONS), (options.mel, MEL_OPTIONS), (options.own, KIND_OPTIONS[options.kind])))
        self.frame_options = FrameOptions(**frame)
        self._mel, self._own = mel, own
        if options.kind in ("mfcc", "plp"):
            most = mel["num_bins"] if options.kind == "mfcc" else own["lpc_order"] + 1
            if own["num_ceps"] > most:
                what = "the number of mel bins" if options.kind == "mfcc" else "of --lpc-order and one"
                raise UsageError(f"--num-ceps={own['num_ceps']}: expected 1 to {most}, {what}")
        if options.kind == "plp" and own["lpc_order"] > mel["num_bins"]:
            raise UsageError(f"--lpc-order={own['lpc_order']}: expected 1 to {mel['num_bins']}, the number of mel bins")
        self._transforms: dict[float, _Transform] = {}
        self.dim: int = self._transform(warp).dim

    @property
    def rate(self) -> float:
        """Sampling rate of the features' windows, in samples per second."""
        return self.frame_options.rate

    @property
    def frame_shift(self) -> float:
        """Time from one frame to the next, in seconds."""
        return self.frame_options.shift_seconds

    def compute(self, samples: np.ndarray, rate: float, warp: float | None = None) -> np.ndarray:
        """Compute the features of a whole sound. Kaldi: OfflineFeatureTpl::ComputeFeatures.

        Parameters
        ----------
        samples : float32 (samples,) in the range of 16 bits
        rate : samples per second
        warp : factor of the frequency axis; None for the default

        Returns
        -------
        float32 (frames, dim); (0, 0) if the sound is shorter than a window

        Raises
        ------
        Nnet3Error : another rate than in the options, if they do not allow resampling
        UsageError : a factor of the frequency axis out of range
        """
        if rate != self.rate:
            self.check_rate(rate)
            samples = resample(samples, int(rate), int(self.rate))
        computer = self.begin(warp)
        computer.accept(samples)
        frames = computer.finish()
        return frames if len(frames) else np.zeros((0, 0), dtype=np.float32)

    def begin(self, warp: float | None = None) -> FrameComputer:
        """Return a new computer for the frames of one sound, of the rate :attr:`rate`, as it arrives."""
        return FrameComputer(FrameWindows(self.frame_options), self._transform(self._warp if warp is None else warp))

    def check_rate(self, rate: float) -> None:
        """Raise Nnet3Error if sound of another rate than in the options may not be resampled."""
        allowed, name = (self.options.allow_downsample, "downsample") if rate > self.rate else (
            self.options.allow_upsample, "upsample")
        if rate != self.rate and not allowed:
            raise Nnet3Error(f"the sound has {rate:g} samples a second, --sample-frequency is {self.rate:g}",
                             f"--allow-{name}=true resamples it")

    def _transform(self, warp: float) -> _Transform:
        if warp not in self._transforms:
            kinds = {"mfcc": _Mfcc, "fbank": _Fbank, "plp": _Plp, "spectrogram": _Spectrogram}
            self._transforms[warp] = kinds[self.options.kind](self.frame_options, self._mel, self._own, warp)
        return self._transforms[warp]


def _with_defaults(values: Mapping[str, Any], table: Mapping[str, Setting]) -> dict[str, Any]:
    """Return options, with defaults from a table for missing ones.

    Raises UsageError for names that are not in the table, and for values beyond their limits.
    """
    for name in values:
        if name not in table:
            raise UsageError(f"features have no option '{name}'",
                             did_you_mean(name, list(table)) or f"there are {', '.join(table)}")
        check_limits(table[name].name, values[name], table[name].default, table[name].limits)
    return {name: values.get(name, setting.default) for name, setting in table.items() if name != "debug_mel"}


class FrameComputer:
    """Computation of the feature frames of one sound as it arrives."""

    def __init__(self, windows: FrameWindows, transform: _Transform) -> None:
        self._windows, self._transform = windows, transform

    def accept(self, samples: np.ndarray) -> None:
        """Accept more samples, float32 (samples,) in the range of 16 bits."""
        self._windows.accept(np.asarray(samples, dtype=np.float32))

    def take(self) -> np.ndarray:
        """Return the frames that are ready and have not been returned yet, float32 (frames, dim)."""
        return self._take(False)

    def finish(self) -> np.ndarray:
        """End the sound; return the remaining frames, float32 (frames, dim)."""
        return self._take(True)

    def _take(self, is_over: bool) -> np.ndarray:
        parts = []
        while len(windows := self._windows.take(_BLOCK_FRAMES, is_over)):
            parts.append(self._transform.apply(*self._windows.prepare(windows)))
        if not parts:
            return np.zeros((0, self._transform.dim), dtype=np.float32)
        return parts[0] if len(parts) == 1 else np.concatenate(parts)


# -- from windows to features ------------------------------------------------------------------------------------------


class _Transform:
    """Base class of the kinds of features; computes power spectra and log energies."""

    dim: int                            # columns of the features
    least_energy = EPSILON              # floor of the energy of windows after preemphasis and window function

    def __init__(self, frame: FrameOptions, mel: Mapping[str, Any], own: Mapping[str, Any], warp: float) -> None:
        self._frame, self._own = frame, own
        self._prepare(lambda: MelBanks(mel["num_bins"], mel["low_freq"], mel["high_freq"], frame.rate, frame.padded,
                                       Warp(warp, mel["vtln_low"], mel["vtln_high"])))

    def _prepare(self, filters: Any) -> None:
        raise NotImplementedError

    def apply(self, windows: np.ndarray, raw_energies: np.ndarray) -> np.ndarray:
        """Compute features, float32 (frames, dim), from windows and their energies before preemphasis."""
        raise NotImplementedError

    def _power(self, windows: np.ndarray, use_power: bool = True) -> np.ndarray:
        """Return the power spectrum of windows, or magnitudes unless ``use_power``: float32 (frames, padded / 2)."""
        spectrum = np.fft.rfft(windows, self._frame.padded, axis=1)[:, :self._frame.padded // 2]
        power = np.square(spectrum.real) + np.square(spectrum.imag)
        return np.ascontiguousarray(power if use_power else np.sqrt(power), dtype=np.float32)

    def _log_energies(self, windows: np.ndarray, raw_energies: np.ndarray) -> np.ndarray:
        energies = raw_energies if self._own["raw_energy"] else np.maximum(
            window_energies(windows), np.float32(self.least_energy))
        floor = self._own["energy_floor"]
        logs = np.log(energies)
        return np.asarray(np.maximum(logs, np.float32(np.log(floor))) if floor > 0 else logs)

    def _lifter_weights(self, num_ceps: int) -> np.ndarray:
        lifter = self._own["cepstral_lifter"]
        numbers = np.arange(num_ceps)
        return 1 + 0.5 * lifter * np.sin(np.pi * numbers / lifter) if lifter else np.ones(num_ceps)


def _floored_log(values: np.ndarray) -> np.ndarray:
    return np.log(np.maximum(values, np.float32(EPSILON)))


class _Mfcc(_Transform):
    """Mel-frequency cepstral coefficients (Davis and Mermelstein 1980)."""

    def _prepare(self, filters: Any) -> None:
        self._filters, self.dim = filters(), self._own["num_ceps"]
        num_bins, numbers = len(self._filters.centers), np.arange(self.dim)
        cosines = np.sqrt(2 / num_bins) * np.cos(np.pi / num_bins * numbers * (np.arange(num_bins)[:, None] + 0.5))
        cosines[:, 0] = np.sqrt(1 / num_bins)
        self._cosines = (cosines * self._lifter_weights(self.dim)).astype(np.float32)

    def apply(self, windows: np.ndarray, raw_energies: np.ndarray) -> np.ndarray:
        logs = _floored_log(self._filters.energies(self._power(windows)))
        result = np.empty((len(logs), self.dim), dtype=np.float32)
        _multiply_rows(logs, self._cosines, result)
        if self._own["use_energy"]:
            result[:, 0] = self._log_energies(windows, raw_energies)
        elif self._own["htk_compat"]:
            result[:, 0] *= np.float32(np.sqrt(2))
        return np.roll(result, -1, axis=1) if self._own["htk_compat"] else result


class _Fbank(_Transform):
    def _prepare(self, filters: Any) -> None:
        self._filters = filters()
        self.dim = len(self._filters.centers) + bool(self._own["use_energy"])

    def apply(self, windows: np.ndarray, raw_energies: np.ndarray) -> np.ndarray:
        outputs = self._filters.energies(self._power(windows, self._own["use_power"]))
        if self._own["use_log_fbank"]:
            outputs = _floored_log(outputs)
        if not self._own["use_energy"]:
            return outputs
        energy = self._log_energies(windows, raw_energies)[:, None]
        return np.hstack((outputs, energy) if self._own["htk_compat"] else (energy, outputs))


class PlpTransform:
    """The step of perceptual linear prediction (PLP) from mel energies to cepstra (Hermansky 1990).

    The cepstra are those of an all-pole model, of ``order``, of the mel spectrum raised to the power ``compress``.
    ``centers`` is float64 (bins,), center frequencies of the mel filters in Hz; of the at most ``order + 1``
    coefficients ``num_ceps`` the first is C0.
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
        """Compute C0 and cepstra, float32 (frames, num_ceps), from mel energies, float32 (frames, bins)."""
        heard = (energies * self._loudness) ** self._compress
        heard = np.concatenate((heard[:, :1], heard, heard[:, -1:]), axis=1)
        correlations = np.ascontiguousarray((heard[:, None] * self._cosines).sum(axis=2))
        predictors, cepstra = np.empty((2, len(heard), self._order))
        errors = np.empty(len(heard))
        _predict(correlations, _LEAST_ERROR_FACTOR, predictors, np.empty(self._order), errors)
        _cepstra(predictors, cepstra)
        first = np.maximum(np.log(np.maximum(errors, _PLP_LEAST_ENERGY)), _PLP_LEAST_ENERGY)
        return np.concatenate((first[:, None], cepstra[:, :self._num_ceps - 1]), axis=1).astype(np.float32)


class _Plp(_Transform):
    least_energy = _PLP_LEAST_ENERGY

    def _prepare(self, filters: Any) -> None:
        self._filters, own = filters(), self._own
        self.dim = own["num_ceps"]
        self._transform = PlpTransform(self._filters.centers, own["lpc_order"], self.dim, own["compress_factor"])
        self._scales = (self._lifter_weights(self.dim) * own["cepstral_scale"]).astype(np.float32)

    def apply(self, windows: np.ndarray, raw_energies: np.ndarray) -> np.ndarray:
        result = self._transform.apply(self._filters.energies(self._power(windows))) * self._scales
        if self._own["use_energy"]:
            result[:, 0] = self._log_energies(windows, raw_energies)
        return np.roll(result, -1, axis=1) if self._own["htk_compat"] else result


class _Spectrogram(_Transform):
    def _prepare(self, filters: Any) -> None:
        self.dim = self._frame.padded if self._own["return_raw_fft"] else self._frame.padded // 2 + 1

    def apply(self, windows: np.ndarray, raw_energies: np.ndarray) -> np.ndarray:
        size = self._frame.padded
        if is_power_of_two(size):
            real, imaginary = real_transform(windows, size)
        else:
            spectrum = np.fft.rfft(windows, size, axis=1)
            real, imaginary = spectrum.real, spectrum.imag
        result = np.empty((len(windows), self.dim), dtype=np.float32)
        if self._own["return_raw_fft"]:       # in place of the imaginary part of 0 Hz: real part of half the rate
            result[:, 0::2], result[:, 1::2] = real[:, :-1], imaginary[:, :-1]
            result[:, 1] = real[:, -1]
            return result
        result[:] = _floored_log((np.square(real) + np.square(imaginary)).astype(np.float32))
        result[:, 0] = self._log_energies(windows, raw_energies)
        return result
