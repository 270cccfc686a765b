#!/usr/bin/env python3
"""Recognize a data directory with a model folder: word error rate, new words, and the same by the vosk wheel.

    local/score.py MODEL_FOLDER DATA [--new-words FILE] [--vosk] [--beam BEAM --max-active STATES]

Each recording is a stream of its own, in blocks of a quarter of a second, through nnet3py.vosk, and without dither (in
a copy of the folder made of links), so that results can be compared.
"""
from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from nnet3py.decoding.symbols import read_transcripts
from nnet3py.decoding.word_errors import WordErrors, align
from nnet3py.formats.foreign_files import WAVE
from nnet3py.io.tables import SequentialReader

BLOCK, GAP = 0.25, "***"
PROGRAM = """
import json, sys
import numpy
MODULE
vosk.SetLogLevel(-1)
model = vosk.Model(sys.argv[1])
sounds = numpy.load(sys.argv[2])
for key in sounds.files:
    recognizer, parts, size = vosk.KaldiRecognizer(model, float(sys.argv[3])), [], int(sys.argv[4])
    for first in range(0, len(sounds[key]), size):
        if recognizer.AcceptWaveform(sounds[key][first:first + size].tobytes()):
            parts.append(json.loads(recognizer.Result())["text"])
    parts.append(json.loads(recognizer.FinalResult())["text"])
    print(json.dumps([key, " ".join(filter(None, parts))]))
"""


def without_dither(model: Path, folder: Path, options: Sequence[str]) -> Path:
    """A copy of a model folder made of links, with dither switched off and other options of the search added."""
    for path in model.rglob("*"):
        place = folder / path.relative_to(model)
        if path.is_dir():
            place.mkdir(parents=True, exist_ok=True)
        elif path.name in ("mfcc.conf", "model.conf"):
            more = ["--dither=0"] if path.name == "mfcc.conf" else options
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text("\n".join([path.read_text().rstrip("\n"), *more, ""]))
        else:
            place.parent.mkdir(parents=True, exist_ok=True)
            os.symlink(path.resolve(), place)
    return folder


def heard(module: str, model: Path, sounds: Mapping[str, np.ndarray], rate: float, scratch: Path) -> dict[str, str]:
    """What vosk, or nnet3py in its place, hears."""
    np.savez(scratch / "sounds.npz", **sounds)
    done = subprocess.run([sys.executable, "-c", PROGRAM.replace("MODULE", module), str(model),
                           str(scratch / "sounds.npz"), str(rate), str(int(BLOCK * rate))], stdout=subprocess.PIPE,
                          check=True, text=True)
    return dict(json.loads(line) for line in done.stdout.splitlines())


def rates(references: Mapping[str, Sequence[str]], texts: Mapping[str, str], new: Sequence[str]) -> str:
    """The word error rate, and how many of the new words were heard."""
    errors = WordErrors()
    said = heard = 0
    for key, reference in references.items():
        errors.add(reference, texts[key].split())
        for word, other in align(reference, texts[key].split(), GAP):
            said += word in new
            heard += word in new and word == other
    rate = f"{errors.errors} errors in {errors.words} words, {100 * errors.errors / errors.words:.1f} %"
    return rate + (f"; {heard} of {said} new words" if new else "")


def main() -> None:
    """Print what is found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="model folder")
    parser.add_argument("data", type=Path, help="Kaldi's data directory")
    parser.add_argument("--new-words", type=Path, help="file of words, one per line, that are counted apart")
    parser.add_argument("--vosk", action="store_true", help="also by the wheel vosk, and how often both hear the same")
    parser.add_argument("--beam", type=float, help="of the search, in place of the model's")
    parser.add_argument("--max-active", type=int, help="states that the search keeps, in place of the model's")
    args = parser.parse_args()
    options = [f"--{name}={value}" for name, value in (("beam", args.beam), ("max-active", args.max_active)) if value]
    new = args.new_words.read_text(encoding="utf-8").split() if args.new_words else []
    references = read_transcripts(f"{args.data}/text")
    sounds, rate = {}, 0.0
    with SequentialReader(f"scp:{args.data}/wav.scp", WAVE) as reader:
        for key, wave in reader:
            sounds[key], rate = np.ascontiguousarray(wave.samples[0], dtype=np.int16), wave.rate
    with tempfile.TemporaryDirectory() as scratch:
        model = without_dither(args.model, Path(scratch) / "model", options)
        texts = heard("import nnet3py.vosk as vosk", model, sounds, rate, Path(scratch))
        print(f"nnet3py: {rates(references, texts, new)}", flush=True)
        if args.vosk:
            others = heard("import vosk", model, sounds, rate, Path(scratch))
            unlike = [key for key in texts if texts[key] != others[key]]
            same = f"the same words in {len(texts) - len(unlike)} of {len(texts)} sentences"
            print(f"vosk: {rates(references, others, new)}; {same}")
            for key in unlike:
                print(f"{key}: nnet3py {texts[key]!r}, vosk {others[key]!r}", file=sys.stderr)


if __name__ == "__main__":
    main()
