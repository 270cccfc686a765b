#!/usr/bin/env python3
"""Make clean recordings of voices that the model has not heard, for local/test_conditions.py.

    local/make_condition_test.py --out exp/conditions
    local/make_condition_test.py --out exp/conditions --digits free-spoken-digit-dataset/recordings \
        --prompts /usr/share/asterisk/sounds/en_US_f_Allison

Writes data directories of Kaldi: synthetic/, sentences by the voices of the corpus's test/ and flite/; with --digits
people/, strings of five digits by the six speakers of the Free Spoken Digit Dataset (its recordings 0 to 4 of each
digit, 8 kHz); with --prompts operator/, digits, dates and letters by the speaker of Asterisk's English prompts, in
16 kHz (Debian: apt-get install asterisk-core-sounds-en-g722; needs the package av). Single words of people are put
together with short pauses.
"""
from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[2] / "utils"))
from make_corpus import Grammar, speakers, utterances  # noqa: E402
from synthetic_speech import RATE, need_program, read_sound, write_data  # noqa: E402

DIGITS = "zero one two three four five six seven eight nine".split()
NUM_RECORDINGS, STRING = 5, 5            # of each digit and speaker that are taken; digits in a string
ORDINALS = ("first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth "
            "fifteenth sixteenth seventeenth eighteenth nineteenth twentieth").split()
WEEKDAYS = "sunday monday tuesday wednesday thursday friday saturday".split()
MONTHS = "january february march april may june july august september october november december".split()
NUM_STRINGS, NUM_DATES, LETTERS = 20, 20, 4     # of the operator: strings of digits, dates; letters in a word
PAUSE, HISS = (0.08, 0.25), 3.0          # seconds around words; of int16 range
Utterance = tuple[str, str, str, np.ndarray]


def joined(sounds: Sequence[np.ndarray], rng: np.random.Generator) -> np.ndarray:
    """Words, one after the other, with pauses around them that are not quite silent."""
    parts = [np.zeros(int(RATE * 0.3), np.float32)]
    for sound in sounds:
        parts += [sound, np.zeros(int(RATE * rng.uniform(*PAUSE)), np.float32)]
    whole = np.concatenate([*parts, parts[0]])
    return np.asarray(whole + HISS * rng.standard_normal(len(whole)), np.float32)


def people(folder: Path, rng: np.random.Generator) -> Iterator[Utterance]:
    """Strings of digits; every recording that is taken is in one of them."""
    names = sorted({path.stem.split("_")[1] for path in folder.glob("*_*_0.wav")})
    if not names:
        sys.exit(f"make_condition_test.py: {folder} has no files such as 0_george_0.wav")
    for name in names:
        order = rng.permutation([(digit, number) for digit in range(10) for number in range(NUM_RECORDINGS)])
        for number, string in enumerate(order.reshape(-1, STRING, 2)):
            sounds = [read_sound(folder / f"{digit}_{name}_{which}.wav") for digit, which in string]
            yield (f"{name}-{number:03d}", name, " ".join(DIGITS[digit] for digit, _ in string), joined(sounds, rng))


def operator(folder: Path, rng: np.random.Generator) -> Iterator[Utterance]:
    """Digits, dates, letters."""
    digits = [(f"digits/{digit}", word) for digit, word in enumerate(DIGITS)]
    dates = ([(f"digits/day-{number}", word) for number, word in enumerate(WEEKDAYS)],
             [(f"digits/mon-{number}", word) for number, word in enumerate(MONTHS)],
             [(f"digits/h-{number}", word) for number, word in enumerate(ORDINALS, 1)])
    letters = [(f"letters/{letter}", letter) for letter in "abcdefghijklmnopqrstuvwxyz"]
    wanted = [[digits[number] for number in rng.integers(10, size=STRING)] for _ in range(NUM_STRINGS)]
    wanted += [[kind[rng.integers(len(kind))] for kind in dates] for _ in range(NUM_DATES)]
    order = [letters[number] for _ in range(2) for number in rng.permutation(len(letters))]
    wanted += [order[first:first + LETTERS] for first in range(0, len(order), LETTERS)]
    for number, string in enumerate(wanted):
        yield (f"operator-{number:03d}", "operator", " ".join(word for _, word in string),
               joined([wide_band(folder / f"{name}.g722") for name, _ in string], rng))


def wide_band(path: Path) -> np.ndarray:
    """float32 (samples,) at RATE: a file of G.722."""
    import av

    with av.open(str(path)) as coded:
        return np.concatenate([frame.to_ndarray()[0] for frame in coded.decode(audio=0)]).astype(np.float32)


def main() -> None:
    """Make the data."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder to make")
    parser.add_argument("--digits", type=Path, help="recordings/ of the Free Spoken Digit Dataset")
    parser.add_argument("--prompts", type=Path, help="the folder of Asterisk's prompts that has digits/ and letters/")
    parser.add_argument("--num-sentences", type=int, default=2, help="of each synthetic voice")
    parser.add_argument("--flite", choices=("true", "false"), default="true", help="voices of flite, too")
    parser.add_argument("--seed", type=int, default=7)
    args = parser.parse_args()
    use_flite = args.flite == "true"
    for program in ("espeak-ng", *(["flite"] if use_flite else [])):
        need_program(program)

    args.out.mkdir(parents=True, exist_ok=True)
    grammar, scratch = Grammar(Path(__file__).with_name("grammar.txt"), args.seed + 3000), args.out / "sentence.wav"
    voices = [*(speakers("flite", 11, 0, True) if use_flite else []), *speakers("test", 11, 0, use_flite)]
    write_data(args.out / "synthetic", utterances("clean", voices, args.num_sentences, grammar, scratch, args.seed))
    scratch.unlink(missing_ok=True)
    for part, folder in (("people", args.digits), ("operator", args.prompts)):
        if folder is not None:
            make = people if part == "people" else operator
            write_data(args.out / part, make(folder, np.random.default_rng(args.seed)))


if __name__ == "__main__":
    main()
