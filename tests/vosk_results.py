"""What the public vosk makes of sound, in a process of its own: its library and kaldifst's, two builds of OpenFst,
wait for each other for ever where both are loaded into one process.
"""
from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

_PROGRAM = """
import json, sys
import vosk
folder, rate, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
vosk.SetLogLevel(-1)
recognizer = vosk.KaldiRecognizer(vosk.Model(folder), rate)
recognizer.SetWords(True)
while block := sys.stdin.buffer.read(size):
    ended = bool(recognizer.AcceptWaveform(block))
    print(json.dumps([ended, json.loads(recognizer.Result() if ended else recognizer.PartialResult())]))
print(json.dumps([True, json.loads(recognizer.FinalResult())]))
"""


def vosk_results(folder: Path, samples: np.ndarray, rate: int, piece: int) -> list[tuple[bool, dict[str, Any]]]:
    """For each ``piece`` of int16 samples whether an utterance ended with it, and vosk's result or partial result; its
    final result comes last. The test is skipped without vosk.
    """
    if importlib.util.find_spec("vosk") is None:
        pytest.skip("needs vosk (the extra test-published)")
    done = subprocess.run([sys.executable, "-c", _PROGRAM, str(folder), str(rate), str(2 * piece)],
                          input=samples.astype(np.int16).tobytes(), stdout=subprocess.PIPE, check=True)
    return [tuple(json.loads(line)) for line in done.stdout.splitlines()]
