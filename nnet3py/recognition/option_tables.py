"""The options that a recognizer knows, by Kaldi's names, with their defaults; and what is made of their values. Light.

Commands have the same options; conf files of model folders are read by the tables of defaults.
"""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nnet3py.compiler.optimize_options import OptimizeOptions
from nnet3py.decoding.options import DecoderOptions
from nnet3py.feat.options import OUTPUT_FORMAT, OnlineOptions, conf_settings
from nnet3py.feat.pitch_options import PitchOptions, ProcessPitchOptions
from nnet3py.ivectors.options import OnlineSettings
from nnet3py.lattices.determinize_options import PhoneDeterminizeOptions
from nnet3py.option_fields import Setting, defaults, settings_of, with_values
from nnet3py.recognition.stream_options import EndpointOptions, SilenceWeightingOptions

_ENDPOINT, _WEIGHTING = "endpoint.", "ivector-silence-weighting."

# What does not change results, or only how Kaldi's memory is managed.
_IDLE: dict[str, Any] = {
    "memory-pool-tokens-block-size": 256, "memory-pool-links-block-size": 256, "determinize-lattice": True,
    "debug-computation": False, "computation.debug": False, "print-args": False, "verbose": 0, "num-threads-startup": 8,
    **defaults(settings_of(OptimizeOptions(), "optimization.")), "optimization.optimize-looped-computation": True}

# Kaldi: NnetSimpleLoopedComputationOptions.
LOOPED_SETTINGS = (
    Setting("extra-left-context-initial", 0, "Copies of the first frame before it, beyond the network's context"),
    Setting("frame-subsampling-factor", 1, "Input frames per output frame"),
    Setting("acoustic-scale", 0.1, "Factor by which the output is multiplied"),
    Setting("frames-per-chunk", 24, "Frames of input computed at once, rounded up to what the network can repeat"))
ENDPOINT_SETTINGS = (
    *settings_of(EndpointOptions, _ENDPOINT),
    *(setting._replace(help=f"Rule {number}, by which an utterance is over: {setting.help}")
      for number, (name, rule) in enumerate(EndpointOptions().rules.items(), 1)
      for setting in settings_of(rule, f"{_ENDPOINT}{name}.")))
CHUNK_LENGTH = Setting("chunk-length", 0.18, "Seconds of sound that are computed at a time")
# Kaldi: OnlineNnet2FeaturePipelineConfig.
PIPELINE_SETTINGS = (
    Setting("feature-type", "mfcc", "mfcc, fbank or plp", ("mfcc", "fbank", "plp")),
    Setting("mfcc-config", "", "Options file of compute-mfcc-feats"),
    Setting("plp-config", "", "Options file of compute-plp-feats"),
    Setting("fbank-config", "", "Options file of compute-fbank-feats"),
    Setting("cmvn-config", "", "Options file of apply-cmvn-online, for normalizing the network's input; may be empty. "
            "Without one, nothing is normalized"),
    Setting("global-cmvn-stats", "", "Normalization statistics of all the training data, for --cmvn-config"),
    Setting("add-pitch", False, "Append pitch features to the network's input; i-vectors do not see them"),
    Setting("online-pitch-config", "", "Options file of compute-and-process-kaldi-pitch-feats, for --add-pitch"),
    Setting("ivector-extraction-config", "", "Options file of ivector-extract-online2, for a network with i-vectors"),
    *settings_of(SilenceWeightingOptions, _WEIGHTING))
PITCH_SETTINGS = (*settings_of(PitchOptions), *settings_of(ProcessPitchOptions))
CMVN_SETTINGS = settings_of(OnlineOptions)
_SPLICE_NAMES = ("left-context", "right-context")
SPLICE_SETTINGS = tuple(setting for setting in settings_of(OnlineSettings) if setting.name in _SPLICE_NAMES)
_IVECTOR_FILES = (
    Setting("lda-matrix", "", "The transform of spliced features"),
    Setting("global-cmvn-stats", "", "Normalization statistics of all the training data"),
    Setting("cmvn-config", "", "Options file for normalizing, as of apply-cmvn-online; may be empty"),
    Setting("splice-config", "", "Options file for splicing, as of splice-feats"),
    Setting("diag-ubm", "", "The mixture of Gaussians"),
    Setting("ivector-extractor", "", "The extractor"))
IVECTOR_FILES = tuple(setting.name for setting in _IVECTOR_FILES)
IVECTOR_SETTINGS = (
    *_IVECTOR_FILES, *(setting for setting in settings_of(OnlineSettings) if setting.name not in _SPLICE_NAMES))

LOOPED, CMVN, SPLICE, IVECTOR, PITCH = map(defaults, (
    LOOPED_SETTINGS, CMVN_SETTINGS, SPLICE_SETTINGS, IVECTOR_SETTINGS, PITCH_SETTINGS))
DECODING: dict[str, Any] = {
    **defaults((*settings_of(DecoderOptions), *settings_of(PhoneDeterminizeOptions), *LOOPED_SETTINGS,
                *ENDPOINT_SETTINGS, CHUNK_LENGTH)), **_IDLE}
RNNLM = Setting("rnnlm", True, "Rescore results with the RNN language model of a model folder that has one")
ONLINE: dict[str, Any] = {**defaults((*PIPELINE_SETTINGS, RNNLM)), **DECODING}


def of_features(kind: str) -> dict[str, Any]:
    """The options of a conf file of features; ``kind`` is ``mfcc``, ``fbank`` or ``plp``."""
    return defaults((*conf_settings(kind), OUTPUT_FORMAT))


def endpoint_options(values: Mapping[str, Any]) -> EndpointOptions:
    """The rules of when an utterance is over, from the options ``endpoint.…``."""
    rules = {name: with_values(rule, values, f"{_ENDPOINT}{name}.") for name, rule in EndpointOptions().rules.items()}
    return with_values(EndpointOptions(rules=rules), values, _ENDPOINT)


def weighting_options(values: Mapping[str, Any]) -> SilenceWeightingOptions:
    """How much silence counts for i-vectors, from the options ``ivector-silence-weighting.…``."""
    return with_values(SilenceWeightingOptions(), values, _WEIGHTING)


def cmvn_options(values: Mapping[str, Any]) -> OnlineOptions:
    """How features are normalized."""
    return with_values(OnlineOptions(), values)
