"""Options of features: for the commands that compute and normalize them, and for conf files of online recognition."""
from __future__ import annotations

from nnet3py.cli.process.options import declared, option
from nnet3py.feat.options import KIND_OPTIONS, OUTPUT_FORMAT, OnlineOptions, conf_settings
from nnet3py.option_fields import settings_of

_WARPING = (
    option("vtln-warp", float, 1.0, "Factor of the frequency axis, where --vtln-map is not given", above=0),
    option("vtln-map", str, "", "Rspecifier of the factors of utterances, or with --utt2spk of speakers"),
    option("utt2spk", str, "", "Rspecifier of the utterance-to-speaker map, for --vtln-map"),
)
_TABLE_OPTIONS = (
    *declared([OUTPUT_FORMAT]),
    option("subtract-mean", bool, False, "Subtract the mean of each utterance"),
    option("channel", int, -1, "Channel to take (0 left, 1 right; -1: there is only one)", least=0),
    option("min-duration", float, 0.0, "Leave out utterances that are shorter, in seconds"),
    option("write-utt2dur", str, "", "Wspecifier for the duration of each utterance, in seconds"),
)

# Options of files that --mfcc-config, --fbank-config or --plp-config name.
FEATURE_OPTIONS = {kind: declared(conf_settings(kind)) for kind in KIND_OPTIONS}
MFCC, FBANK, PLP = ((*FEATURE_OPTIONS[kind], *_WARPING, *_TABLE_OPTIONS) for kind in ("mfcc", "fbank", "plp"))
SPECTROGRAM = (*FEATURE_OPTIONS["spectrogram"], *_TABLE_OPTIONS)
# Options of apply-cmvn-online, and of files that --cmvn-config names.
CMVN = declared(settings_of(OnlineOptions))
