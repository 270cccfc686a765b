#!/usr/bin/env python3
"""Count word errors of clean recordings, and of the same after codecs, in noise and in rooms: a table.

    local/test_conditions.py --data exp/conditions/synthetic MODEL_FOLDER [MODEL_FOLDER ...]

local/make_condition_test.py makes such recordings. Each is recognized as a whole. Needs the packages av and soundfile.
"""
from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from nnet3py import Recognizer
from nnet3py.decoding.word_errors import edit_distance
from nnet3py.formats.foreign_files import FULL_SCALE, WAVE
from nnet3py.io.tables import SequentialReader

sys.path.append(str(Path(__file__).resolve().parents[2] / "utils"))
from sound_conditions import gsm, mp3, mu_law, noisy, opus, reverberant  # noqa: E402
from synthetic_speech import RATE  # noqa: E402

CONDITIONS: dict[str, Callable[[np.ndarray, np.random.Generator], np.ndarray]] = {
    "as it is": lambda sound, rng: sound,
    "MP3, 64 kbit/s, 44.1 kHz": lambda sound, rng: mp3(sound, 64, 44100),
    "MP3, 32 kbit/s": lambda sound, rng: mp3(sound, 32),
    "MP3, 16 kbit/s": lambda sound, rng: mp3(sound, 16),
    "Opus, 24 kbit/s": lambda sound, rng: opus(sound, 24),
    "Opus, 8 kbit/s": lambda sound, rng: opus(sound, 8),
    "GSM 06.10, 8 kHz": lambda sound, rng: gsm(sound),
    "mu-law, 8 kHz": lambda sound, rng: mu_law(sound),
    "noise, 20 dB below": lambda sound, rng: noisy(sound, 20.0, rng),
    "noise, 10 dB below": lambda sound, rng: noisy(sound, 10.0, rng),
    "a room": reverberant,
}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", help="model folders")
    parser.add_argument("--data", type=Path, required=True, help="data directory of clean recordings, at 16 kHz")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    texts = {key: words for key, *words in map(str.split, (args.data / "text").read_text().splitlines())}
    with SequentialReader(f"scp:{args.data}/wav.scp", WAVE) as reader:
        sounds = {key: np.asarray(wave.samples[0], np.float32) for key, wave in reader}
    recognizers = [Recognizer(model) for model in args.models]
    total = sum(map(len, texts.values()))
    print(f"| errors in {total} words of {len(texts)} recordings | {' | '.join(args.models)} |")
    print("|---" * (1 + len(args.models)) + "|")
    for name, condition in CONDITIONS.items():
        rng, errors = np.random.default_rng(args.seed), [0] * len(recognizers)
        for key, sound in sounds.items():
            made = condition(sound, rng) / FULL_SCALE
            for number, recognizer in enumerate(recognizers):
                errors[number] += edit_distance(texts[key], recognizer.transcribe(made, RATE).text.split()).total
        print(f"| {name} | {' | '.join(f'{count} ({100 * count / total:.1f} %)' for count in errors)} |", flush=True)


if __name__ == "__main__":
    main()
