"""Features of sound for acoustic models: computing, normalizing, editing and transforming them.

Most functions take and return float32 (frames, dim) arrays; samples are float32 in the range of 16 bits. Most
important: ``SpeechFeatures`` (``speech.py``: MFCC, filterbanks, PLP, spectrograms), ``compute_pitch`` (``pitch.py``)
and ``OnlineNormalizer`` (``cmvn.py``), all of them as sound arrives or for whole sounds. Beside them ``frames.py``
(context, deltas, voice activity), ``transforms.py`` (estimation of LDA and PCA), ``sound.py`` (resampling, rooms,
noise).

This package imports neither ``ops`` nor numba nor networks; ``options.py`` imports no numpy. torchaudio and librosa
compute similar features, but not with Kaldi's rounding, options and edges, on which published models depend.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

from nnet3py.public_names import give_names

if TYPE_CHECKING:
    from nnet3py.feat.cmvn import OnlineNormalizer as OnlineNormalizer
    from nnet3py.feat.cmvn import accumulate_stats as accumulate_stats
    from nnet3py.feat.cmvn import empty_stats as empty_stats
    from nnet3py.feat.cmvn import normalize as normalize
    from nnet3py.feat.cmvn import normalize_sliding as normalize_sliding
    from nnet3py.feat.frames import add_deltas as add_deltas
    from nnet3py.feat.frames import add_shifted_deltas as add_shifted_deltas
    from nnet3py.feat.frames import append_vector as append_vector
    from nnet3py.feat.frames import delta_filters as delta_filters
    from nnet3py.feat.frames import paste as paste
    from nnet3py.feat.frames import select_columns as select_columns
    from nnet3py.feat.frames import shift as shift
    from nnet3py.feat.frames import splice as splice
    from nnet3py.feat.frames import subsample as subsample
    from nnet3py.feat.frames import transform as transform
    from nnet3py.feat.frames import voiced_frames as voiced_frames
    from nnet3py.feat.options import OnlineOptions as OnlineOptions
    from nnet3py.feat.options import RoomOptions as RoomOptions
    from nnet3py.feat.options import VadOptions as VadOptions
    from nnet3py.feat.pitch import compute_pitch as compute_pitch
    from nnet3py.feat.pitch import pitch_options as pitch_options
    from nnet3py.feat.pitch_options import PitchOptions as PitchOptions
    from nnet3py.feat.pitch_options import ProcessPitchOptions as ProcessPitchOptions
    from nnet3py.feat.process_pitch import process_pitch as process_pitch
    from nnet3py.feat.process_pitch import process_pitch_options as process_pitch_options
    from nnet3py.feat.sound import AddedSignal as AddedSignal
    from nnet3py.feat.sound import Resampler as Resampler
    from nnet3py.feat.sound import resample as resample
    from nnet3py.feat.sound import reverberate as reverberate
    from nnet3py.feat.sound import with_speed as with_speed
    from nnet3py.feat.speech import SpeechFeatures as SpeechFeatures
    from nnet3py.feat.speech import SpeechOptions as SpeechOptions
    from nnet3py.feat.speech import speech_options as speech_options

_PUBLIC = {name: f"nnet3py.feat.{module}" for module, names in {
    "speech": "SpeechFeatures speech_options SpeechOptions",
    "pitch": "compute_pitch pitch_options",
    "process_pitch": "process_pitch process_pitch_options",
    "pitch_options": "PitchOptions ProcessPitchOptions",
    "cmvn": "empty_stats accumulate_stats normalize OnlineNormalizer normalize_sliding",
    "frames": "splice delta_filters add_deltas select_columns subsample shift paste append_vector transform "
              "add_shifted_deltas voiced_frames",
    "sound": "resample Resampler with_speed reverberate AddedSignal",
    "options": "OnlineOptions VadOptions RoomOptions",
}.items() for name in names.split()}
give_names(__name__, _PUBLIC, {
    "mfcc fbank plp spectrogram compute_mfcc compute_fbank Mfcc Fbank MfccOptions FbankOptions":
        "nnet3py.features('a.wav', kind='fbank'); in pieces: SpeechFeatures(SpeechOptions(kind='fbank'))",
    "pitch": "compute_pitch(samples, rate)",
    "vad compute_vad": "voiced_frames(feats); of a sound: nnet3py.vad('a.wav')",
    "cmvn apply_cmvn compute_cmvn_stats cmn": "normalize(feats, norm_vars=True)",
    "sliding_cmn": "normalize_sliding(feats)", "deltas delta compute_deltas": "add_deltas(feats)",
    "sdc": "add_shifted_deltas(feats)",
    "splice_frames context": "splice(feats, 4, 4)", "speed_perturb": "with_speed(samples, 1.1)",
})
