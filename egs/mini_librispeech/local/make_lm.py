#!/usr/bin/env python3
"""An ARPA file of the n-grams of a text, one sentence a line: local/make_lm.py --order 3 lexicon.txt text lm.arpa

Witten-Bell smoothing. All words of the lexicon get a probability; what the lexicon lacks is left out with its sentence.
"""
from __future__ import annotations

import argparse
from pathlib import Path

from nnet3py.decoding.grammar import Ngram


def main() -> None:
    """Write the model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lexicon", type=Path)
    parser.add_argument("text", type=Path)
    parser.add_argument("arpa")
    parser.add_argument("--order", type=int, default=3)
    parser.add_argument("--num-sentences", type=int, default=0, help="so many sentences only, the first ones (0: all)")
    args = parser.parse_args()
    words = {line.split()[0] for line in args.lexicon.read_text().splitlines() if line.strip()}
    sentences = [line.split() for line in args.text.read_text().splitlines()]
    known = [sentence for sentence in sentences[:args.num_sentences or None] if words.issuperset(sentence)]
    Ngram.estimate(known, args.order, words).write(args.arpa)
    print(f"make_lm.py: {args.arpa}: {args.order}-grams of {len(known)} of {len(sentences)} sentences")


if __name__ == "__main__":
    main()
