"""Features of sound, as Kaldi computes them: MFCC, filterbanks, PLP, spectrograms; perhaps of warped frequencies."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nnet3py.config_line import did_you_mean
from nnet3py.engine.loop import Loop
from nnet3py.errors import Nnet3Error, UsageError
from nnet3py.feat.frame_windows import EPSILON, FrameOptions, FrameWindows, energies_of
from nnet3py.feat.mel_banks import MelBanks, Warp
from nnet3py.feat.plp import LEAST, PlpTransform
from nnet3py.feat.resample import resample
from nnet3py.feat.speech_options import FRAME_OPTIONS, KIND_OPTIONS, MEL_OPTIONS, conf_settings
from nnet3py.feat.split_radix import is_power_of_two, real_transform
from nnet3py.option_fields import OptionValue, Setting

_multiply_rows = Loop("nnet3py.feat.spectrum_loops", "multiply_rows", "f4[,] f4[,] f4[,]")
_AT_A_TIME = 512           # frames, so that what is computed of them stays near the processor


@dataclass(frozen=True)
class SpeechOptions:
    """How features are computed; what is left out has Kaldi's default. Names are those of Kaldi's fields.

    Attributes
    ----------
    kind : ``mfcc``, ``fbank``, ``plp`` or ``spectrogram``
    frame : of FRAME_OPTIONS, such as ``samp_freq``
    mel : of MEL_OPTIONS, such as ``num_bins``
    own : of KIND_OPTIONS, such as ``num_ceps``
    allow_downsample, allow_upsample : whether sound of a higher or lower sampling rate is resampled, or an error
    """

    kind: str
    frame: Mapping[str, OptionValue] = field(default_factory=dict)
    mel: Mapping[str, OptionValue] = field(default_factory=dict)
    own: Mapping[str, OptionValue] = field(default_factory=dict)
    allow_downsample: bool = False
    allow_upsample: bool = False


def speech_options(kind: str, values: Mapping[str, OptionValue]) -> SpeechOptions:
    """Options from values by Kaldi's names.

    Parameters
    ----------
    kind : ``mfcc``, ``fbank``, ``plp`` or ``spectrogram``
    values : such as ``{"num-mel-bins": 40}``; Kaldi's defaults for those not given

    Returns
    -------
    For :class:`SpeechFeatures`.

    Raises
    ------
    UsageError : a name that features of this kind do not have
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
    """Computes features of one sound after the other.

    Parameters
    ----------
    options : which features, and how; :func:`speech_options` makes them
    warp : the factor of the frequency axis (VTLN) where none is given; 1 for none

    Attributes
    ----------
    dim : columns of the features

    Raises
    ------
    UsageError : options that cannot be used
    """

    def __init__(self, options: SpeechOptions, warp: float = 1.0) -> None:
        self.options, self._warp = options, warp
        frame, mel, own = (_complete(*each) for each in (
            (options.frame, FRAME_OPTIONS), (options.mel, MEL_OPTIONS), (options.own, KIND_OPTIONS[options.kind])))
        self.frame_options = FrameOptions(**frame)
        self._mel, self._own = mel, own
        if options.kind in ("mfcc", "plp"):
            most = mel["num_bins"] if options.kind == "mfcc" else own["lpc_order"] + 1
            if not 1 <= own["num_ceps"] <= most:
                what = "the number of mel bins" if options.kind == "mfcc" else "of --lpc-order and one"
                raise UsageError(f"--num-ceps={own['num_ceps']}: expected 1 to {most}, {what}")
        if options.kind == "plp" and not 1 <= own["lpc_order"] <= mel["num_bins"]:
            raise UsageError(f"--lpc-order={own['lpc_order']}: expected 1 to {mel['num_bins']}, the number of mel bins")
        if options.kind == "plp" and not 0 < own["compress_factor"] <= 1:
            raise UsageError(f"--compress-factor={own['compress_factor']:g}: expected a number above 0, up to 1")
        self._transforms: dict[float, _Transform] = {}
        self.dim: int = self._transform(warp).dim

    @property
    def rate(self) -> float:
        """Samples a second of the sound that is taken."""
        return self.frame_options.rate

    @property
    def frame_shift(self) -> float:
        """From one frame to the next, in seconds."""
        return self.frame_options.shift_seconds

    def compute(self, samples: np.ndarray, rate: float, warp: float | None = None) -> np.ndarray:
        """Features, float32 (frames, dim), of ``samples``, float32 (samples,) of the range of 16 bits.

        ``rate``: samples a second. ``warp``: the factor of the frequency axis. There are no frames, and no columns, if
        the sound is shorter than a window. Raises Nnet3Error for another rate than that of the options, UsageError for
        a factor that cannot be used. Kaldi: OfflineFeatureTpl::ComputeFeatures.
        """
        if rate != self.rate:
            self.check_rate(rate)
            samples = resample(samples, int(rate), int(self.rate))
        computer = self.begin(warp)
        computer.accept(samples)
        frames = computer.finish()
        return frames if len(frames) else np.zeros((0, 0), dtype=np.float32)

    def begin(self, warp: float | None = None) -> FrameComputer:
        """What computes the frames of one sound, of this rate, as it arrives."""
        return FrameComputer(FrameWindows(self.frame_options), self._transform(self._warp if warp is None else warp))

    def check_rate(self, rate: float) -> None:
        """Nnet3Error if sound of another rate than that of the options may not be resampled."""
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


