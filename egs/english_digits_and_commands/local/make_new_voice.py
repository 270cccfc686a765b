#!/usr/bin/env python3
"""Make speech to fine-tune the demo model with: a voice that it hardly understands, and ten words that it lacks.

    local/make_new_voice.py --out voice

A child's voice: espeak-ng's highest, with a vocal tract a fifth shorter than any that the model was trained with. Half
of the sentences are those of the recipe's grammar, half have one of the ten words.

Writes train/ (200 recordings), test/ (100 others), and, of the recipe's own voices, old_data/ (those for development,
to be trained on as well), old_test/ (six of those for tests) and old/ (five others, which take no part in anything) as
Kaldi's data directories; and lexicon.txt with the ten words.
"""
from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[2] / "utils"))
from make_corpus import Grammar, Speaker, recorded, speakers, transcript, utterances  # noqa: E402
from synthetic_speech import need_program, phones, write_data  # noqa: E402

VOICE, OPTIONS, WARP = "en-us+f5", ("-s", "160", "-p", "99"), 0.8
WORDS = ("vacuum", "thermostat", "sprinkler", "projector", "dishwasher", "podcast", "blueberry", "umbrella", "guitar",
         "laptop")
FRAMES = ("turn on the {}", "turn off the {} in the kitchen", "where is my {}", "please stop the {}", "open the {}",
          "can you start the {} at ten", "the {} is in the office", "i would like a {}", "is the {} off",
          "find a {} near me", "set the {} to twenty", "my {} is new")


def sentences(count: int, grammar: Grammar, rng: np.random.Generator) -> Iterator[list[str]]:
    """Sentences of the grammar and sentences with the new words, by turns."""
    for number in range(count):
        word = WORDS[number // 2 % len(WORDS)]
        yield grammar.sentence() if number % 2 else FRAMES[rng.integers(len(FRAMES))].format(word).split()


def main() -> None:
    """Make the data."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder to make")
    parser.add_argument("--num-train", type=int, default=200)
    parser.add_argument("--num-test", type=int, default=100)
    parser.add_argument("--num-old", type=int, default=40, help="recordings of each of the old speakers")
    parser.add_argument("--seed", type=int, default=3)
    args = parser.parse_args()
    need_program("espeak-ng")

    args.out.mkdir(parents=True, exist_ok=True)
    grammar_file, scratch = Path(__file__).with_name("grammar.txt"), args.out / "sentence.wav"
    speaker = Speaker("child", "espeak", VOICE, OPTIONS, WARP)
    for part, count, seed in (("train", args.num_train, args.seed), ("test", args.num_test, args.seed + 1)):
        rng, grammar = np.random.default_rng(seed), Grammar(grammar_file, seed + 1000)
        write_data(args.out / part, (
            (f"child-{part}-{number:03d}", "child", transcript(words),
             recorded([sound := speaker.speak(words, scratch)], sound, rng, clean=True))
            for number, words in enumerate(sentences(count, grammar, rng))))
    # The corpus has 11 speakers in these parts, of --seed 0.
    grammar = Grammar(grammar_file, args.seed + 2000)
    old = speakers("test", 11, 0, False)
    for number, (part, folder, its_speakers) in enumerate((("dev", "old_data", speakers("dev", 11, 0, False)),
                                                           ("test", "old_test", old[:6]), ("test", "old", old[6:]))):
        write_data(args.out / folder, utterances(part, its_speakers, args.num_old, grammar, scratch,
                                                 args.seed + number))
    scratch.unlink(missing_ok=True)
    (args.out / "lexicon.txt").write_text("".join(
        f"{word} {' '.join(its_phones)}\n" for word, (its_phones, *_) in zip(WORDS, phones(list(WORDS)), strict=True)))


if __name__ == "__main__":
    main()
