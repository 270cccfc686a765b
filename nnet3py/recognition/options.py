"""Options of recognition by Kaldi's names, with their defaults: classes, tables for conf files and commands. Light.

Conf files of model folders are read by the tables of defaults; commands have the same options.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from nnet3py.compiler.optimize_options import OptimizeOptions
from nnet3py.decoding.options import DecoderOptions
from nnet3py.errors import UsageError
from nnet3py.feat.options import OUTPUT_FORMAT, OnlineOptions, conf_settings
from nnet3py.feat.pitch_options import PitchOptions, ProcessPitchOptions
from nnet3py.ivectors.options import OnlineSettings
from nnet3py.lattices.determinize_options import PhoneDeterminizeOptions
from nnet3py.option_fields import CheckedOptions, Setting, defaults, opt, options_class, settings_of, with_values

# Factors of the silences after which an utterance is over.
ENDPOINT_MODES = {"default": 1.0, "short": 0.75, "long": 1.5, "very-long": 4.0}


@options_class(frozen=True)
class EndpointRule:
    """A rule by which an utterance is over if all its conditions hold; times are in seconds. Kaldi: EndpointRule.

    ``max_relative_cost`` is the largest allowed difference between the cost of the best path that ends in a final state
    and that of the best path; ``min_utterance_length`` counts from the end of the last utterance.
    """

    must_contain_nonsilence: bool = opt("must-contain-nonsilence", True,
                                        "only if there was something other than silence")
    min_trailing_silence: float = opt("min-trailing-silence", 1.0, "least silence at the end, in seconds")
    max_relative_cost: float = opt("max-relative-cost", float("inf"),
                                   "highest cost of a path that may end here, relative to the best path")
    min_utterance_length: float = opt("min-utterance-length", 0.0, "least length, in seconds")


def _default_rules() -> dict[str, EndpointRule]:
    return {"rule1": EndpointRule(False, 5.0), "rule2": EndpointRule(True, 0.5, 2.0),
            "rule3": EndpointRule(True, 1.0, 8.0), "rule4": EndpointRule(True, 2.0),
            "rule5": EndpointRule(False, 0.0, float("inf"), 20.0)}


@options_class(frozen=True)
class EndpointOptions:
    """Rules of when an utterance is over: the first rule that holds ends it. Kaldi: OnlineEndpointConfig.

    Attributes
    ----------
    silence_phones : phones that are silence, integers of phones.txt; empty: nothing is silence
    rules : EndpointRule by name, in the order in which they are tried
    """

    silence_phones: Sequence[int] = opt("silence-phones", (), "Phones (numbers, with colons) that are silence")
    rules: dict[str, EndpointRule] = field(default_factory=_default_rules)

    def with_mode(self, mode: str) -> EndpointOptions:
        """Return options whose rules 2 to 4 wait for shorter or longer silence by ``mode``, one of ``ENDPOINT_MODES``.

        Raises UsageError for another mode. vosk: SetEndpointerMode.
        """
        if mode not in ENDPOINT_MODES:
            raise UsageError(f"expected an endpoint mode, {', '.join(ENDPOINT_MODES)}, found {mode!r}")
        return replace(self, rules={
            name: replace(rule, min_trailing_silence=rule.min_trailing_silence * (
                ENDPOINT_MODES[mode] if name in ("rule2", "rule3", "rule4") else 1.0))
            for name, rule in self.rules.items()})

    def with_delays(self, start: float, end: float, longest: float) -> EndpointOptions:
        """Return options with other times, in seconds.

        ``start`` is the silence that ends an utterance without words, ``end`` the silence after words, ``longest`` the
        length at which any utterance ends.

        vosk: SetEndpointerDelays.
        """
        silences = {"rule1": start, "rule2": end, "rule3": end + 0.5, "rule4": end + 1.0}
        rules = {name: replace(rule, min_trailing_silence=silences.get(name, rule.min_trailing_silence))
                 for name, rule in self.rules.items()}
        return replace(self, rules={**rules, "rule5": replace(rules["rule5"], min_utterance_length=longest)})


@options_class(frozen=True)
class SilenceWeightingOptions:
    """Weights of frames of silence for i-vectors; other frames have weight 1. Kaldi: OnlineSilenceWeightingConfig.

    A frame is silence if its phone is a silence phone. With ``max_state_duration`` above 0, that many or more frames in
    a row with the same transition-id count as silence, too.
    """

    silence_phones: Sequence[int] = opt("silence-phones", (), "Phones (numbers, with colons) whose frames count less "
                                        "for i-vectors")
    silence_weight: float = opt("silence-weight", 1.0, "What these count, such as 0.001")
    max_state_duration: float = opt("max-state-duration", -1.0, "Frames with the same transition-id in a row that "
                                    "count as silence, if they are that many (-1: never)")

    @property
    def is_active(self) -> bool:
        """True if some frames have another weight than 1."""
        return len(self.silence_phones) > 0 and self.silence_weight != 1.0


@options_class(frozen=True)
class DiarizationOptions(CheckedOptions):
    """Options of diarization.

    Attributes
    ----------
    threshold : smallest similarity at which clusters of vectors are merged into one speaker: a cosine (None: 0.5), or
        with PLDA a log-likelihood ratio (None: 0)
    max_pause : seconds; shorter pauses do not end a turn
    min_speech : seconds; shorter speech is passed over
    """

    window: float = opt("window", 1.5, "Seconds of speech of one vector", least=0.1, most=60)
    shift: float = opt("shift", 0.75, "Seconds from one vector to the next", above=0)
    threshold: float | None = opt("threshold", None, "How alike pieces of one speaker are at least: a cosine, or a "
                                  "log-likelihood ratio by PLDA; empty: 0.5, or 0 by PLDA")
    num_speakers: int = opt("num-speakers", 0, "How many speakers there are; 0: as many as the threshold gives",
                            least=0)
    max_pause: float = opt("max-pause", 0.3, "Longest pause within speech, in seconds", least=0)
    min_speech: float = opt("min-speech", 0.2, "Shortest speech, in seconds", least=0)

    def check(self) -> None:
        """Raise UsageError for values out of range."""
        super().check()
        if self.shift > self.window:
            raise UsageError(f"--shift={self.shift:g}: expected at most --window, {self.window:g} s")


_ENDPOINT, _WEIGHTING = "endpoint.", "ivector-silence-weighting."

# Options without effect on results, such as those of Kaldi's memory management.
_IDLE: dict[str, Any] = {
    "memory-pool-tokens-block-size": 256, "memory-pool-links-block-size": 256, "determinize-lattice": True,
    "debug-computation": False, "computation.debug": False, "print-args": False, "verbose": 0, "num-threads-startup": 8,
    **defaults(settings_of(OptimizeOptions(), "optimization.")), "optimization.optimize-looped-computation": True}

# Kaldi: NnetSimpleLoopedComputationOptions.
LOOPED_SETTINGS = (
    Setting("extra-left-context-initial", 0, "Copies of the first frame before it, beyond the network's context",
            limits={"least": 0}),
    Setting("frame-subsampling-factor", 1, "Input frames per output frame", limits={"least": 1}),
    Setting("acoustic-scale", 0.1, "Factor by which the output is multiplied", limits={"above": 0}),
    Setting("frames-per-chunk", 24, "Frames of input computed at once, rounded up to what the network can repeat",
            limits={"least": 1}))
ENDPOINT_SETTINGS = (
    *settings_of(EndpointOptions, _ENDPOINT),
    *(setting._replace(help=f"Rule {number}, by which an utterance is over: {setting.help}")
      for number, (name, rule) in enumerate(EndpointOptions().rules.items(), 1)
      for setting in settings_of(rule, f"{_ENDPOINT}{name}.")))
CHUNK_LENGTH = Setting("chunk-length", 0.18, "Seconds of sound that are computed at a time",
                       limits={"below": float("inf")})
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
    """Return names and defaults of the options in a conf file of features, such as mfcc.conf.

    ``kind`` is ``mfcc``, ``fbank`` or ``plp``.
    """
    return defaults((*conf_settings(kind), OUTPUT_FORMAT))


def endpoint_options(values: Mapping[str, Any]) -> EndpointOptions:
    """Return the rules of when an utterance is over, from the options ``endpoint.…``."""
    rules = {name: with_values(rule, values, f"{_ENDPOINT}{name}.") for name, rule in EndpointOptions().rules.items()}
    return with_values(EndpointOptions(rules=rules), values, _ENDPOINT)


def weighting_options(values: Mapping[str, Any]) -> SilenceWeightingOptions:
    """Return the weights of silence for i-vectors, from the options ``ivector-silence-weighting.…``."""
    return with_values(SilenceWeightingOptions(), values, _WEIGHTING)


def cmvn_options(values: Mapping[str, Any]) -> OnlineOptions:
    """Return the options of normalizing features, from options by Kaldi's names."""
    return with_values(OnlineOptions(), values)
