#!/usr/bin/env python3
"""Add noise to features, which must be as many cepstra as mel bins, and write a data directory of them.

    local/make_noisy.py [options] DATA CLEAN_SCP OUT_DIR

DATA has feats.ark and utt2spk. OUT_DIR gets feats.scp and feats.ark of the noisy features, utt2spk, spk2utt, utt2uniq,
utt2snr (decibels), and targets.scp, which says of each noisy utterance where its clean one is in CLEAN_SCP. There are
--copies of each utterance, named UTT-noise1 and so on. Signal-to-noise ratios go round --snrs.
"""
from __future__ import annotations

import argparse
import sys
from pathlib import Path

from noise import add_noise, utterance_rng

from nnet3py.errors import Nnet3Error
from nnet3py.formats.holders import FLOAT_MATRIX, read_matrices
from nnet3py.io.tables import TableWriter


def read_pairs(path: Path) -> dict[str, str]:
    """What follows the first word of each line, by that word."""
    return dict(line.split(maxsplit=1) for line in path.read_text().splitlines())


def write_list(path: Path, pairs: dict[str, str]) -> None:
    """Write `KEY VALUE` lines in the order of the keys."""
    path.write_text("".join(f"{key} {pairs[key]}\n" for key in sorted(pairs)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--copies", type=int, default=1)
    parser.add_argument("--snrs", default="0,5,10,15", help="decibels, with commas between")
    parser.add_argument("--srand", type=int, default=1)
    parser.add_argument("data", type=Path)
    parser.add_argument("clean_scp", type=Path)
    parser.add_argument("out_dir", type=Path)
    args = parser.parse_args()
    snrs = [float(snr) for snr in args.snrs.split(",")]
    speakers, clean = read_pairs(args.data / "utt2spk"), read_pairs(args.clean_scp)
    lists: dict[str, dict[str, str]] = {name: {} for name in ("utt2spk", "utt2uniq", "utt2snr", "targets.scp")}
    count = 0
    args.out_dir.mkdir(parents=True, exist_ok=True)
    with TableWriter(f"ark,scp:{args.out_dir}/feats.ark,{args.out_dir}/feats.unsorted", FLOAT_MATRIX) as writer:
        for utterance, cepstra in read_matrices(f"ark:{args.data}/feats.ark"):
            for name, known in ((args.data / "utt2spk", speakers), (args.clean_scp, clean)):
                if utterance not in known:
                    sys.exit(f"make_noisy.py: {name} has no utterance {utterance}")
            for copy in range(1, args.copies + 1):
                key, snr = f"{utterance}-noise{copy}", snrs[count % len(snrs)]
                writer.write(key, add_noise(cepstra, snr, utterance_rng(args.srand, key)))
                for name, value in (("utt2spk", speakers[utterance]), ("utt2uniq", utterance),
                                    ("utt2snr", f"{snr:g}"), ("targets.scp", clean[utterance])):
                    lists[name][key] = value
                count += 1
    for name, pairs in lists.items():
        write_list(args.out_dir / name, pairs)
    write_list(args.out_dir / "feats.scp", read_pairs(args.out_dir / "feats.unsorted"))
    (args.out_dir / "feats.unsorted").unlink()
    utterances: dict[str, list[str]] = {}
    for key, speaker in sorted(lists["utt2spk"].items()):
        utterances.setdefault(speaker, []).append(key)
    write_list(args.out_dir / "spk2utt", {speaker: " ".join(own) for speaker, own in utterances.items()})


if __name__ == "__main__":
    try:
        main()
    except (Nnet3Error, OSError) as error:
        sys.exit(f"make_noisy.py: {error}")
