#!/usr/bin/env python3
"""Make spoken digit strings like those of data/, with espeak-ng: features, alignments, words and speakers.

    local/make_data.py --out data/more --num-speakers 20 --utts-per-speaker 8

Needs the library libespeak-ng (Debian: libespeak-ng1 and espeak-ng-data). The features are 40-dimensional MFCCs with
the settings of conf/mfcc.conf (Davis and Mermelstein, 1980; parameters as in Kaldi); the label of a frame is the
phoneme that sounds at the middle of its window, from the synthesizer's own phoneme events.
"""
from __future__ import annotations

import argparse
import ctypes
import ctypes.util
import sys
from pathlib import Path

import numpy as np
from scipy.signal import resample_poly

ACCENTS = {   # name -> espeak-ng's voice
    "en-029": "gmw/en-029", "en-gb": "gmw/en", "en-gb-scotland": "gmw/en-GB-scotland",
    "en-gb-x-gbclan": "gmw/en-GB-x-gbclan", "en-gb-x-rp": "gmw/en-GB-x-rp", "en-us": "gmw/en-US"}
VARIANTS = ("adam", "antonio", "belinda", "ed", "f1", "f2", "f3", "f4", "f5", "grandpa", "linda", "m1", "m2", "m3",
            "m4", "m5", "m6", "m7", "m8", "max", "miguel", "norbert", "pablo", "paul")
DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
SAMPLE_RATE, WINDOW, SHIFT, NUM_FFT = 16000, 400, 160, 512
NUM_BINS, NUM_CEPS, LOW_FREQ, HIGH_FREQ = 40, 40, 20.0, 7600.0
PREEMPHASIS, LIFTER = 0.97, 22.0


class Event(ctypes.Structure):
    """espeak_EVENT of speak_lib.h."""

    _fields_ = [("type", ctypes.c_int), ("unique_identifier", ctypes.c_uint), ("text_position", ctypes.c_int),
                ("length", ctypes.c_int), ("audio_position", ctypes.c_int), ("sample", ctypes.c_int),
                ("user_data", ctypes.c_void_p), ("string", ctypes.c_char * 8)]


