#!/usr/bin/env python3
"""Perplexities of texts, one sentence a line, by an RNN language model and an n-gram model.

    local/perplexity.py exp/rnnlm large.arpa dev.txt test.txt

Probabilities are normalized, and the ends of sentences count. Words that the n-gram model lacks do not count for it.
"""
from __future__ import annotations

import argparse
import math
from pathlib import Path

from nnet3py import RnnLanguageModel
from nnet3py.decoding.grammar import read_ngram


def main() -> None:
    """Print a line for each text."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rnnlm", type=Path, help="folder of the model")
    parser.add_argument("arpa", help="the n-gram model")
    parser.add_argument("text", type=Path, nargs="+")
    args = parser.parse_args()
    model, ngram = RnnLanguageModel(args.rnnlm), read_ngram(args.arpa)
    for path in args.text:
        sentences = [line.split() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
        log_probs = [ngram.log10_prob(["<s>", *sentence][:place + 1], word) for sentence in sentences
                     for place, word in enumerate([*sentence, "</s>"])]
        seen = [log_prob for log_prob in log_probs if math.isfinite(log_prob)]
        print(f"{path.stem}: {sum(map(len, sentences))} words; perplexity {model.perplexity(sentences):.1f}, "
              f"{ngram.order}-gram {10.0 ** (-sum(seen) / len(seen)):.1f}", flush=True)


if __name__ == "__main__":
    main()
