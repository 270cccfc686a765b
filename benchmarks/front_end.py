"""Features of sound, one thread: seconds of processor time for an hour, beside kaldi-native-fbank in the same run.

    python benchmarks/front_end.py [--seconds 600] [--runs 3] [--only mfcc,pitch]

The sound is a voice of changing pitch, with pauses and noise, of 16 kHz. ``stream`` is MFCC in blocks of 100 ms. For
pitch, kaldi-native-fbank (pip install kaldi-native-fbank, 1.23 or newer) has Kaldi's own code. Medians of the runs.
"""
from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[variable] = "1"

import numpy as np  # noqa: E402

from nnet3py.feat.pitch import compute_pitch  # noqa: E402
from nnet3py.feat.pitch_options import PitchOptions  # noqa: E402
from nnet3py.feat.speech import SpeechFeatures, SpeechOptions  # noqa: E402

RATE, HOUR, BLOCK = 16000, 3600.0, 1600
KINDS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "mfcc": ("mfcc", {"num_bins": 40}, {"num_ceps": 40, "use_energy": False}),
    "fbank": ("fbank", {"num_bins": 80}, {}), "plp": ("plp", {}, {}), "spectrogram": ("spectrogram", {}, {})}


def voice(seconds: float) -> np.ndarray:
    """float32 (samples,), of the range of 16 bits."""
    time_ = np.arange(int(seconds * RATE)) / RATE
    phase = np.cumsum(150 + 60 * np.sin(2 * np.pi * 0.3 * time_)) / RATE
    tones = sum(np.sin(2 * np.pi * number * phase) / number for number in range(1, 8))
    noise = np.random.default_rng(0).standard_normal(len(time_))
    return (3000 * tones * (np.sin(2 * np.pi * 0.7 * time_) > -0.5) + 100 * noise).astype(np.float32)


def ours(name: str, sound: np.ndarray) -> Callable[[], object]:
    if name == "pitch":
        return lambda: compute_pitch(sound, RATE, PitchOptions())
    kind, mel, own = KINDS["mfcc" if name == "stream" else name]
    computer = SpeechFeatures(SpeechOptions(kind, {}, mel, own))
    if name != "stream":
        return lambda: computer.compute(sound, RATE)

    def stream() -> None:
        frames = computer.begin()
        for begin in range(0, len(sound), BLOCK):
            frames.accept(sound[begin:begin + BLOCK])
            frames.take()
    return stream


def theirs(name: str, sound: np.ndarray, library: Any) -> Callable[[], object] | None:
    """The same by kaldi-native-fbank; None for what it does not have."""
    if name in ("mfcc", "stream"):
        options = library.MfccOptions()
        options.mel_opts.num_bins = options.num_ceps = 40
        options.use_energy = False
        make = library.OnlineMfcc
    elif name == "fbank":
        options, make = library.FbankOptions(), library.OnlineFbank
        options.mel_opts.num_bins = 80
    elif name == "pitch" and hasattr(library, "OnlinePitch"):
        options, make = library.PitchExtractionOptions(), library.OnlinePitch
    else:
        return None
    if name != "pitch":
        options.frame_opts.dither = 1.0
    size = BLOCK if name == "stream" else len(sound)

    def run() -> None:
        computer = make(options)
        for begin in range(0, len(sound), size):
            computer.accept_waveform(RATE, sound[begin:begin + size].tolist())
        computer.input_finished()
        np.array([computer.get_frame(frame) for frame in range(computer.num_frames_ready)])
    return run


def seconds_of(run: Callable[[], object], runs: int) -> float:
    run()
    taken = []
    for _ in range(runs):
        began = time.process_time()
        run()
        taken.append(time.process_time() - began)
    return statistics.median(taken)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600.0, help="of sound")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", default="mfcc,fbank,plp,spectrogram,stream,pitch")
    args = parser.parse_args()
    try:
        import kaldi_native_fbank as library
    except ImportError:
        library = None
    sound = voice(args.seconds)
    for name in args.only.split(","):
        hour = HOUR / args.seconds * seconds_of(ours(name, sound), args.runs)
        line = f"{name:12} nnet3py {hour:7.2f} s for an hour, {HOUR / hour:6.0f} times real time"
        other = theirs(name, sound, library) if library else None
        if other is not None:
            their_hour = HOUR / args.seconds * seconds_of(other, args.runs)
            line += (f"   kaldi-native-fbank {their_hour:7.2f} s, {HOUR / their_hour:6.0f}; ratio "
                     f"{hour / their_hour:.2f}")
        print(line, flush=True)


if __name__ == "__main__":
    main()