class Synthesizer:
    """espeak-ng, giving samples and the times at which phonemes begin."""

    END, PHONEME = 0, 7
    RATE, VOLUME, PITCH = 1, 2, 3

    def __init__(self) -> None:
        name = ctypes.util.find_library("espeak-ng")
        if name is None:
            sys.exit("make_data.py: the library libespeak-ng is not installed (Debian: apt-get install libespeak-ng1)")
        self.library = ctypes.CDLL(name)
        synchronous, phoneme_events = 2, 1
        self.sample_rate = self.library.espeak_Initialize(synchronous, 0, None, phoneme_events)
        if self.sample_rate <= 0:
            sys.exit("make_data.py: espeak-ng could not be initialized (is espeak-ng-data installed?)")
        samples, events = ctypes.POINTER(ctypes.c_short), ctypes.POINTER(Event)
        callback_type = ctypes.CFUNCTYPE(ctypes.c_int, samples, ctypes.c_int, events)
        self.callback = callback_type(self._receive)   # kept alive as long as the library may call it
        self.library.espeak_SetSynthCallback(self.callback)

    def _receive(self, samples, count: int, events) -> int:  # type: ignore[no-untyped-def]
        if samples and count > 0:
            self.samples.append(np.ctypeslib.as_array(samples, (count,)).copy())
        i = 0
        while events[i].type != self.END:
            if events[i].type == self.PHONEME:
                self.phonemes.append((events[i].audio_position, events[i].string.decode("ascii", "replace")))
            i += 1
        return 0

    def say(self, text: str, voice: str, rate: int, pitch: int,
            volume: int) -> tuple[np.ndarray, list[tuple[int, str]]]:
        """Float samples at 16 kHz, and (milliseconds, phoneme) events."""
        self.samples: list[np.ndarray] = []
        self.phonemes: list[tuple[int, str]] = []
        if self.library.espeak_SetVoiceByName(voice.encode()) != 0:
            sys.exit(f"make_data.py: espeak-ng has no voice {voice}")
        for parameter, value in ((self.RATE, rate), (self.PITCH, pitch), (self.VOLUME, volume)):
            self.library.espeak_SetParameter(parameter, value, 0)
        data = text.encode() + b"\0"
        utf8 = 1
        self.library.espeak_Synth(data, len(data), 0, 0, 0, utf8, None, None)
        self.library.espeak_Synchronize()
        common = np.gcd(SAMPLE_RATE, self.sample_rate)
        return resample_poly(np.concatenate(self.samples).astype(np.float64), SAMPLE_RATE // common,
                             self.sample_rate // common), self.phonemes


def mel(frequency: np.ndarray) -> np.ndarray:
    """Hertz -> mel."""
    return 1127.0 * np.log1p(frequency / 700.0)


def mel_filters() -> np.ndarray:
    """Triangles on the mel scale: float64 (bins, NUM_FFT / 2 + 1)."""
    edges = np.linspace(mel(np.array(LOW_FREQ)), mel(np.array(HIGH_FREQ)), NUM_BINS + 2)
    points = mel(np.arange(NUM_FFT // 2 + 1) * SAMPLE_RATE / NUM_FFT)
    left, center, right = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    return np.maximum(0.0, np.minimum((points - left) / (center - left), (right - points) / (right - center)))


def mfcc(samples: np.ndarray) -> np.ndarray:
    """float32 (frames, NUM_CEPS); only windows that lie wholly inside the samples."""
    windows = np.lib.stride_tricks.sliding_window_view(samples, WINDOW)[::SHIFT]
    windows = windows - windows.mean(axis=1, keepdims=True)
    windows = windows - PREEMPHASIS * np.concatenate([windows[:, :1], windows[:, :-1]], axis=1)
    povey = (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(WINDOW) / (WINDOW - 1))) ** 0.85
    power = np.abs(np.fft.rfft(windows * povey, NUM_FFT)) ** 2
    log_energies = np.log(np.maximum(power @ mel_filters().T, np.finfo(np.float32).eps))
    k, n = np.arange(NUM_CEPS)[:, None], np.arange(NUM_BINS)
    dct = np.sqrt(2.0 / NUM_BINS) * np.cos(np.pi / NUM_BINS * (n + 0.5) * k)
    dct[0] = np.sqrt(1.0 / NUM_BINS)
    lifter = 1.0 + 0.5 * LIFTER * np.sin(np.pi * np.arange(NUM_CEPS) / LIFTER)
    return (log_energies @ dct.T * lifter).astype(np.float32)


def frame_labels(num_frames: int, phonemes: list[tuple[int, str]], phone_ids: dict[str, int]) -> np.ndarray:
    """int32 (frames,): the phone at the middle of each frame's window.

    Raises KeyError for a phoneme that phones.txt does not have.
    """
    starts = np.array([time for time, _ in phonemes])
    names = [name.strip("'_,:!|%=") if name not in phone_ids else name for _, name in phonemes]
    ids = np.array([phone_ids[name] if name else phone_ids["SIL"] for name in names])
    middles = (np.arange(num_frames) * SHIFT + WINDOW / 2) * 1000.0 / SAMPLE_RATE
    position = np.searchsorted(starts, middles, side="right") - 1
    return np.where(position >= 0, ids[np.maximum(position, 0)], phone_ids["SIL"]).astype(np.int32)


def main() -> None:
    """Make the data folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder to make")
    parser.add_argument("--num-speakers", type=int, default=20, help=f"at most {len(ACCENTS) * len(VARIANTS)}")
    parser.add_argument("--utts-per-speaker", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--phones", type=Path, default=Path(__file__).parents[1] / "data" / "phones.txt")
    args = parser.parse_args()

    from nnet3py.formats.compressed import CompressedMatrix
    from nnet3py.formats.holders import GENERAL_MATRIX
    from nnet3py.io.tables import TableWriter

    phone_lines = (line.rsplit(None, 1) for line in args.phones.read_text().splitlines())
    phone_ids = {name: int(number) for name, number in phone_lines}
    rng = np.random.default_rng(args.seed)
    speakers = [f"{accent}-{variant}" for accent in ACCENTS for variant in VARIANTS]
    chosen = sorted(rng.choice(len(speakers), size=min(args.num_speakers, len(speakers)), replace=False))
    synthesizer = Synthesizer()
    args.out.mkdir(parents=True, exist_ok=True)
    num_skipped = 0
    with TableWriter(f"ark:{args.out}/feats.ark", GENERAL_MATRIX) as feats, \
            open(args.out / "ali.txt", "w") as alignments, \
            open(args.out / "text", "w") as text, open(args.out / "utt2spk", "w") as utt2spk, \
            open(args.out / "utt2num_frames", "w") as lengths:
        for s in chosen:
            accent, variant = list(ACCENTS.values())[s // len(VARIANTS)], VARIANTS[s % len(VARIANTS)]
            for u in range(args.utts_per_speaker):
                key = f"{speakers[s]}-{u:02d}"
                words = " ".join(rng.choice(DIGITS, size=rng.integers(3, 8)))
                samples, phonemes = synthesizer.say(words, f"{accent}+{variant}", int(rng.integers(140, 200)),
                                                    int(rng.integers(30, 70)), int(rng.integers(60, 110)))
                features = mfcc(samples)
                try:
                    labels = frame_labels(len(features), phonemes, phone_ids)
                except KeyError as unknown:
                    print(f"make_data.py: skipping {key}: phoneme {unknown} is not in {args.phones}", file=sys.stderr)
                    num_skipped += 1
                    continue
                feats.write(key, CompressedMatrix.compress(features))
                print(key, *labels, file=alignments)
                print(key, words, file=text)
                print(key, speakers[s], file=utt2spk)
                print(key, len(features), file=lengths)
    print(f"make_data.py: made {args.out} with {len(chosen)} speakers; {num_skipped} utterances skipped")


if __name__ == "__main__":
    main()
