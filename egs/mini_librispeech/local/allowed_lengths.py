#!/usr/bin/env python3
"""Lengths that utterances may have in end-to-end training, and the speeds that give them these lengths.

    local/allowed_lengths.py DATA/utt2num_frames LENGTHS SPEEDS      two copies of each utterance, slower and faster,
                                                                     or with --copies 1 the nearer one
    local/allowed_lengths.py DATA/utt2num_frames LENGTHS             lengths only, for features that stay as they are

Utterances of one length are trained on together, so lengths should be few. With speeds each is --ratio times the one
before; without, they are so close that each utterance is within 4 frames of one, which nnet3-chain-e2e-get-egs cuts or
fills. Lengths go to LENGTHS with commas between; lines COPY UTTERANCE SPEED for local/prepare_data.sh to SPEEDS.
"""
from __future__ import annotations

import argparse
import math
from bisect import bisect_left
from pathlib import Path

TOLERANCE = 4               # frames that nnet3-chain-e2e-get-egs adds or cuts
EDGE = 1.5                  # a window of 25 ms is so many shifts longer than the shift of 10 ms
SUBSAMPLING = 3             # lengths are multiples of it


def spaced(shortest: int, longest: int) -> list[int]:
    """Multiples of SUBSAMPLING of which each number of frames from ``shortest`` to ``longest`` is within TOLERANCE."""
    step = (2 * TOLERANCE + 1) // SUBSAMPLING * SUBSAMPLING
    lengths = [(shortest + TOLERANCE) // SUBSAMPLING * SUBSAMPLING]
    while lengths[-1] + TOLERANCE < longest:
        lengths.append(lengths[-1] + step)
    return lengths


def geometric(shortest: int, longest: int, ratio: float) -> list[int]:
    """Multiples of SUBSAMPLING, about ``ratio`` apart, from at most ``shortest`` to at least ``longest``."""
    lengths = [max(shortest // SUBSAMPLING, 1) * SUBSAMPLING]
    while lengths[-1] < longest:
        lengths.append(max(lengths[-1] + SUBSAMPLING, round(lengths[-1] * ratio / SUBSAMPLING) * SUBSAMPLING))
    return lengths


def speeds(frames: int, lengths: list[int], copies: int = 2) -> list[float]:
    """Factors of speed that bring ``frames`` to the next lengths, above and below, the one nearest to 1 first."""
    place = bisect_left(lengths, frames)
    near = dict.fromkeys([lengths[min(place, len(lengths) - 1)], lengths[max(place - 1, 0)]])
    factors = [(frames + EDGE) / (length + EDGE) for length in near]
    return sorted(factors, key=lambda factor: abs(math.log(factor)))[:copies]


def main() -> None:
    """Write the files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("utt2num_frames", type=Path)
    parser.add_argument("lengths", type=Path)
    parser.add_argument("speeds", type=Path, nargs="?")
    parser.add_argument("--ratio", type=float, default=1.12)
    parser.add_argument("--copies", type=int, default=2, choices=(1, 2))
    args = parser.parse_args()
    if not args.ratio > 1.0:
        parser.error(f"--ratio must be above 1, not {args.ratio}")
    frames = {key: int(number) for key, number in map(str.split, args.utt2num_frames.read_text().splitlines())}
    if not frames:
        parser.error(f"{args.utt2num_frames} is empty")
    shortest, longest = min(frames.values()), max(frames.values())
    lengths = geometric(shortest, longest, args.ratio) if args.speeds else spaced(shortest, longest)
    args.lengths.write_text(",".join(map(str, lengths)) + "\n")
    if args.speeds:
        args.speeds.write_text("".join(f"pv{number} {key} {speed:.6f}\n" for key, count in frames.items()
                                       for number, speed in enumerate(speeds(count, lengths, args.copies), 1)))
    print(f"allowed_lengths.py: {len(lengths)} lengths, from {lengths[0]} to {lengths[-1]} frames")


if __name__ == "__main__":
    main()
