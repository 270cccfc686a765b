"""From sound to arrays, for Python programs: features, what a model takes, voiced frames, a speaker's vector."""
from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nnet3py import option_file
from nnet3py.advice import arguments_elsewhere
from nnet3py.errors import Nnet3Error, ShapeError, UsageError, within
from nnet3py.feat.cmvn import normalize_sliding
from nnet3py.feat.frames import voiced_frames
from nnet3py.feat.options import KIND_OPTIONS, VadOptions, conf_settings
from nnet3py.feat.pitch import compute_pitch, pitch_options
from nnet3py.feat.process_pitch import process_pitch, process_pitch_options
from nnet3py.feat.sound import resample
from nnet3py.feat.speech import SpeechFeatures, speech_options
from nnet3py.formats.foreign_files import FULL_SCALE
from nnet3py.network.model_file import read_nnet
from nnet3py.network.nnet import Nnet
from nnet3py.option_fields import OptionValue, defaults
from nnet3py.option_file import checked_value, read_conf
from nnet3py.recognition import option_tables as tables
from nnet3py.recognition.model_folder import ModelFolder, read_model_folder
from nnet3py.recognition.pipeline import FeaturePipeline
from nnet3py.recognition.recognizer import folder_pipeline
from nnet3py.recognition.samples import Block, samples_of
from nnet3py.recognition.sound import open_sound
from nnet3py.recognition.speaker import SpeakerModel
from nnet3py.runtime.options import XvectorOptions
from nnet3py.runtime.xvectors import XvectorComputer

PITCH, RAW_PITCH = "pitch", "raw-pitch"
KINDS = (*KIND_OPTIONS, PITCH, RAW_PITCH)
_MOST_LONGER = 2               # frames by which pitch and other features may differ
_VAD_WINDOW = 300              # frames over which an x-vector's features are normalized

Sounds = str | os.PathLike[str] | Block
Config = str | os.PathLike[str] | Mapping[str, OptionValue]


@arguments_elsewhere(
    sample_rate_or_sr_or_sampling_rate="rate=", options="config=", feature_type_or_type="kind=",
    num_ceps_or_num_mel_bins_or_n_mels_or_n_mfcc_or_num_bins="config={'num-ceps': 40, 'num-mel-bins': 40}",
    dither="config={'dither': 0}")
def features(sound: Sounds, rate: float | None = None, kind: str = "mfcc", config: Config | None = None, *,
             channel: int | None = None, warp: float = 1.0) -> NDArray[np.float32]:
    """Features of a sound, as Kaldi's programs compute them: ``compute-mfcc-feats`` and others.

    Parameters
    ----------
    sound : a file of sound; or samples, bytes of 16-bit ones or an array of int16 or of floats from -1 to 1, (samples,)
    rate : samples a second; None for a file, which knows it
    kind : ``mfcc``, ``fbank``, ``plp``, ``spectrogram``; ``pitch`` (what networks take: how likely a frame is voiced,
        normalized log pitch, its change), ``raw-pitch`` (NCCF, and pitch in Hz); or two of them with a plus sign:
        ``mfcc+pitch``
    config : options by Kaldi's names, such as ``{"num-ceps": 40}`` (or ``num_ceps``); or a file of them, such as
        conf/mfcc.conf. Of two kinds, each takes those that it has. The defaults are Kaldi's, with dither: the same
        noise every time
    channel : which one of several, from 0; None: the only one, or of a file their mean
    warp : factor of the frequency axis (VTLN)

    Returns
    -------
    float32 (frames, dim): a frame for each 10 ms, (0, dim) for a sound that is shorter than a window

    Sound of another rate than ``sample-frequency`` (16000 if the options do not say it) is resampled.

    Raises UsageError for an option that there is not, or a value out of range; Nnet3Error for what is no sound.
    """
    kinds = kind.split("+")
    for each in kinds:
        if each not in KINDS:
            raise UsageError(f"there are no features '{each}'", f"expected one of {', '.join(KINDS)}, or two of them "
                             "with a plus sign: mfcc+pitch")
    values = _values(config, kinds)
    samples, rate = read_sound(sound, rate, channel)
    parts = []
    for each in kinds:
        own = {name: value for name, value in values.items() if name in _options_of(each)}
        parts.append(_pitch(samples, rate, own, each) if each in (PITCH, RAW_PITCH) else
                     _speech(samples, rate, own, each, warp))
    lengths = [len(part) for part in parts]
    if max(lengths) - min(lengths) > _MOST_LONGER:
        raise UsageError(f"{kind}: the parts have {' and '.join(map(str, lengths))} frames",
                         "give them the same frame-shift, frame-length and snip-edges")
    return np.hstack([part[:min(lengths)] for part in parts])


