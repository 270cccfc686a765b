"""The options that a recogniser knows, by Kaldi's names, with their defaults; and what is made of their values."""
from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar

from nnet3py.decoding.lattice_decoder import DecoderOptions
from nnet3py.features.cmvn import OnlineOptions
from nnet3py.features.speech import FRAME_OPTIONS, KIND_OPTIONS, MEL_OPTIONS
from nnet3py.lattices.phone_determinize import PhoneDeterminizeOptions
from nnet3py.recognition.conf_file import integers
from nnet3py.recognition.endpoint import EndpointOptions, EndpointRule
from nnet3py.recognition.silence_weighting import SilenceWeightingOptions

T = TypeVar("T")

_ENDPOINT, _WEIGHTING = "endpoint.", "ivector-silence-weighting."

# What does not change results, or only how Kaldi's memory is managed.
_IDLE: dict[str, Any] = {
    "memory-pool-tokens-block-size": 256, "memory-pool-links-block-size": 256, "determinize-lattice": True,
    "debug-computation": False, "computation.debug": False, "print-args": False, "verbose": 0, "num-threads-startup": 8,
    **{f"optimization.{name}": True for name in (
        "optimize", "consolidate-model-update", "propagate-in-place", "backprop-in-place", "extend-matrices",
        "optimize-row-ops", "split-row-ops", "convert-addition", "remove-assignments", "allow-left-merge",
        "allow-right-merge", "initialize-undefined", "move-sizing-commands", "allocate-from-other", "snip-row-ops",
        "optimize-looped-computation")},
    **{f"optimization.{name}": 0 for name in ("min-deriv-time", "max-deriv-time", "max-deriv-time-relative",
                                              "memory-compression-level")}}


def _of_fields(options: Any, prefix: str = "") -> dict[str, Any]:
    """The fields of a dataclass as options."""
    return {prefix + field.name.replace("_", "-"): getattr(options, field.name) for field in dataclasses.fields(options)
            if isinstance(getattr(options, field.name), bool | int | float | str)}


LOOPED: dict[str, Any] = {"extra-left-context-initial": 0, "frame-subsampling-factor": 1, "acoustic-scale": 0.1,
                          "frames-per-chunk": 24}
ENDPOINT: dict[str, Any] = {
    f"{_ENDPOINT}silence-phones": "",
    **{name: value for rule, settings in EndpointOptions().rules.items()
       for name, value in _of_fields(settings, f"{_ENDPOINT}{rule}.").items()}}
DECODING: dict[str, Any] = {**_of_fields(DecoderOptions()), **_of_fields(PhoneDeterminizeOptions()), **LOOPED,
                            **ENDPOINT, "chunk-length": 0.18, **_IDLE}
PIPELINE: dict[str, Any] = {
    "feature-type": "mfcc", "mfcc-config": "", "fbank-config": "", "plp-config": "", "cmvn-config": "",
    "global-cmvn-stats": "", "add-pitch": False, "online-pitch-config": "", "ivector-extraction-config": "",
    f"{_WEIGHTING}silence-phones": "", **_of_fields(SilenceWeightingOptions(), _WEIGHTING)}
ONLINE: dict[str, Any] = {**PIPELINE, **DECODING}

_CMVN_NAMES = [field.name for field in dataclasses.fields(OnlineOptions) if field.name != "skip_dims"]
CMVN: dict[str, Any] = {**{name.replace("_", "-"): getattr(OnlineOptions(), name) for name in _CMVN_NAMES},
                        "skip-dims": ""}
SPLICE: dict[str, Any] = {"left-context": 4, "right-context": 4}
IVECTOR_FILES = ("lda-matrix", "global-cmvn-stats", "cmvn-config", "splice-config", "diag-ubm", "ivector-extractor")
IVECTOR: dict[str, Any] = {
    **dict.fromkeys(IVECTOR_FILES, ""), "online-cmvn-iextractor": False, "ivector-period": 10, "num-gselect": 5,
    "min-post": 0.025, "posterior-scale": 0.1, "max-count": 0.0, "use-most-recent-ivector": True,
    "greedy-ivector-extractor": False, "max-remembered-frames": 1000.0}


def of_features(kind: str) -> dict[str, Any]:
    """The options of a conf file of features; ``kind`` is ``mfcc`` or ``fbank``."""
    return {**{name: default for names in (FRAME_OPTIONS, MEL_OPTIONS, KIND_OPTIONS[kind])
               for name, (_, default) in names.items()},
            "allow-downsample": False, "allow-upsample": False, "max-feature-vectors": -1, "vtln-low": 100.0,
            "vtln-high": -500.0, "output-format": "kaldi"}


def made_of(kind: type[T], values: Mapping[str, Any], prefix: str = "") -> T:
    """An object of a dataclass, with those of the values that it has fields for."""
    names = {prefix + field.name.replace("_", "-"): field.name
             for field in dataclasses.fields(kind)}                     # type: ignore[arg-type]
    return kind(**{field: values[name] for name, field in names.items() if name in values})


def endpoint_options(values: Mapping[str, Any]) -> EndpointOptions:
    """When an utterance is over, by the options ``endpoint.…``."""
    name = f"{_ENDPOINT}silence-phones"
    rules = {rule: dataclasses.replace(settings, **{
        field.name: values[option] for field in dataclasses.fields(EndpointRule)
        if (option := f"{_ENDPOINT}{rule}.{field.name.replace('_', '-')}") in values})
        for rule, settings in EndpointOptions().rules.items()}
    return EndpointOptions(integers(values.get(name, ""), name), rules)


def weighting_options(values: Mapping[str, Any]) -> SilenceWeightingOptions:
    """What silence counts for i-vectors, by the options ``ivector-silence-weighting.…``."""
    name = f"{_WEIGHTING}silence-phones"
    without = {option: value for option, value in values.items() if option != name}
    return dataclasses.replace(made_of(SilenceWeightingOptions, without, _WEIGHTING),
                               silence_phones=integers(values.get(name, ""), name))


def cmvn_options(values: Mapping[str, Any]) -> OnlineOptions:
    """How features are normalised."""
    without = {option: value for option, value in values.items() if option != "skip-dims"}
    return dataclasses.replace(made_of(OnlineOptions, without),
                               skip_dims=integers(values.get("skip-dims", ""), "skip-dims"))
