#!/usr/bin/env python3
"""Write the lists of pieces that become examples of a network of speakers.

    local/make_ranges.py [options] UTT2SPK UTT2NUM_FRAMES OUT_DIR

In OUT_DIR: `speakers.txt` (speaker and label) and `ranges` for nnet3-xvector-get-egs. It has --num-archives archives to
train on, then one for diagnostics on training material and one for validation. The last utterances of each speaker
(--num-valid-utts) are for validation alone. All pieces of an archive have one length, from --min-frames in the first
to --max-frames in the last, so that they can be merged; an archive to train on has --pieces-per-speaker pieces of each
speaker at random places, those for diagnostics one of each utterance, from its middle.
"""
from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path


def read_pairs(path: Path) -> dict[str, str]:
    """The two columns of a file; exits with a message if a line has not two."""
    pairs = {}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        fields = line.split()
        if len(fields) != 2:
            sys.exit(f"make_ranges.py: expected two fields in line {number} of {path}, found '{line}'")
        pairs[fields[0]] = fields[1]
    return pairs


def archive_lengths(num_archives: int, least: int, most: int) -> list[int]:
    """How many frames the pieces of each archive have: equal steps from ``least`` to ``most``."""
    steps = max(num_archives - 1, 1)
    return [round(least + (most - least) * i / steps) for i in range(num_archives)]


def train_lines(utterances: dict[str, list[tuple[str, int]]], labels: dict[str, int], lengths: list[int],
                pieces_per_speaker: int, rng: random.Random) -> list[str]:
    """Lines of pieces at random places. ``utterances``: of each speaker, names and numbers of frames.

    An utterance is chosen the more often the more frames it has; pieces go to utterances of at least their length.
    """
    lines = []
    for archive, length in enumerate(lengths):
        for speaker, own in utterances.items():
            usable = [(name, frames) for name, frames in own if frames >= length]
            if not usable:
                continue
            for name, frames in rng.choices(usable, [frames for _, frames in usable], k=pieces_per_speaker):
                start = rng.randint(0, frames - length)
                lines.append(f"{name} {archive} {archive + 1} {start} {length} {labels[speaker]}")
    return lines


def diagnostic_lines(utterances: dict[str, list[tuple[str, int]]], labels: dict[str, int], archive: int,
                     length: int) -> list[str]:
    """Lines of the middle piece of each utterance that is long enough."""
    return [f"{name} {archive} {archive + 1} {(frames - length) // 2} {length} {labels[speaker]}"
            for speaker, own in utterances.items() for name, frames in own if frames >= length]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--num-archives", type=int, default=4)
    parser.add_argument("--pieces-per-speaker", type=int, default=50, help="in each archive")
    parser.add_argument("--min-frames", type=int, default=60)
    parser.add_argument("--max-frames", type=int, default=120)
    parser.add_argument("--num-valid-utts", type=int, default=1, help="utterances of each speaker to hold out")
    parser.add_argument("--srand", type=int, default=1)
    parser.add_argument("utt2spk", type=Path)
    parser.add_argument("utt2num_frames", type=Path)
    parser.add_argument("out_dir", type=Path)
    args = parser.parse_args()

    num_frames = {key: int(value) for key, value in read_pairs(args.utt2num_frames).items()}
    utterances: dict[str, list[tuple[str, int]]] = {}
    for name, speaker in sorted(read_pairs(args.utt2spk).items()):
        if name not in num_frames:
            sys.exit(f"make_ranges.py: {args.utt2num_frames} has no utterance {name}")
        utterances.setdefault(speaker, []).append((name, num_frames[name]))
    labels = {speaker: label for label, speaker in enumerate(sorted(utterances))}
    kept = {speaker: own[:len(own) - args.num_valid_utts] for speaker, own in utterances.items()}
    held = {speaker: own[len(own) - args.num_valid_utts:] for speaker, own in utterances.items()}
    poor = [speaker for speaker, own in kept.items() if not any(frames >= args.max_frames for _, frames in own)]
    if poor:
        sys.exit(f"make_ranges.py: speakers without an utterance of {args.max_frames} frames to train on: "
                 f"{' '.join(poor)}; lower --max-frames")

    lengths = archive_lengths(args.num_archives, args.min_frames, args.max_frames)
    lines = train_lines(kept, labels, lengths, args.pieces_per_speaker, random.Random(args.srand))
    for archive, part in ((args.num_archives, kept), (args.num_archives + 1, held)):
        lines += diagnostic_lines(part, labels, archive, args.min_frames)
    args.out_dir.mkdir(parents=True, exist_ok=True)
    (args.out_dir / "ranges").write_text("".join(line + "\n" for line in lines))
    (args.out_dir / "speakers.txt").write_text("".join(f"{speaker} {label}\n" for speaker, label in labels.items()))


if __name__ == "__main__":
    main()
