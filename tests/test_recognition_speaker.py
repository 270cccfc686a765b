"""Vectors of speakers: beside vosk's, of the frames that are not silence; folders that lack something."""
from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from recognition_cases import CHUNK, PACKAGE, RATE, dialogue
from test_recognition_diarization import DIM, NETWORK, NUM_CEPS

from nnet3py.errors import Nnet3Error, ShapeError
from nnet3py.io.object_files import write_object
from nnet3py.io.tokens import TokenWriter
from nnet3py.network.nnet import Nnet
from nnet3py.recognition.recognizer import Recognizer
from nnet3py.recognition.results import Result
from nnet3py.recognition.speaker import SpeakerModel

REDUCED = 8
PIECE = 2880                 # samples
COSINE = 1e-3                # of the angle to vosk's vector: features agree to 1e-3, of sums over a hundred frames
PROGRAM = """
import json, sys
import vosk
folder, speaker, rate, size = *sys.argv[1:3], int(sys.argv[3]), int(sys.argv[4])
vosk.SetLogLevel(-1)
recognizer = vosk.KaldiRecognizer(vosk.Model(folder), rate, vosk.SpkModel(speaker))
while block := sys.stdin.buffer.read(size):
    if recognizer.AcceptWaveform(block):
        print(json.dumps(json.loads(recognizer.Result())))
print(json.dumps(json.loads(recognizer.FinalResult())))
"""


@pytest.fixture(scope="module")
def speaker_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, draw = tmp_path_factory.mktemp("speakers"), np.random.default_rng(1)
    (folder / "mfcc.conf").write_text(f"--sample-frequency=16000\n--num-ceps={NUM_CEPS}\n--dither=0\n")
    Nnet.from_config(NETWORK, seed=2).write(str(folder / "final.ext.raw"))
    write(folder / "mean.vec", draw.standard_normal(DIM), "FV ")
    write(folder / "transform.mat", draw.standard_normal((REDUCED, DIM)), "FM ")
    return folder


def write(path: Path, values: np.ndarray, token: str) -> None:
    def content(writer: TokenWriter) -> None:
        writer.raw(token.encode())
        for size in values.shape:
            writer.integer(size)
        writer.array(values, "<f4")

    write_object(str(path), content)


def segments(recognizer: Recognizer) -> list[Result]:
    stream = recognizer.stream(at_once=True)
    found = []
    for first in range(0, len(dialogue()), PIECE):
        if stream.accept_waveform(dialogue()[first:first + PIECE]):
            found.append(stream.result())
    return [*found, stream.finish()]


def test_vectors_are_vosks(speaker_folder: Path) -> None:
    if importlib.util.find_spec("vosk") is None:
        pytest.skip("needs vosk (the extra test-published)")
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(PACKAGE), str(speaker_folder), str(RATE), str(2 * PIECE)],
                          input=dialogue().tobytes(), stdout=subprocess.PIPE, check=True)
    theirs = [json.loads(line) for line in done.stdout.splitlines()]
    ours = segments(Recognizer(PACKAGE, options={"chunk-length": CHUNK}, speaker_model=speaker_folder))
    assert [result.text for result in ours] == [result["text"] for result in theirs]
    assert sum(result.speaker is not None for result in ours) >= 2
    for result, expected in zip(ours, theirs, strict=True):
        assert result.speaker_frames == expected.get("spk_frames", 0)
        if result.speaker is not None:
            assert np.linalg.norm(result.speaker) == pytest.approx(np.sqrt(REDUCED), rel=1e-5)
            assert result.speaker @ np.array(expected["spk"]) / REDUCED == pytest.approx(1.0, abs=COSINE)


def test_only_what_is_said_counts(speaker_folder: Path) -> None:
    model = SpeakerModel.read(speaker_folder)
    plain = Recognizer(PACKAGE, options={"chunk-length": CHUNK})
    whole = plain.transcribe(dialogue())
    assert whole.speaker is None and whole.speaker_frames == 0
    stream = plain.stream(speaker_model=model)
    stream.accept_waveform(np.zeros(RATE, np.int16))
    silence = stream.finish()
    assert silence.speaker is None
    found = segments(Recognizer(PACKAGE, options={"chunk-length": CHUNK}, speaker_model=model))
    seconds = sum(word.end - word.start for word in found[0].words)
    assert 0.5 * seconds < found[0].speaker_frames * 0.01 <= (found[0].end - found[0].start)


def test_folders_that_lack_something(speaker_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(Nnet3Error, match="there is no mfcc.conf, final.ext.raw, mean.vec, transform.mat"):
        SpeakerModel.read(tmp_path)
    for path in speaker_folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    write(tmp_path / "mean.vec", np.zeros(DIM + 1), "FV ")
    with pytest.raises(ShapeError, match=f"mean.vec has {DIM + 1} numbers, transform.mat {DIM} columns"):
        SpeakerModel.read(tmp_path)
    (tmp_path / "final.ext.raw").write_bytes(b"\0B<Nnet3> ")
    with pytest.raises(Nnet3Error, match="final.ext.raw"):
        SpeakerModel.read(tmp_path)
