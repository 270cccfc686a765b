"""From sound to arrays: features, the input of a model's network, voiced frames, x-vectors."""
from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

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
from nnet3py.option_file import checked_value, normalize, read_conf, text_of
from nnet3py.recognition import options as tables
from nnet3py.recognition.model_folder import ModelFolder, read_model_folder
from nnet3py.recognition.pipeline import FeaturePipeline
from nnet3py.recognition.recognizer import folder_pipeline
from nnet3py.recognition.sound import Block, open_sound, samples_of
from nnet3py.recognition.speaker import SpeakerModel
from nnet3py.runtime.options import XvectorOptions
from nnet3py.runtime.xvectors import XvectorComputer

PITCH, RAW_PITCH = "pitch", "raw-pitch"
KINDS = (*KIND_OPTIONS, PITCH, RAW_PITCH)
_MOST_LONGER = 2               # frames by which the lengths of pitch and other features may differ
_VAD_WINDOW = 300              # frames over which an x-vector's features are normalized

Sounds = str | os.PathLike[str] | Block
Config = str | os.PathLike[str] | Mapping[str, OptionValue]


@arguments_elsewhere(
    sample_rate_or_sr_or_sampling_rate="rate=", options="config=", feature_type_or_type="kind=",
    num_ceps_or_num_mel_bins_or_n_mels_or_n_mfcc_or_num_bins="config={'num-ceps': 40, 'num-mel-bins': 40}",
    dither="config={'dither': 0}")
def features(sound: Sounds, rate: float | None = None, kind: str = "mfcc", config: Config | None = None, *,
             channel: int | None = None, warp: float = 1.0) -> NDArray[np.float32]:
    """Compute features of a sound, as Kaldi's programs ``compute-mfcc-feats`` and others do.

    Parameters
    ----------
    sound : a file of sound; or samples: bytes of 16-bit samples, or an array (samples,) of int16 or of floats from -1
        to 1
    rate : samples a second; None for a file
    kind : ``mfcc``, ``fbank``, ``plp``, ``spectrogram``; ``pitch`` (network input: probability of voicing,
        normalized log pitch, its change), ``raw-pitch`` (NCCF, and pitch in Hz); or two of them with a plus sign:
        ``mfcc+pitch``
    config : options by Kaldi's names, such as ``{"num-ceps": 40}`` (or ``num_ceps``); or a file of options, such as
        conf/mfcc.conf. Each of two kinds takes the options that it has. Defaults are Kaldi's, with dither, always the
        same noise
    channel : number of the channel, from 0; None: the only channel, or the mean of a file's channels
    warp : factor of the frequency axis (VTLN)

    Returns
    -------
    float32 (frames, dim): a frame for each 10 ms, (0, dim) for a sound that is shorter than a window

    Sound of another rate than ``sample-frequency`` (16000 if the options do not say it) is resampled.

    Raises
    ------
    UsageError : an unknown option, or a value out of range
    Nnet3Error : the sound cannot be read
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
    """The input of a network for a sound: ``nnet3py.compute(model, *front_end("a.wav"))``.

    Attributes
    ----------
    features : float32 (frames, dim)
    ivector : float32 (dim,), of the whole sound; None for a network without i-vectors
    """

    features: NDArray[np.float32]
    ivector: NDArray[np.float32] | None


class FrontEnd:
    """A function from sounds to the input of a model's network (:class:`FrontEndOutput`), made by :func:`front_end`.

    Attributes
    ----------
    folder : ModelFolder
    rate : samples a second that the model was trained for; other sound is resampled
    dim, ivector_dim : dimensions of features and i-vectors; ``ivector_dim`` is 0 for a network without i-vectors
    frame_shift : seconds from one frame to the next
    """

    def __init__(self, folder: ModelFolder) -> None:
        self.folder = folder
        self._models = folder_pipeline(folder)
        self.rate = self._models.features.rate
        self.frame_shift = self._models.frame_shift
        self.dim, self.ivector_dim = self._models.input_dim, self._models.ivector_dim

    def __call__(self, sound: Sounds, rate: float | None = None, *, channel: int | None = None) -> FrontEndOutput:
        """Return features, without dither, and the i-vector at the end of a sound; all frames have weight 1.

        Arguments are those of :func:`features`. Raises Nnet3Error if the sound cannot be read.
        Program: compute-online-feats.
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
    """Return a function from sounds to the input of a model's network, as the recognizer computes it.

    Parameters
    ----------
    model : a model folder, as :class:`Recognizer` takes it

    Returns
    -------
    FrontEnd, which called with a sound returns features, float32 (frames, dim), and the i-vector, float32 (dim,) or
    None

    Raises
    ------
    Nnet3Error : files are missing or invalid
    """
    return FrontEnd(read_model_folder(model))