class FrontEndOutput(NamedTuple):
    """What a network takes of a sound: ``nnet3py.compute(model, *front_end("a.wav"))``.

    ``features``: float32 (frames, dim). ``ivector``: float32 (dim,), that of the whole sound; None for a network
    without.
    """

    features: NDArray[np.float32]
    ivector: NDArray[np.float32] | None


class FrontEnd:
    """Makes of sounds what a model takes. Made by :func:`front_end`; called, it gives a :class:`FrontEndOutput`.

    Attributes
    ----------
    folder : what is known of the model
    rate : samples a second that it was made for; others are resampled
    dim, ivector_dim : of what it makes; ``ivector_dim`` is 0 for a network without
    frame_shift : seconds from one frame to the next
    """

    def __init__(self, folder: ModelFolder) -> None:
        self.folder = folder
        self._models = folder_pipeline(folder)
        self.rate = self._models.features.rate
        self.frame_shift = self._models.frame_shift
        self.dim, self.ivector_dim = self._models.input_dim, self._models.ivector_dim

    def __call__(self, sound: Sounds, rate: float | None = None, *, channel: int | None = None) -> FrontEndOutput:
        """Features, without dither, and the i-vector at the end of a sound, all of whose frames count.

        ``sound``, ``rate``, ``channel`` : as for :func:`features`. Raises Nnet3Error for what is no sound. Program:
        compute-online-feats.
        """
        samples, rate = read_sound(sound, rate, channel)
        pipeline = FeaturePipeline(self._models)
        pipeline.accept_waveform(samples, rate)
        pipeline.finish()
        count = pipeline.num_frames_ready
        return FrontEndOutput(pipeline.frames(0, count).copy(),
                              None if pipeline.ivectors is None else pipeline.ivector(count - 1))

    def __repr__(self) -> str:
        return f"FrontEnd({self.folder.path!r}, dim={self.dim}, ivector_dim={self.ivector_dim})"


def front_end(model: str | os.PathLike[str]) -> FrontEnd:
    """What makes of sounds what the model in a folder takes, as the recognizer does.

    Parameters
    ----------
    model : a folder as :class:`Recognizer` takes

    Returns
    -------
    A :class:`FrontEnd`: ``front_end("a.wav")`` gives features, float32 (frames, dim), and the i-vector, float32 (dim,)
    or None.

    Raises
    ------
    Nnet3Error : a folder that lacks files, or has bad ones
    """
    return FrontEnd(read_model_folder(model))


def vad(feats: np.ndarray, *, energy_threshold: float = 5.0, energy_mean_scale: float = 0.5, frames_context: int = 0,
        proportion_threshold: float = 0.6) -> NDArray[np.bool_]:
    """Which frames are voiced, by their energy. Kaldi: ``compute-vad``.

    Parameters
    ----------
    feats : float (frames, dim), whose first column is the log energy: ``nnet3py.features(sound, rate)``
    energy_threshold, energy_mean_scale : a frame is loud above the first plus the second times the mean
    frames_context, proportion_threshold : a frame is voiced if that part of the frames so near are loud

    Returns
    -------
    bool (frames,)

    Raises ShapeError for another shape, UsageError for values out of range.
    """
    frames = np.asarray(feats)
    if frames.ndim != 2 or not frames.shape[1]:
        raise ShapeError(f"expected features, (frames, dim), found an array of shape {frames.shape}")
    if not 0.0 < proportion_threshold < 1.0 or frames_context < 0:
        raise UsageError("proportion_threshold must lie between 0 and 1, frames_context not below 0")
    options = VadOptions(energy_threshold, energy_mean_scale, frames_context, proportion_threshold)
    return voiced_frames(frames, options) > 0


def speech_frames(samples: np.ndarray, rate: float) -> np.ndarray:
    """Which frames of 10 ms are voiced, bool (frames,), by :func:`vad` of Kaldi's standard features.

    ``samples``: float32 (samples,) of the range of 16 bits, ``rate`` of them a second.
    """
    return vad(_speech(samples, rate, {}, "mfcc", 1.0))