def _complete(values: Mapping[str, Any], table: Mapping[str, Setting]) -> dict[str, Any]:
    """All of a table's options; UsageError for names that it does not have."""
    for name in values:
        if name not in table:
            raise UsageError(f"features have no option '{name}'",
                             did_you_mean(name, list(table)) or f"there are {', '.join(table)}")
    return {name: values.get(name, setting.default) for name, setting in table.items() if name != "debug_mel"}


class FrameComputer:
    """Frames of one sound as it arrives."""

    def __init__(self, windows: FrameWindows, transform: _Transform) -> None:
        self._windows, self._transform = windows, transform

    def accept(self, samples: np.ndarray) -> None:
        """Take float32 (samples,), of the range of 16 bits."""
        self._windows.accept(np.asarray(samples, dtype=np.float32))

    def take(self) -> np.ndarray:
        """float32 (frames, dim): the frames that are ready and were not taken before. They are forgotten here."""
        return self._take(False)

    def finish(self) -> np.ndarray:
        """Say that the sound is over; gives the rest, float32 (frames, dim)."""
        return self._take(True)

    def _take(self, is_over: bool) -> np.ndarray:
        parts = []
        while len(windows := self._windows.take(_AT_A_TIME, is_over)):
            parts.append(self._transform.apply(*self._windows.processed(windows)))
        if not parts:
            return np.zeros((0, self._transform.dim), dtype=np.float32)
        return parts[0] if len(parts) == 1 else np.concatenate(parts)


# -- from windows to features ------------------------------------------------------------------------------------------


