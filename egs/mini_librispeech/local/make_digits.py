#!/usr/bin/env python3
"""Make spoken digits with espeak-ng, noises and rooms: training data, and test data with and without noise.

    local/make_digits.py --out corpus

Writes train/, clean/ and noisy/ as Kaldi's data directories, lexicon.txt, lm.txt, and the lists noises.scp and rirs.scp
of what local/augment.py may take. noisy/ has the sentences of clean/, of two voices that train/ does not have, in rooms
and noise that are not in these lists. The same --seed makes the same sentences, noises and rooms.
"""
from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[2] / "utils"))
from synthetic_speech import (  # noqa: E402
    RATE,
    espeak,
    impulse_response,
    need_program,
    noise,
    phones,
    read_sound,
    write_data,
)

WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "oh")
VOICES = ("en-us", "en-us+m3", "en-us+f2", "en-us+m7", "en-us+f5", "en-us+m1", "en-us+f3", "en-us+m4", "en-us+f4",
          "en-us+m6")
NUM_TEST_VOICES = 2
SPEED, PITCH, LENGTH = (130, 190), (30, 70), (2, 6)      # words a minute; espeak-ng's scale; digits of a sentence
PAUSE, HISS_DB = (0.1, 0.3), (-50.0, -40.0)              # seconds at either end; noise below the loudest sample
NOISE_SECONDS, NOISY_DB = 12, (3.0, 15.0)
LOUDNESS = 0.5


def spoken(voice: str, words: list[str], scratch: Path, rng: np.random.Generator) -> np.ndarray:
    """float32 (samples,): a sentence, with pauses around it and next to no noise."""
    espeak("-v", voice, "-s", str(rng.integers(*SPEED)), "-p", str(rng.integers(*PITCH)), "-w", str(scratch),
           text=" ".join(words))
    sound = read_sound(scratch)
    pauses = [np.zeros(int(rng.uniform(*PAUSE) * RATE), np.float32) for _ in range(2)]
    sound = np.concatenate((pauses[0], sound, pauses[1]))
    largest = np.abs(sound).max()
    sound = sound + largest * 10 ** (rng.uniform(*HISS_DB) / 20) * rng.standard_normal(len(sound))
    return (sound * (LOUDNESS * 32767 / largest)).astype(np.float32)


def in_noise(sound: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A sentence in a room, with noise."""
    from scipy.signal import fftconvolve

    echoing = fftconvolve(sound, impulse_response(rng))[:len(sound)]
    power = np.sqrt(np.mean(np.square(echoing)))
    result = echoing + power * 10 ** (-rng.uniform(*NOISY_DB) / 20) * noise(len(sound), sound, rng)
    return (result * (LOUDNESS * 32767 / np.abs(result).max())).astype(np.float32)


def sentences(part: str, voices: tuple[str, ...], count: int, scratch: Path,
              rng: np.random.Generator) -> Iterator[tuple[str, str, str, np.ndarray]]:
    """Key, speaker, words and sound of each."""
    for number in range(count):
        which = number * len(voices) // count
        words = [str(word) for word in rng.choice(WORDS, rng.integers(*LENGTH, endpoint=True))]
        speaker = f"{part}{which:02d}"
        yield f"{speaker}-{number:04d}", speaker, " ".join(words), spoken(voices[which], words, scratch, rng)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--num-train", type=int, default=600)
    parser.add_argument("--num-test", type=int, default=120)
    parser.add_argument("--num-noises", type=int, default=20, help="and as many rooms")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    need_program("espeak-ng")
    out, rng = args.out, np.random.default_rng(args.seed)
    out.mkdir(parents=True, exist_ok=True)
    scratch = out / "scratch.wav"
    train = list(sentences("train", VOICES[:-NUM_TEST_VOICES], args.num_train, scratch, rng))
    clean = list(sentences("test", VOICES[-NUM_TEST_VOICES:], args.num_test, scratch, rng))
    scratch.unlink()
    write_data(out / "train", train)
    write_data(out / "clean", clean)
    write_data(out / "noisy", [(*rest, in_noise(sound, rng)) for *rest, sound in clean])
    said = dict(zip(WORDS, phones(list(WORDS)), strict=True))
    (out / "lexicon.txt").write_text("".join(f"{word} {' '.join(said[word][0])}\n" for word in WORDS))
    (out / "lm.txt").write_text("".join(f"{words}\n" for _, _, words, _ in train))
    other = np.concatenate([sound for *_, sound in train[::20]])
    makers = {"noises": lambda: 0.1 * noise(NOISE_SECONDS * RATE, other, rng),
              "rirs": lambda: 0.5 * impulse_response(rng)}
    for name, make in makers.items():
        write_data(out / name, [(f"{name}{number:03d}", name, "-", (32767 * np.clip(make(), -1, 1)).astype(np.float32))
                                for number in range(args.num_noises)])
        (out / f"{name}.scp").write_text((out / name / "wav.scp").read_text())


if __name__ == "__main__":
    main()