def xvector(model: str | os.PathLike[str] | Nnet | SpeakerModel, sound: Sounds, rate: float | None = None,
            config: Config | None = None, *, channel: int | None = None) -> NDArray[np.float32]:
    """The vector of a sound's speaker, by an x-vector network.

    Parameters
    ----------
    model : the folder of a speaker model such as vosk-model-spk, or what was read of it; or a network, or its file
    sound, rate, config, channel : as for :func:`features`. A speaker model knows its features, and takes no ``config``

    Returns
    -------
    float32 (dim,), to be compared by the angle. Of a speaker model it is whitened, of length √dim; of a network it is
    the output, of voiced frames less their mean over three seconds. As Kaldi's recipes (sre16) do it.

    Raises Nnet3Error for what is no sound, or a sound without a voiced frame.
    """
    if isinstance(model, str | os.PathLike) and os.path.isdir(model):
        model = SpeakerModel.read(model)
    if isinstance(model, SpeakerModel):
        if config is not None:
            raise UsageError("a speaker model has features of its own, and takes no config")
        samples, rate = read_sound(sound, rate, channel)
        frames = model.features.compute(samples, rate)
        if not len(frames):
            raise Nnet3Error("the sound is shorter than a window")
        return model.vector(frames)
    frames = features(sound, rate, "mfcc", config, channel=channel)
    said = vad(frames) if len(frames) else np.zeros(0, dtype=bool)
    if not said.any():
        raise Nnet3Error("the sound has no voiced frame")
    nnet = model if isinstance(model, Nnet) else read_nnet(os.fspath(model))
    computer = XvectorComputer(nnet, XvectorOptions(min_chunk_size=1))
    return computer.compute(normalize_sliding(frames, _VAD_WINDOW, center=True)[said])


# -- sounds and options ------------------------------------------------------------------------------------------------


def read_sound(sound: Sounds, rate: float | None, channel: int | None = None) -> tuple[np.ndarray, float]:
    """float32 (samples,) of the range of 16 bits, and how many there are a second."""
    if isinstance(sound, str | os.PathLike):
        opened = open_sound(os.fspath(sound), channel)
        blocks = list(opened.blocks())
        return np.concatenate([np.zeros(0, dtype=np.float32), *blocks]) * FULL_SCALE, opened.rate
    if rate is None:
        raise UsageError("samples do not say how many there are a second", "give the rate after them")
    if not 1 <= rate < float("inf"):
        raise UsageError(f"expected a sampling rate above 0, found {rate:g}")
    return samples_of(sound, channel), float(rate)


def _options_of(kind: str) -> dict[str, Any]:
    """The options of a kind, with their defaults."""
    return tables.PITCH if kind in (PITCH, RAW_PITCH) else defaults(conf_settings(kind))


def _values(config: Config | None, kinds: list[str]) -> dict[str, Any]:
    """The options that are given, each one of some kind. UsageError for others."""
    options: dict[str, Any] = {}
    for kind in kinds:
        options |= _options_of(kind)
    if config is None:
        return {}
    if isinstance(config, str | os.PathLike):
        return read_conf(os.fspath(config), options)
    values = {}
    for name, value in config.items():
        key = option_file.normalize(str(name))
        with within("config"):
            values[key] = checked_value(key, _text(value), options)
    return values


def _text(value: Any) -> str:
    return str(bool(value)).lower() if isinstance(value, bool | np.bool_) else str(value)


def _speech(samples: np.ndarray, rate: float, values: dict[str, Any], kind: str, warp: float) -> np.ndarray:
    computer = SpeechFeatures(speech_options(kind, {**values, "allow-downsample": True, "allow-upsample": True}), warp)
    frames = computer.compute(samples, rate)
    return frames if len(frames) else np.zeros((0, computer.dim), dtype=np.float32)


def _pitch(samples: np.ndarray, rate: float, values: dict[str, Any], kind: str) -> np.ndarray:
    options = pitch_options(values)
    if rate != options.sample_frequency:
        samples = resample(samples, int(rate), int(options.sample_frequency))
    raw = compute_pitch(samples, options.sample_frequency, options)
    return raw if kind == RAW_PITCH else process_pitch(raw, process_pitch_options(values))
