#!/usr/bin/env python3
"""The same sounds through the public vosk and through nnet3py.vosk: how many answers agree, and in how much.

usage: vosk_agreement.py MODEL SOUND [SOUND ...] [--blocks SECONDS,SECONDS,...]

MODEL is a model folder (a temporary copy of links, without dither, is used), sounds are files that soundfile reads.
Each is recognized in blocks of several lengths, with words, with three alternatives, and by partial results. vosk runs
in a process of its own, since two builds of OpenFst do not get on in one. Needs the extra test-published.
"""
from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAM = """
import json, sys
import numpy, soundfile
MODULE
folder, alternatives, seconds, *paths = sys.argv[1:]
vosk.SetLogLevel(-1)
model = vosk.Model(folder)
for path in paths:
    samples, rate = soundfile.read(path, dtype="int16", always_2d=True)
    recognizer = vosk.KaldiRecognizer(model, rate)
    recognizer.SetWords(True)
    recognizer.SetMaxAlternatives(int(alternatives))
    answers, size = [], max(1, int(rate * float(seconds)))
    for first in range(0, len(samples), size):
        ended = recognizer.AcceptWaveform(numpy.ascontiguousarray(samples[first:first + size, 0]).tobytes())
        answers.append(json.loads(recognizer.Result() if ended else recognizer.PartialResult()))
    answers.append(json.loads(recognizer.FinalResult()))
    print(json.dumps(answers))
"""
SECONDS, CONFIDENCE, COST = 0.01, 0.02, 0.02


def without_dither(model: Path, folder: Path) -> Path:
    """A copy of a model folder made of links, with dither switched off."""
    for path in model.rglob("*"):
        place = folder / path.relative_to(model)
        if path.is_dir():
            place.mkdir(parents=True, exist_ok=True)
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        if path.name in ("mfcc.conf", "fbank.conf"):
            place.write_text(path.read_text().rstrip("\n") + "\n--dither=0\n")
        else:
            os.symlink(path.resolve(), place)
    return folder


def answers(module: str, folder: Path, alternatives: int, seconds: float, paths: list[str]) -> list[list[dict]]:
    """What a module says of each sound."""
    done = subprocess.run([sys.executable, "-c", PROGRAM.replace("MODULE", module), str(folder), str(alternatives),
                           str(seconds), *paths], stdout=subprocess.PIPE, check=True, text=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def words_agree(found: dict, expected: dict) -> bool:
    """Whether two results have the same words, times and confidences, as near as the limits say."""
    pairs = list(zip(found.get("result", []), expected.get("result", []), strict=False))
    return found.get("text") == expected.get("text") and all(
        abs(one[key] - other[key]) <= limit for one, other in pairs
        for key, limit in (("start", SECONDS), ("end", SECONDS), ("conf", CONFIDENCE)) if key in other)


def alternatives_agree(found: dict, expected: dict) -> bool:
    """Whether the alternatives' words agree, and how much one costs more than the first."""
    ours, theirs = found.get("alternatives", []), expected.get("alternatives", [])
    return [each["text"] for each in ours] == [each["text"] for each in theirs] and all(
        abs((one["confidence"] - ours[0]["confidence"]) - (other["confidence"] - theirs[0]["confidence"])) <= COST
        for one, other in zip(ours, theirs, strict=True))


def report(folder: Path, seconds: float, paths: list[str]) -> None:
    ours, theirs = (answers(module, folder, 0, seconds, paths) for module in (
        "import nnet3py.vosk as vosk", "import vosk"))
    partial = results = same_words = same = count = 0
    for found, expected in zip(ours, theirs, strict=True):
        for one, other in zip(found, expected, strict=True):
            if "partial" in other:
                count += 1
                partial += one.get("partial") == other["partial"]
            else:
                results += 1
                same_words += one.get("text") == other["text"]
                same += words_agree(one, other)
    ours, theirs = (answers(module, folder, 3, seconds, paths) for module in (
        "import nnet3py.vosk as vosk", "import vosk"))
    pairs = [(one, other) for found, expected in zip(ours, theirs, strict=True)
             for one, other in zip(found, expected, strict=True) if "alternatives" in other]
    alike = sum(alternatives_agree(*pair) for pair in pairs)
    costs = [abs(one["alternatives"][0]["confidence"] - other["alternatives"][0]["confidence"]) for one, other in pairs
             if "alternatives" in one]
    print(f"blocks of {seconds:g} s: of {results} results {same_words} have the same words, {same} also the same times "
          f"({SECONDS} s) and confidences ({CONFIDENCE}); {partial} of {count} partial results; {alike} of "
          f"{len(pairs)} lists of alternatives; costs differ by at most {max(costs, default=0.0):.3f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("sounds", nargs="+")
    parser.add_argument("--blocks", default="0.01,0.1,0.2,0.25,1")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        copy = without_dither(args.model, Path(folder))
        for seconds in map(float, args.blocks.split(",")):
            report(copy, seconds, args.sounds)


if __name__ == "__main__":
    main()
