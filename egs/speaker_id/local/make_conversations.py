#!/usr/bin/env python3
"""Make speech of many voices with espeak-ng, to learn from, and conversations of voices that are not among them.

    local/make_conversations.py --out corpus

Writes train/ as Kaldi's data directory, and into conversations/ sounds of four voices each (NAME.wav), who take turns
with short pauses, and reference.rttm: who speaks when. A voice is one of espeak-ng's variants of a speaker with an
accent of English, and a pitch; variants of the conversations are not in train/. The same --seed makes the same.
"""
from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[2] / "utils"))
from synthetic_speech import RATE, espeak, need_program, read_sound, write_data  # noqa: E402

ACCENTS = ("en-us", "en-gb", "en-gb-scotland", "en-gb-x-rp", "en-029")
TRAIN_VARIANTS = ("m1", "m3", "m5", "m6", "m8", "f1", "f3", "f5", "adam", "antonio", "belinda", "ed", "grandpa",
                  "linda", "max", "miguel", "norbert", "pablo")
TEST_VARIANTS = ("m2", "m4", "m7", "f2", "f4", "paul")
PITCHES = (30, 50, 70)
SPEED = (150, 200)                                # words a minute
PAUSE, HISS_DB, LOUDNESS = (0.1, 0.9), (-50.0, -40.0), (0.2, 0.6)      # seconds between turns; noise below the speech
WORDS = Path(__file__).resolve().parents[2] / "mini_librispeech" / "local" / "words.txt"


def spoken(voice: tuple[str, str, int], words: list[str], scratch: Path, rng: np.random.Generator) -> np.ndarray:
    """float32 (samples,) without pauses around it."""
    accent, variant, pitch = voice
    espeak("-v", f"{accent}+{variant}", "-s", str(rng.integers(*SPEED)), "-p", str(pitch), "-w", str(scratch),
           text=" ".join(words))
    return read_sound(scratch)


def with_noise(sound: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A sound with some hiss, as loud as it comes."""
    largest = np.abs(sound).max()
    noisy = sound + largest * 10 ** (rng.uniform(*HISS_DB) / 20) * rng.standard_normal(len(sound))
    scaled: np.ndarray = (noisy * (rng.uniform(*LOUDNESS) * 32767 / np.abs(noisy).max())).astype(np.float32)
    return scaled


def training(words: list[str], count: int, scratch: Path,
             rng: np.random.Generator) -> Iterator[tuple[str, str, str, np.ndarray]]:
    """Key, speaker, words and sound of ``count`` utterances of each voice."""
    voices = [(accent, variant, pitch) for accent in ACCENTS for variant in TRAIN_VARIANTS for pitch in PITCHES]
    for accent, variant, pitch in sorted(voices, key=lambda voice: f"{voice[0]}_{voice[1]}_{voice[2]}"):
        speaker = f"{accent}_{variant}_{pitch}"
        for number in range(count):
            said = [str(word) for word in rng.choice(words, rng.integers(8, 14))]
            yield (f"{speaker}-{number:02d}", speaker, " ".join(said),
                   with_noise(spoken((accent, variant, pitch), said, scratch, rng), rng))


def conversation(words: list[str], num_voices: int, seconds: float, scratch: Path,
                 rng: np.random.Generator) -> tuple[np.ndarray, list[tuple[float, float, str]]]:
    """The sound, and start, end and voice of each turn."""
    variants = rng.choice(TEST_VARIANTS, num_voices, replace=False)
    voices = [(str(rng.choice(ACCENTS)), str(variant), int(rng.choice(PITCHES))) for variant in variants]
    loudness = rng.uniform(0.5, 1.0, num_voices)
    parts, turns, length, last = [], [], 0, -1
    while length < seconds * RATE:
        who = int(rng.choice([voice for voice in range(num_voices) if voice != last]))
        pause = np.zeros(int(rng.uniform(*PAUSE) * RATE), np.float32)
        said = spoken(voices[who], [str(word) for word in rng.choice(words, rng.integers(3, 16))], scratch, rng)
        said = said * (loudness[who] / np.abs(said).max())
        turns.append(((length + len(pause)) / RATE, (length + len(pause) + len(said)) / RATE, "_".join(
            map(str, voices[who]))))
        parts += [pause, said]
        length, last = length + len(pause) + len(said), who
    return with_noise(np.concatenate(parts), rng), turns


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--utts-per-voice", type=int, default=4, help="of each voice that is learned from")
    parser.add_argument("--num-conversations", type=int, default=10)
    parser.add_argument("--num-voices", type=int, default=4, help="of each conversation")
    parser.add_argument("--seconds", type=float, default=120.0, help="of each conversation")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    need_program("espeak-ng")
    from nnet3py.formats.foreign_files import Wave, write_wave
    from nnet3py.io.tokens import TokenWriter
    from nnet3py.recognition.diarization import Turn, rttm

    if not 1 <= args.num_voices <= len(TEST_VARIANTS):
        sys.exit(f"make_conversations.py: expected 1 to {len(TEST_VARIANTS)} voices, found {args.num_voices}")
    words = [word for line in WORDS.read_text().splitlines() for word in line.split()[1:]]
    rng = np.random.default_rng(args.seed)
    folder = args.out / "conversations"
    folder.mkdir(parents=True, exist_ok=True)
    scratch = args.out / "scratch.wav"
    lines = []
    for number in range(args.num_conversations):
        sound, turns = conversation(words, args.num_voices, args.seconds, scratch, rng)
        name = f"talk{number:02d}"
        with open(folder / f"{name}.wav", "wb") as stream:
            write_wave(TokenWriter(stream, True), Wave(float(RATE), sound[None]))
        lines.append(rttm(name, [Turn(*turn) for turn in turns]))
    (folder / "reference.rttm").write_text("".join(lines))
    write_data(args.out / "train", training(words, args.utts_per_voice, scratch, rng))
    scratch.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
