"""Kaldi's features of one utterance, with the options they were made with."""
from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from io_samples import read_table

from nnet3py.formats.foreign_files import WAVE
from nnet3py.formats.holders import FLOAT_MATRIX
from nnet3py.io.tables import SequentialReader

DATA = Path(__file__).parent / "data" / "features"
TOLERANCE = 5e-4          # of the largest value: rounding of single precision, on other machines
PLP: dict[str, dict[str, Any]] = {
    "plp-default": {},
    "plp-options": {"num-ceps": 10, "lpc-order": 9, "num-mel-bins": 20, "compress-factor": 0.25, "cepstral-lifter": 0.0,
                    "use-energy": False, "htk-compat": True},
    "plp-energy": {"raw-energy": False, "energy-floor": 1.0, "cepstral-scale": 2.0, "preemphasis-coefficient": 0.9,
                   "window-type": "hamming"},
}
WARP = 1.2                # of plp-vtln and fbank-vtln
PITCH: dict[str, dict[str, Any]] = {
    "pitch-default": {},
    "pitch-filters": {"lowpass-filter-width": 2, "upsample-filter-width": 4, "frame-length": 30.0, "frame-shift": 12.0,
                      "preemphasis-coefficient": 0.5},
    "pitch-first-pass": {"frames-per-chunk": 10, "simulate-first-pass-online": True},
    "pitch-latency": {"frames-per-chunk": 10, "simulate-first-pass-online": True, "max-frames-latency": 30,
                      "recompute-frame": 50},
    "pitch-no-snip": {"snip-edges": False},
}
PROCESSED = {"delta-pitch-noise-stddev": 0.0, "pitch-scale": 3.0, "pov-scale": 1.5, "pov-offset": 0.3,
             "delta-pitch-scale": 5.0, "normalization-left-context": 20, "normalization-right-context": 10,
             "delta-window": 3}                                    # of process-scales, which was made of pitch-default
ONLINE = {"delta-pitch-noise-stddev": 0.0, "frames-per-chunk": 10, "simulate-first-pass-online": True,
          "normalization-right-context": 25, "add-raw-log-pitch": True, "add-normalized-log-pitch": False}


@cache
def sound() -> tuple[np.ndarray, float]:
    """float32 (samples,), of the range of 16 bits, and their rate."""
    with SequentialReader(f"scp:echo utt2 {DATA}/utt2.wav |", WAVE) as reader:
        for _, wave in reader:
            return wave.samples[0], wave.rate
    raise AssertionError


@cache
def kaldis(name: str) -> np.ndarray:
    """float32 (frames, dim)."""
    return read_table(f"ark:{DATA}/{name}.ark", FLOAT_MATRIX)["utt2"]


def assert_near(found: np.ndarray, expected: np.ndarray) -> None:
    assert found.dtype == np.float32 and found.shape == expected.shape
    assert np.abs(found - expected).max() <= TOLERANCE * np.abs(expected).max()
