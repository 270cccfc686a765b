"""Speech of espeak-ng and flite, the phones that espeak-ng speaks, rooms, noise, and Kaldi data directories of them.

The corpora of the recipes mini_librispeech and english_digits_and_commands are made with this.
"""
from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import numpy as np

RATE = 16000                             # samples a second
STRESS, VARIANT = "',%=|;~*", "-2#"      # marks in espeak-ng's phoneme names
ROOM_SECONDS = (0.1, 0.5)                # until an echo has lost 60 dB
RENAMED = {"a#": "@", "aI3": "aI@", "i@3": "i@", "?": "", "aa": "a", "A:": "A@"}     # rare ones: as the nearest


def fail(message: str) -> None:
    """Exit with a message."""
    sys.exit(f"{Path(sys.argv[0]).name}: {message}")


def need_program(name: str) -> None:
    """Exit with a message if a synthesizer is missing."""
    if shutil.which(name) is None:
        fail(f"there is no {name} on the PATH (Debian: apt-get install {name})")


def espeak(*words: str, text: str) -> str:
    """Run espeak-ng on a text; what it prints. Exits with a message if it fails."""
    done = subprocess.run(["espeak-ng", *words, "--stdin"], input=text, capture_output=True, text=True)
    if done.returncode:
        fail(f"espeak-ng failed: {done.stderr.strip()}")
    return done.stdout


def flite(*words: str, text: str) -> None:
    """Run flite on a text. Exits with a message if it fails."""
    done = subprocess.run(["flite", *words, "-t", text], capture_output=True, text=True)
    if done.returncode:
        fail(f"flite failed: {done.stderr.strip()}")


def phones(texts: list[str], voice: str = "en-us") -> list[list[list[str]]]:
    """The phones of the words of each text, without stress; words may come together as espeak-ng speaks them."""
    lines = espeak("-q", "-x", "--sep=_", "-v", voice, text="".join(f"{text}.\n" for text in texts)).split("\n")
    lines = [line for line in lines if line.strip()]
    if len(lines) != len(texts):
        fail(f"espeak-ng pronounced {len(lines)} of {len(texts)} texts")
    return [[[phone for phone in map(plain, word.split("_")) if phone] for word in line.split()] for line in lines]


def plain(name: str) -> str:
    """A phone without marks; empty for what is none."""
    name = name.strip(STRESS)
    return RENAMED[name] if name in RENAMED else name.rstrip(VARIANT)


def read_sound(path: Path) -> np.ndarray:
    """float32 (samples,) at RATE, of int16 range: a sound file, without the zeros at its ends."""
    from nnet3py.feat.sound import resample
    from nnet3py.formats.foreign_files import read_wave
    from nnet3py.io.object_files import read_object

    wave = read_object(str(path), read_wave)
    return np.trim_zeros(resample(wave.samples[0], int(wave.rate), RATE))


def write_data(folder: Path, utterances: Iterable[tuple[str, str, str, np.ndarray]]) -> None:
    """Write a data directory of (key, speaker, transcript, float32 (samples,) at RATE), sorted by key."""
    from nnet3py.formats.foreign_files import WAVE, Wave
    from nnet3py.io.tables import TableWriter

    folder.mkdir(parents=True, exist_ok=True)
    text, speakers = [], []
    with TableWriter(f"ark,scp:{folder}/wav.ark,{folder}/wav.scp", WAVE) as writer:
        for key, speaker, transcript, sound in utterances:
            writer.write(key, Wave(float(RATE), sound[None]))
            text.append(f"{key} {transcript}\n")
            speakers.append((key, speaker))
    keys: dict[str, list[str]] = {}
    for key, speaker in speakers:
        keys.setdefault(speaker, []).append(key)
    (folder / "text").write_text("".join(text))
    (folder / "utt2spk").write_text("".join(f"{key} {speaker}\n" for key, speaker in speakers))
    (folder / "spk2utt").write_text("".join(f"{speaker} {' '.join(its)}\n" for speaker, its in sorted(keys.items())))


def impulse_response(rng: np.random.Generator) -> np.ndarray:
    """float64 (samples,) at RATE: of a room, with echoes that fade, weaker than what comes directly."""
    seconds = rng.uniform(*ROOM_SECONDS)
    times = np.arange(int(RATE * seconds)) / RATE
    response = rng.standard_normal(len(times)) * 10.0 ** (-3.0 * times / seconds)
    response[:int(RATE * rng.uniform(0.001, 0.01))] = 0.0
    response *= 10.0 ** (rng.uniform(-18.0, -2.0) / 20) / np.sqrt((response ** 2).sum() + 1e-9)
    response[0] = 1.0
    return np.asarray(response)


def noise(length: int, other: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """float32 (length,): white, pink or brown noise, a hum, or voices (copies of ``other``), of power 1."""
    kind = rng.random()
    if kind < 0.15 and len(other):
        made = sum(np.resize(np.roll(other, rng.integers(len(other))), length) for _ in range(4))
    elif kind < 0.25:
        tone = 2.0 * np.pi * rng.choice([50.0, 60.0, 100.0, 120.0]) * np.arange(length) / RATE
        made = sum(np.sin(harmonic * tone) / harmonic for harmonic in (1, 2, 3, 5)) + 0.1 * rng.standard_normal(length)
    else:
        spectrum = np.fft.rfft(rng.standard_normal(length))
        slope = rng.choice([0.0, 0.25, 0.5, 0.75])
        made = np.fft.irfft(spectrum / np.arange(1.0, len(spectrum) + 1.0) ** slope, length)
    return (made / np.sqrt(np.mean(np.square(made)) + 1e-9)).astype(np.float32)
