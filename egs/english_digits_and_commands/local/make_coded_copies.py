#!/usr/bin/env python3
"""Make copies of data directories as they sound after codecs, over telephones, in rooms and in noise.

    local/make_coded_copies.py --out exp/corpus/coded exp/corpus/train exp/corpus/start

The copy of each recording goes through one codec, chosen at random: MP3 or Opus at some bit rate, GSM 06.10, mu-law, or
none; some get a room and noise before that. Keys get the codec's name behind them, speakers stay: --out is a data
directory of Kaldi, with the recordings themselves too if --originals true. Needs the packages av and soundfile.
"""
from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np

from nnet3py.formats.foreign_files import WAVE
from nnet3py.io.tables import SequentialReader

sys.path.append(str(Path(__file__).resolve().parents[2] / "utils"))
from sound_conditions import gsm, mp3, mu_law, noisy, opus, reverberant  # noqa: E402
from synthetic_speech import RATE, write_data  # noqa: E402

# (How often, name, kilobits a second that are drawn from, samples a second that are drawn from.)
CODECS = ((0.40, "mp3", (12, 16, 20, 24, 32, 40, 48, 64, 96), (RATE, RATE, 22050, 24000, 44100)),
          (0.18, "opus", (6, 8, 10, 12, 16, 20, 24, 32), ()), (0.14, "gsm", (), ()), (0.14, "mulaw", (), ()),
          (0.14, "none", (), ()))
LEAST_MP3 = {44100: 48, 22050: 16, 24000: 16}   # kilobits a second at these rates; what is less is not used
ROOM, NOISE = 0.25, 0.35                 # how often, before the codec; always one of them if there is none
NOISE_DB = (3.0, 30.0)                   # speech above noise


def coded(name: str, kilobits: tuple[int, ...], rates: tuple[int, ...], sound: np.ndarray,
          rng: np.random.Generator) -> np.ndarray:
    """The sound after a codec."""
    if name == "mp3":
        rate = int(rng.choice(rates))
        return mp3(sound, max(int(rng.choice(kilobits)), LEAST_MP3.get(rate, 0)), rate)
    if name == "opus":
        return opus(sound, int(rng.choice(kilobits)))
    return {"gsm": gsm, "mulaw": mu_law, "none": np.asarray}[name](sound)


def copies(data: Path, every: int, originals: bool,
           rng: np.random.Generator) -> Iterator[tuple[str, str, str, np.ndarray]]:
    """(Key, speaker, transcript, sound) of each recording's copy, after the recording itself if that is wanted."""
    texts = dict(line.split(maxsplit=1) for line in (data / "text").read_text().splitlines())
    speakers = dict(line.split() for line in (data / "utt2spk").read_text().splitlines())
    limits, other = np.cumsum([codec[0] for codec in CODECS]), np.zeros(0, np.float32)
    with SequentialReader(f"scp:{data}/wav.scp", WAVE) as reader:
        for key, wave in islice(reader, 0, None, every):
            sound = np.asarray(wave.samples[0], np.float32)
            if originals:
                yield key, speakers[key], texts[key], sound
            _, name, *drawn_from = CODECS[int(np.searchsorted(limits[:-1], rng.random(), side="right"))]
            made = reverberant(sound, rng) if rng.random() < ROOM else sound
            if rng.random() < NOISE or (name == "none" and made is sound):
                made = noisy(made, rng.uniform(*NOISE_DB), rng, other)
            yield f"{key}-{name}", speakers[key], texts[key], coded(name, *drawn_from, made, rng)
            other = sound


def main() -> None:
    """Make the copies."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="+", help="data directories, at 16 kHz")
    parser.add_argument("--out", type=Path, required=True, help="data directory to make")
    parser.add_argument("--originals", choices=("true", "false"), default="true", help="the recordings themselves, too")
    parser.add_argument("--every", type=int, default=1, help="of so many recordings, only the first is taken")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    rng = np.random.default_rng(args.seed)
    write_data(args.out, (copy for data in args.data
                          for copy in copies(data, args.every, args.originals == "true", rng)))


if __name__ == "__main__":
    main()
