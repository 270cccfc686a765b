#!/usr/bin/env python3
"""Send sounds of a wav.scp through rooms and noise, by wav-reverberate: a share of them stay as they are.

    local/augment.py --noises noises.scp --rirs rirs.scp exp/data/train_noisy/wav.scp

Changes the file in place. Sounds keep their names and lengths, so that alignments stay right. Lists have a name and a
file in each line.
"""
from __future__ import annotations

import argparse
import random
from pathlib import Path

PLAIN, IN_ROOM, SNRS = 0.25, 0.5, (5, 8, 10, 13, 15, 20)      # shares of the sounds; decibels of speech above noise


def files(path: Path) -> list[str]:
    """The files of a list."""
    found = [line.split()[1] for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    if not found:
        raise SystemExit(f"augment.py: {path} names no files")
    return found


def as_command(source: str) -> str:
    """What writes a sound to standard output: a command stays, a file or its place in an archive is copied."""
    return source.removesuffix("|").strip() if source.endswith("|") else f"wav-copy {source} -"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wav_scp", type=Path)
    parser.add_argument("--noises", type=Path, required=True)
    parser.add_argument("--rirs", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    draw, noises, rirs, lines = random.Random(args.seed), files(args.noises), files(args.rirs), []
    for line in args.wav_scp.read_text(encoding="utf-8").splitlines():
        key, source = line.split(None, 1)
        if draw.random() >= PLAIN:
            options = [f"--impulse-response={draw.choice(rirs)}"] if draw.random() < IN_ROOM else []
            options += [f"--additive-signals='wav-reverberate --duration=30 {draw.choice(noises)} - |'",
                        f"--snrs={draw.choice(SNRS)}", "--start-times=0", "--shift-output=true"]
            source = f"{as_command(source)} | wav-reverberate {' '.join(options)} - - |"
        lines.append(f"{key} {source}\n")
    args.wav_scp.write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
