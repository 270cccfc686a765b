#!/usr/bin/env python3
"""Recognize the recordings of a data directory with a model folder, as streams; beside them with vosk, if wanted.

    local/test_model.py exp/model exp/corpus/test
    local/test_model.py --vosk true --num-recordings 100 exp/model exp/corpus/test

Each recording is a stream of its own, in blocks of 0.25 s; words of its segments are put together. Prints the word
error rate, and with vosk (pip install vosk) its rate, too, of how many recordings the words are equal, and how far
words that are equal lie apart in time and confidence.
"""
from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from nnet3py import Recognizer
from nnet3py.decoding.word_errors import edit_distance
from nnet3py.formats.foreign_files import WAVE
from nnet3py.io.tables import SequentialReader

BLOCK_SECONDS = 0.25


class Word(NamedTuple):
    """What was recognized, when, and how sure that is."""

    word: str
    start: float
    end: float
    confidence: float


def blocks(samples: np.ndarray, rate: int) -> list[np.ndarray]:
    """The int16 samples in pieces."""
    length = int(rate * BLOCK_SECONDS)
    return [samples[start:start + length] for start in range(0, len(samples), length)]


def ours(folder: str) -> Callable[[np.ndarray, int], list[Word]]:
    """A function that recognizes with nnet3py."""
    recognizer = Recognizer(folder)

    def recognized(samples: np.ndarray, rate: int) -> list[Word]:
        stream, words = recognizer.stream(sample_rate=rate), []
        for block in blocks(samples, rate):
            stream.accept_waveform(block)
            while stream.endpoint:
                words += stream.result().words
        return [Word(*word) for word in (*words, *stream.finish().words)]

    return recognized


def vosks(folder: str) -> Callable[[np.ndarray, int], list[Word]]:
    """The same with vosk."""
    import vosk

    vosk.SetLogLevel(-1)
    model = vosk.Model(folder)

    def recognized(samples: np.ndarray, rate: int) -> list[Word]:
        recognizer = vosk.KaldiRecognizer(model, rate)
        recognizer.SetWords(True)
        found: list[dict[str, Any]] = []
        for block in blocks(samples, rate):
            if recognizer.AcceptWaveform(block.tobytes()):
                found += json.loads(recognizer.Result()).get("result", [])
        found += json.loads(recognizer.FinalResult()).get("result", [])
        return [Word(word["word"], word["start"], word["end"], word["conf"]) for word in found]

    return recognized


def main() -> None:
    """Recognize and count."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("data", type=Path)
    parser.add_argument("--num-recordings", type=int, default=0, help="so many, evenly chosen (0: all)")
    parser.add_argument("--vosk", choices=("true", "false"), default="false")
    args = parser.parse_args()
    texts = {key: words for key, *words in map(str.split, (args.data / "text").read_text().splitlines())}
    keys = list(texts)[::max(1, len(texts) // args.num_recordings) if args.num_recordings else 1]
    keys = keys[:args.num_recordings or None]
    with SequentialReader(f"scp:{args.data}/wav.scp", WAVE) as reader:
        sounds = {key: (wave.samples[0].astype("<i2"), int(wave.rate)) for key, wave in reader if key in set(keys)}

    results: dict[str, dict[str, list[Word]]] = {}
    for name, recognizer in {"nnet3py": ours, **({"vosk": vosks} if args.vosk == "true" else {})}.items():
        recognized = recognizer(args.model)
        begin = time.perf_counter()
        results[name] = {key: recognized(*sounds[key]) for key in keys}
        seconds = time.perf_counter() - begin
        errors = sum(edit_distance(texts[key], [word.word for word in results[name][key]]).total for key in keys)
        total, sound = sum(len(texts[key]) for key in keys), sum(len(s) / rate for s, rate in sounds.values())
        print(f"{name}: {100.0 * errors / total:.1f} % ({errors} of {total} words) of {len(keys)} recordings, "
              f"{sound:.0f} s of sound in {seconds:.1f} s")
    if len(results) == 2:
        pairs = [(results["nnet3py"][key], results["vosk"][key]) for key in keys]
        equal = [pair for pair in pairs if [word.word for word in pair[0]] == [word.word for word in pair[1]]]
        apart = np.array([np.subtract(one[1:], other[1:]) for mine, its in equal
                          for one, other in zip(mine, its, strict=True)]).reshape(-1, 3)
        print(f"equal words in {len(equal)} of {len(pairs)} recordings; their times differ by at most "
              f"{abs(apart[:, :2]).max():.3f} s, confidences by {abs(apart[:, 2]).max():.3f}")


if __name__ == "__main__":
    main()
