#!/usr/bin/env python3
"""Divide data by speakers: local/hold_out_speakers.py [--every 5] DATA OUT_DIR

Every fifth speaker of DATA, in order of names, goes to OUT_DIR/test, the others to OUT_DIR/train; each has feats.ark,
utt2spk and utt2num_frames as DATA has them.
"""
from __future__ import annotations

import argparse
import sys
from pathlib import Path

from make_ranges import read_pairs

from nnet3py.errors import Nnet3Error
from nnet3py.formats.holders import GENERAL_MATRIX
from nnet3py.io.tables import SequentialReader, TableWriter


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=int, default=5)
    parser.add_argument("data", type=Path)
    parser.add_argument("out_dir", type=Path)
    args = parser.parse_args()
    speaker_of = read_pairs(args.data / "utt2spk")
    held = set(sorted(set(speaker_of.values()))[args.every - 1::args.every])
    if not held:
        sys.exit(f"hold_out_speakers.py: {args.data} has fewer than {args.every} speakers")
    for part in ("train", "test"):
        (args.out_dir / part).mkdir(parents=True, exist_ok=True)
        for table in ("utt2spk", "utt2num_frames"):
            (args.out_dir / part / table).write_text("".join(
                f"{name} {value}\n" for name, value in read_pairs(args.data / table).items()
                if (speaker_of.get(name) in held) == (part == "test")))
        with (SequentialReader(f"ark:{args.data}/feats.ark", GENERAL_MATRIX) as reader,
              TableWriter(f"ark:{args.out_dir}/{part}/feats.ark", GENERAL_MATRIX) as writer):
            for name, features in reader:
                if (speaker_of.get(name) in held) == (part == "test"):
                    writer.write(name, features)


if __name__ == "__main__":
    try:
        main()
    except (Nnet3Error, OSError) as error:
        sys.exit(f"hold_out_speakers.py: {error}")