def vad(feats: np.ndarray, *, energy_threshold: float = 5.0, energy_mean_scale: float = 0.5, frames_context: int = 0,
        proportion_threshold: float = 0.6) -> NDArray[np.bool_]:
    """Return which frames are voiced, by their energy. Kaldi: ``compute-vad``.

    Parameters
    ----------
    feats : float (frames, dim), whose first column is the log energy: ``nnet3py.features(sound, rate)``
    energy_threshold, energy_mean_scale : a frame is loud if its log energy exceeds ``energy_threshold`` plus
        ``energy_mean_scale`` times the mean
    frames_context, proportion_threshold : a frame is voiced if this proportion of the frames within this distance is
        loud

    Returns
    -------
    bool (frames,)

    Raises
    ------
    ShapeError : another shape
    UsageError : values out of range
    """
    frames = np.asarray(feats)
    if frames.ndim != 2 or not frames.shape[1]:
        raise ShapeError(f"expected features, (frames, dim), found an array of shape {frames.shape}")
    options = VadOptions(energy_threshold, energy_mean_scale, frames_context, proportion_threshold)
    return voiced_frames(frames, options) > 0


def speech_frames(samples: np.ndarray, rate: float) -> np.ndarray:
    """Return which frames of 10 ms are voiced, bool (frames,), by :func:`vad` of Kaldi's default features.

    ``samples`` are float32 (samples,) of the range of 16 bits, ``rate`` of them a second.
    """
    return vad(_speech(samples, rate, {}, "mfcc", 1.0))


def xvector(model: str | os.PathLike[str] | Nnet | SpeakerModel, sound: Sounds, rate: float | None = None,
            config: Config | None = None, *, channel: int | None = None) -> NDArray[np.float32]:
    """Compute the x-vector of a sound's speaker.

    Parameters
    ----------
    model : SpeakerModel, or its folder, such as vosk-model-spk; or an x-vector network, or its file
    sound, rate, config, channel : as for :func:`features`. A speaker model has options of its own: no ``config``

    Returns
    -------
    float32 (dim,), to be compared by the cosine. The vector of a speaker model is whitened and has the length √dim; a
    network's output is computed from voiced frames without their mean over three seconds, as in Kaldi's recipe sre16

    Raises
    ------
    Nnet3Error : the sound cannot be read, or has no voiced frame
    """
    if isinstance(model, str | os.PathLike) and os.path.isdir(model):
        model = SpeakerModel.read(model)
    if isinstance(model, SpeakerModel):
        if config is not None:
            raise UsageError("a speaker model has feature options of its own", "leave config= out")
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
    """Return samples of the range of 16 bits, float32 (samples,), and their sampling rate."""
    if isinstance(sound, str | os.PathLike):
        opened = open_sound(os.fspath(sound), channel)
        blocks = list(opened.blocks())
        return np.concatenate([np.zeros(0, dtype=np.float32), *blocks]) * FULL_SCALE, opened.rate
    if rate is None:
        raise UsageError("the sampling rate of the samples is not known", "give it after them: rate=16000")
    if not 1 <= rate < float("inf"):
        raise UsageError(f"expected a sampling rate above 0, found {rate:g}")
    return samples_of(sound, channel), float(rate)


def _options_of(kind: str) -> dict[str, Any]:
    """Return the options of a kind of features, with their defaults."""
    return tables.PITCH if kind in (PITCH, RAW_PITCH) else defaults(conf_settings(kind))


def _values(config: Config | None, kinds: list[str]) -> dict[str, Any]:
    """Return options of features, given as a dict or as a file, by name.

    Raises UsageError for options that none of the kinds of features has.
    """
    options: dict[str, Any] = {}
    for kind in kinds:
        options |= _options_of(kind)
    if config is None:
        return {}
    if isinstance(config, str | os.PathLike):
        return read_conf(os.fspath(config), options)
    values = {}
    for name, value in config.items():
        key = normalize(str(name))
        with within("config"):
            values[key] = checked_value(key, text_of(bool(value) if isinstance(value, np.bool_) else value), options)
    return values


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