class _Transform:
    """What all kinds share: the spectrum, the filters, the energy.

    Attributes
    ----------
    dim : of the features
    """

    dim: int
    least_energy = EPSILON                  # of windows after they were processed

    def __init__(self, frame: FrameOptions, mel: Mapping[str, Any], own: Mapping[str, Any], warp: float) -> None:
        self._frame, self._own = frame, own
        self._make(lambda: MelBanks(mel["num_bins"], mel["low_freq"], mel["high_freq"], frame.rate, frame.padded,
                                    Warp(warp, mel["vtln_low"], mel["vtln_high"])))

    def _make(self, filters: Any) -> None:
        raise NotImplementedError

    def apply(self, windows: np.ndarray, raw_energies: np.ndarray) -> np.ndarray:
        """float32 (frames, dim), of windows and of their energies before they were processed."""
        raise NotImplementedError

    def _power(self, windows: np.ndarray, use_power: bool = True) -> np.ndarray:
        """float32 (frames, padded / 2): the power spectrum, or magnitudes."""
        spectrum = np.fft.rfft(windows, self._frame.padded, axis=1)[:, :self._frame.padded // 2]
        power = np.square(spectrum.real) + np.square(spectrum.imag)
        return np.ascontiguousarray(power if use_power else np.sqrt(power), dtype=np.float32)

    def _log_energies(self, windows: np.ndarray, raw_energies: np.ndarray) -> np.ndarray:
        """float32 (frames,), floored."""
        energies = raw_energies if self._own["raw_energy"] else np.maximum(
            energies_of(windows), np.float32(self.least_energy))
        logs: np.ndarray = np.log(energies)
        floor = self._own["energy_floor"]
        return np.maximum(logs, np.float32(np.log(floor))) if floor > 0 else logs

    def _lifter(self, num_ceps: int) -> np.ndarray:
        lifter = self._own["cepstral_lifter"]
        numbers = np.arange(num_ceps)
        return 1 + 0.5 * lifter * np.sin(np.pi * numbers / lifter) if lifter else np.ones(num_ceps)


def _logs(values: np.ndarray) -> np.ndarray:
    return np.log(np.maximum(values, np.float32(EPSILON)))


class _Mfcc(_Transform):
    """Davis and Mermelstein 1980."""

    def _make(self, filters: Any) -> None:
        self._filters, self.dim = filters(), self._own["num_ceps"]
        num_bins, numbers = len(self._filters.centers), np.arange(self.dim)
        cosines = np.sqrt(2 / num_bins) * np.cos(np.pi / num_bins * numbers * (np.arange(num_bins)[:, None] + 0.5))
        cosines[:, 0] = np.sqrt(1 / num_bins)
        self._cosines = (cosines * self._lifter(self.dim)).astype(np.float32)

    def apply(self, windows: np.ndarray, raw_energies: np.ndarray) -> np.ndarray:
        logs = _logs(self._filters.energies(self._power(windows)))
        result = np.empty((len(logs), self.dim), dtype=np.float32)
        _multiply_rows(logs, self._cosines, result)
        if self._own["use_energy"]:
            result[:, 0] = self._log_energies(windows, raw_energies)
        elif self._own["htk_compat"]:
            result[:, 0] *= np.float32(np.sqrt(2))
        return np.roll(result, -1, axis=1) if self._own["htk_compat"] else result


class _Fbank(_Transform):

    def _make(self, filters: Any) -> None:
        self._filters = filters()
        self.dim = len(self._filters.centers) + bool(self._own["use_energy"])

    def apply(self, windows: np.ndarray, raw_energies: np.ndarray) -> np.ndarray:
        outputs = self._filters.energies(self._power(windows, self._own["use_power"]))
        if self._own["use_log_fbank"]:
            outputs = _logs(outputs)
        if not self._own["use_energy"]:
            return outputs
        energy = self._log_energies(windows, raw_energies)[:, None]
        return np.hstack((outputs, energy) if self._own["htk_compat"] else (energy, outputs))


class _Plp(_Transform):
    least_energy = LEAST

    def _make(self, filters: Any) -> None:
        self._filters, own = filters(), self._own
        self.dim = own["num_ceps"]
        self._transform = PlpTransform(self._filters.centers, own["lpc_order"], self.dim, own["compress_factor"])
        self._scales = (self._lifter(self.dim) * own["cepstral_scale"]).astype(np.float32)

    def apply(self, windows: np.ndarray, raw_energies: np.ndarray) -> np.ndarray:
        result = self._transform.apply(self._filters.energies(self._power(windows))) * self._scales
        if self._own["use_energy"]:
            result[:, 0] = self._log_energies(windows, raw_energies)
        return np.roll(result, -1, axis=1) if self._own["htk_compat"] else result


class _Spectrogram(_Transform):

    def _make(self, filters: Any) -> None:
        self.dim = self._frame.padded if self._own["return_raw_fft"] else self._frame.padded // 2 + 1

    def apply(self, windows: np.ndarray, raw_energies: np.ndarray) -> np.ndarray:
        size = self._frame.padded
        if is_power_of_two(size):
            real, imaginary = real_transform(windows, size)
        else:
            spectrum = np.fft.rfft(windows, size, axis=1)
            real, imaginary = spectrum.real, spectrum.imag
        result = np.empty((len(windows), self.dim), dtype=np.float32)
        if self._own["return_raw_fft"]:              # the real part at half the rate stands where 0 Hz has none
            result[:, 0::2], result[:, 1::2] = real[:, :-1], imaginary[:, :-1]
            result[:, 1] = real[:, -1]
            return result
        result[:] = _logs((np.square(real) + np.square(imaginary)).astype(np.float32))
        result[:, 0] = self._log_energies(windows, raw_energies)
        return result
