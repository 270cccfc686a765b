"""The options of features: of the commands that compute and normalise them, and of files that a recogniser names."""
from __future__ import annotations

from nnet3py.cli.options import declared, option
from nnet3py.features.cmvn_options import OnlineOptions
from nnet3py.features.speech_options import KIND_OPTIONS, OUTPUT_FORMAT, conf_settings
from nnet3py.option_fields import settings_of

_OF_TABLES = (
    *declared([OUTPUT_FORMAT]),
    option("subtract-mean", bool, False, "Subtract the mean of each utterance"),
    option("vtln-warp", float, 1.0, "Only 1, no warping, can be computed"),
    option("vtln-map", str, "", "Rspecifier of the warp factors of utterances or speakers; only 1 can be computed"),
    option("utt2spk", str, "", "Rspecifier of the utterance-to-speaker map, for --vtln-map"),
    option("channel", int, -1, "Channel to take (0 left, 1 right; -1: there is only one)"),
    option("min-duration", float, 0.0, "Leave out utterances that are shorter, in seconds"),
    option("write-utt2dur", str, "", "Wspecifier for the duration of each utterance, in seconds"),
)

# Options in a file that --mfcc-config or --fbank-config names.
FEATURE_OPTIONS = {kind: declared(conf_settings(kind)) for kind in KIND_OPTIONS}
MFCC, FBANK = ((*FEATURE_OPTIONS[kind], *_OF_TABLES) for kind in ("mfcc", "fbank"))
# Options of apply-cmvn-online, and in a file that --cmvn-config names.
CMVN = declared(settings_of(OnlineOptions))
