#!/usr/bin/env python3
"""Make Korean speech to fine-tune the published model with: a voice new to it, and five words that it lacks.

    local/make_voice.py MODEL_FOLDER --out data

espeak-ng speaks sentences that are drawn from the model's own language model (Gr.fst), so that the model has their
words; every other one has one of the five new words in the place of one of its own. Writes train/ (60 recordings) and
test/ (30 others, of other sentences) as Kaldi's data directories, and new_words.txt.
"""
from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[2] / "utils"))
from synthetic_speech import espeak, fail, need_program, read_sound, write_data  # noqa: E402

from nnet3py.acoustic_model import read_model  # noqa: E402
from nnet3py.decoding.symbols import SymbolTable  # noqa: E402
from nnet3py.fine_tuning.graph_words import draw_texts  # noqa: E402
from nnet3py.recognition.model_folder import read_model_folder  # noqa: E402
from nnet3py.recognition.recognizer import read_decoding_graph  # noqa: E402

VOICE, OPTIONS = "ko+f2", ("-s", "140", "-p", "65")
WORDS = ("다온별", "하람솔", "새봄누리", "미르찬", "도담재")
LENGTHS = range(4, 10)                   # words of a sentence
HANGUL = re.compile(r"[가-힣 ]+")
DRAWN_FOR_EACH = 20                      # sentences, of which some have digits, Latin letters, or are too long


def sentences(folder: str, count: int, seed: int) -> list[list[str]]:
    """Different sentences of the model's language model, of words in Korean letters."""
    model = read_model_folder(folder)
    words = SymbolTable.read(model.words)
    known = [word for word in WORDS if word in words]
    if known:
        fail(f"the model has the word {known[0]}, which was to be new")
    graph = read_decoding_graph(model, read_model(model.model).transition_model)
    texts = (words.text(numbers) for numbers in draw_texts(graph.grammar_fst, DRAWN_FOR_EACH * count, seed))
    usable = dict.fromkeys(text for text in texts if len(text.split()) in LENGTHS and HANGUL.fullmatch(text))
    if len(usable) < count:
        fail(f"only {len(usable)} sentences of {DRAWN_FOR_EACH * count} can be used")
    return [text.split() for text in list(usable)[:count]]


def with_new_words(texts: list[list[str]], rng: np.random.Generator) -> Iterator[list[str]]:
    """Every other sentence with a new word in the place of one of its own, the words by turns."""
    for number, text in enumerate(texts):
        if number % 2 == 0:
            text[rng.integers(len(text))] = WORDS[number // 2 % len(WORDS)]
        yield text


def main() -> None:
    """Make the data."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="folder of the model, such as vosk-model-small-ko-0.22")
    parser.add_argument("--out", type=Path, required=True, help="folder to make")
    parser.add_argument("--num-train", type=int, default=60)
    parser.add_argument("--num-test", type=int, default=30)
    parser.add_argument("--voice", default=VOICE, help="espeak-ng's name of the voice")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    need_program("espeak-ng")

    args.out.mkdir(parents=True, exist_ok=True)
    drawn = sentences(args.model, args.num_train + args.num_test, args.seed)
    scratch = args.out / "sentence.wav"
    for part, texts in (("train", drawn[:args.num_train]), ("test", drawn[args.num_train:])):
        recordings = []
        for number, text in enumerate(with_new_words(texts, np.random.default_rng(args.seed))):
            espeak("-v", args.voice, *OPTIONS, "-w", str(scratch), text=" ".join(text))
            recordings.append((f"voice-{part}-{number:03d}", "voice", " ".join(text), read_sound(scratch)))
        write_data(args.out / part, recordings)
    scratch.unlink()
    (args.out / "new_words.txt").write_text("".join(f"{word}\n" for word in WORDS), encoding="utf-8")


if __name__ == "__main__":
    main()
