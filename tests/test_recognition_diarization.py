"""nnet3py/recognition/diarization.py, diarize, transcribe --speakers: turns of speakers, RTTM, error rates."""
from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from paths import DATA
from scipy.linalg import eigh

import nnet3py
from nnet3py.cli.ivectors.scoring import agglomerative_cluster
from nnet3py.cli.recognition.align import diarize as diarize_command
from nnet3py.cli.recognition.transcribe import transcribe
from nnet3py.errors import FormatError, Nnet3Error, ShapeError, UsageError
from nnet3py.feat.cmvn import normalize_sliding
from nnet3py.formats.foreign_files import Wave, write_wave
from nnet3py.formats.holders import FLOAT_MATRIX
from nnet3py.formats.matrices import write_matrix, write_vector
from nnet3py.io.object_files import write_object
from nnet3py.io.tables import write_table
from nnet3py.io.tokens import TokenWriter
from nnet3py.ivectors.scoring import PldaTraining
from nnet3py.network.nnet import Nnet
from nnet3py.recognition.diarization import (
    Turn,
    diarization_errors,
    diarize,
    read_rttm,
    rttm,
    speech_segments,
    with_speakers,
)
from nnet3py.recognition.model_folder import demo_folder
from nnet3py.recognition.options import DiarizationOptions
from nnet3py.recognition.speaker import SpeakerModel
from nnet3py.runtime.options import XvectorOptions
from nnet3py.runtime.xvectors import XvectorComputer

RATE, NUM_CEPS, HIDDEN, DIM = 16000, 20, 24, 16
# How much random features of a sound vary: enough to tell apart noises of other spectra.
NETWORK = f"""
component name=affine type=NaturalGradientAffineComponent input-dim={3 * NUM_CEPS} output-dim={HIDDEN} param-stddev=0.02
component name=relu type=RectifiedLinearComponent dim={HIDDEN}
component name=extraction type=StatisticsExtractionComponent input-dim={HIDDEN} input-period=1 output-period=1 \
include-variance=true
component name=pooling type=StatisticsPoolingComponent input-dim={2 * HIDDEN + 1} input-period=1 left-context=10000 \
right-context=10000 num-log-count-features=0 output-stddevs=true
component name=embedding type=NaturalGradientAffineComponent input-dim={2 * HIDDEN} output-dim={DIM} param-stddev=0.3
input-node name=input dim={NUM_CEPS}
component-node name=affine component=affine input=Append(Offset(input, -1), input, Offset(input, 1))
component-node name=relu component=relu input=affine
component-node name=extraction component=extraction input=relu
component-node name=pooling component=pooling input=Round(extraction, 1)
component-node name=embedding component=embedding input=pooling
output-node name=output input=embedding
"""
VOICES = ((200, 900), (1500, 3000), (4500, 7000))          # bands of frequencies
TURNS = ((0, 3.0), (1, 2.5), (0, 2.0), (2, 3.5), (1, 2.0))
COARSE = 0.12              # seconds by which turns of sounds that begin at once may be off


def buzz(seconds: float, low: float, high: float, seed: int) -> np.ndarray:
    """Noise of one band of frequencies, as loud as speech."""
    noise = np.random.default_rng(seed).standard_normal(int(seconds * RATE))
    spectrum = np.fft.rfft(noise)
    frequencies = np.fft.rfftfreq(len(noise), 1 / RATE)
    spectrum[(frequencies < low) | (frequencies > high)] *= 0.05
    sound = np.fft.irfft(spectrum, len(noise))
    return (8000 * sound / np.abs(sound).max()).astype(np.float32)


def talk(turns: tuple[tuple[int, float], ...], seed: int) -> tuple[np.ndarray, list[Turn]]:
    """Sounds of voices one after the other, with half a second of pause, and where they are."""
    parts, reference, at = [np.zeros(RATE // 2, np.float32)], [], 0.5
    for number, (voice, seconds) in enumerate(turns):
        parts += [buzz(seconds, *VOICES[voice], seed + number), np.zeros(RATE // 2, np.float32)]
        reference.append(Turn(at, at + seconds, "abc"[voice]))
        at += seconds + 0.5
    sound = np.concatenate(parts)
    return sound + np.random.default_rng(seed).standard_normal(len(sound)).astype(np.float32), reference


@pytest.fixture(scope="module")
def conversation(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Turn]]:
    path = tmp_path_factory.mktemp("sound") / "talk.wav"
    sound, turns = talk(TURNS, 1)
    with open(path, "wb") as stream:
        write_wave(TokenWriter(stream, True), Wave(float(RATE), sound[None]))
    return path, turns


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random network, with the directions in which the voices of another conversation differ most."""
    folder = tmp_path_factory.mktemp("speakers")
    (folder / "mfcc.conf").write_text(f"--sample-frequency=16000\n--num-ceps={NUM_CEPS}\n--dither=0\n")
    Nnet.from_config(NETWORK, seed=2).write(str(folder / "final.ext.raw"))
    features = nnet3py.features
    sound, turns = talk(4 * TURNS, 100)
    frames = normalize_sliding(features(sound / 32768, RATE, config={
        "num-ceps": NUM_CEPS, "dither": 0}), 300, center=True)
    computer = XvectorComputer(Nnet.from_config(NETWORK, seed=2), XvectorOptions(min_chunk_size=1))
    vectors, voices = [], []
    for turn in turns:
        for begin in range(round(100 * turn.start), round(100 * turn.end) - 150, 25):
            vectors.append(computer.compute(frames[begin:begin + 150]))
            voices.append(turn.speaker)
    stacked = np.stack(vectors).astype(np.float64)
    mean = stacked.mean(axis=0)
    means = np.stack([stacked[np.array(voices) == voice].mean(axis=0) for voice in voices])
    within = (stacked - means).T @ (stacked - means) / len(stacked)
    _, directions = eigh(np.cov((means - mean).T), within + 0.01 * np.trace(within) * np.eye(DIM) / DIM)
    write_object(str(folder / "mean.vec"), lambda writer: write_vector(writer, mean.astype(np.float32)))
    write_object(str(folder / "transform.mat"), lambda writer: write_matrix(
        writer, directions.T[:-4:-1].astype(np.float32)))
    return folder


def test_turns_of_a_conversation(model: Path, conversation: tuple[Path, list[Turn]]) -> None:
    path, reference = conversation
    turns = diarize(model, path, options=DiarizationOptions(num_speakers=3))
    assert [turn.speaker for turn in turns] == ["speaker1", "speaker2", "speaker1", "speaker3", "speaker2"]
    for turn, right in zip(turns, reference, strict=True):
        assert abs(turn.start - right.start) <= COARSE and abs(turn.end - right.end) <= COARSE
    assert diarization_errors(reference, turns).rate == 0.0
    assert len({turn.speaker for turn in diarize(model, path, options=DiarizationOptions(threshold=-1.0))}) == 1
    assert len({turn.speaker for turn in diarize(model, path, options=DiarizationOptions(threshold=1.1))}) > 5
    assert diarize(model, np.zeros(RATE, np.int16), RATE) == []


def test_plda_in_the_folder_is_used(model: Path, conversation: tuple[Path, list[Turn]], tmp_path: Path) -> None:
    path, reference = conversation
    for name in ("mfcc.conf", "final.ext.raw", "mean.vec", "transform.mat"):
        (tmp_path / name).write_bytes((model / name).read_bytes())
    speakers = SpeakerModel.read(model)
    sound, turns = talk(4 * TURNS, 200)
    frames = speakers.features.compute(sound, RATE)
    pieces = {voice: speakers.vectors(frames, [
        (begin, begin + 150) for turn in turns if turn.speaker == voice
        for begin in range(round(100 * turn.start), round(100 * turn.end) - 150, 25)]) for voice in "abc"}
    training = PldaTraining(list(pieces.values()))
    for _ in range(3):
        training.iterate()
    write_object(str(tmp_path / "plda"), training.model().write)
    assert SpeakerModel.read(tmp_path).plda is not None and speakers.plda is None
    turns = diarize(tmp_path, path, options=DiarizationOptions(num_speakers=3))
    assert diarization_errors(reference, turns).rate == 0.0
    write_object(str(tmp_path / "plda"), PldaTraining([vectors[:, :2] for vectors in pieces.values()]).model().write)
    with pytest.raises(ShapeError, match="is for vectors of 2 numbers"):
        SpeakerModel.read(tmp_path)


def test_the_command(model: Path, conversation: tuple[Path, list[Turn]], tmp_path: Path,
                     capfd: pytest.CaptureFixture[str]) -> None:
    path, reference = conversation
    words = [f"--model={model}", "--num-speakers=3", str(path)]
    assert diarize_command.execute(words) == 0
    text = capfd.readouterr().out
    assert text.splitlines()[0].startswith("SPEAKER talk 1 0.4") and len(read_rttm(text)["talk"]) == len(reference)
    (tmp_path / "ref.rttm").write_text(rttm("talk", reference))
    assert diarize_command.execute([*words, f"--reference={tmp_path / 'ref.rttm'}", f"--out={tmp_path / 'out'}"]) == 0
    assert capfd.readouterr().out.startswith("diarization error rate 0.00 % of ")
    assert (tmp_path / "out" / "talk.rttm").read_text() == text
    assert diarize_command.execute([*words, "--format=json"]) == 0
    assert [turn["speaker"] for turn in json.loads(capfd.readouterr().out)["turns"]][:2] == ["speaker1", "speaker2"]
    (tmp_path / "bad.wav").write_text("no sound")
    assert diarize_command.execute([f"--model={model}", str(tmp_path / "bad.wav"), str(path)]) == 1
    for wrong, message in ((["--threshold=x"], "--threshold=x: expected a number"), (["--shift=2"], "--window, 1.5 s"),
                           (["--model="], "no speaker model was given"), (["--model=nowhere"], "nowhere")):
        assert diarize_command.execute([*words, *wrong]) != 0
        assert message in capfd.readouterr().err


def test_transcripts_say_who_spoke(model: Path, capfd: pytest.CaptureFixture[str]) -> None:
    words = [f"--speaker-model={model}", "--speakers", "--demo", str(DATA / "demo.wav")]
    assert transcribe.execute(words) == 0
    assert capfd.readouterr().out == "speaker1: set a timer for ten minutes\n"
    assert transcribe.execute(["--format=json", *words]) == 0
    assert json.loads(capfd.readouterr().out)["segments"][0]["speaker_name"] == "speaker1"
    assert transcribe.execute(["--speakers", "--demo", str(DATA / "demo.wav")]) != 0
    assert "--speakers needs --speaker-model" in capfd.readouterr().err


def test_words_get_speakers() -> None:
    result = nnet3py.Recognizer(demo_folder()).transcribe(str(DATA / "demo.wav"))
    middle = result.words[2].end
    named = with_speakers(result, [Turn(0.0, middle, "a"), Turn(middle, 1.0 + middle, "b")])
    assert [(segment.speaker_name, segment.text) for segment in named.segments] == [
        ("a", "set a timer"), ("b", "for ten minutes")]
    assert named.words == result.words and named.segments[1].start == result.words[3].start
    assert [segment.speaker_name for segment in with_speakers(result, []).segments] == [""]


def test_speech_without_short_pauses_and_noises() -> None:
    voiced = np.zeros(300, bool)
    voiced[[*range(20, 80), *range(100, 160), *range(200, 210)]] = True
    assert speech_segments(voiced, DiarizationOptions()) == [(0.2, 1.6)]
    assert speech_segments(voiced, DiarizationOptions(max_pause=0.1, min_speech=0.0)) == [
        (0.2, 0.8), (1.0, 1.6), (2.0, 2.1)]


def test_error_rates() -> None:
    reference = [Turn(0.0, 10.0, "a"), Turn(10.0, 20.0, "b")]
    assert diarization_errors(reference, [Turn(0.0, 10.0, "x"), Turn(10.0, 20.0, "y")]).rate == 0.0
    errors = diarization_errors(reference, [Turn(0.0, 12.0, "x"), Turn(12.0, 18.0, "y"), Turn(20.0, 22.0, "y")], 0.0)
    assert errors == pytest.approx((2.0, 2.0, 2.0, 20.0)) and errors.rate == pytest.approx(0.3)
    assert diarization_errors(reference, [Turn(0.0, 10.2, "x"), Turn(10.2, 20.0, "y")]).rate == 0.0     # the collar
    with pytest.raises(Nnet3Error, match="no speech"):
        diarization_errors([], [])


def test_rttm() -> None:
    turns = [Turn(0.5, 1.25, "a"), Turn(1.25, 3.0, "b")]
    assert read_rttm("SPKR-INFO x\n\n" + rttm("my talk", turns)) == {"my_talk": turns}
    with pytest.raises(FormatError, match="line 2 is not SPEAKER"):
        read_rttm("SPEAKER a 1 0 1 <NA> <NA> x\nSPEAKER a 1 zero 1 <NA> <NA> x\n")
    with pytest.raises(UsageError, match="shift"):
        DiarizationOptions(shift=2.0).check()


def test_the_clustering_program(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    places = np.array([0.0, 5.0, 0.3, 5.5, 9.0])
    costs = np.abs(np.subtract.outer(places, places)).astype(np.float32)
    write_table(f"ark:{tmp_path / 'costs.ark'}", FLOAT_MATRIX, {"r": costs})
    write_table(f"ark:{tmp_path / 'scores.ark'}", FLOAT_MATRIX, {"r": -costs, "other": -costs})
    (tmp_path / "reco2utt").write_text("r u0 u1 u2 u3 u4\n")
    (tmp_path / "num").write_text("r 2\n")

    def labels(*options: str, table: str = "scores") -> list[str]:
        assert agglomerative_cluster.execute([*options, f"ark:{tmp_path / table}.ark", f"ark:{tmp_path / 'reco2utt'}",
                                              "ark,t:-"]) == 0
        return [" ".join(line.split()) for line in capfd.readouterr().out.splitlines()]

    assert labels("--threshold=-1") == ["u0 2", "u1 3", "u2 2", "u3 3", "u4 1"]
    assert labels("--threshold=1", "--read-costs", table="costs") == labels("--threshold=-1")
    assert labels(f"--reco2num-spk-rspecifier=ark:{tmp_path / 'num'}") == ["u0 1", "u1 2", "u2 1", "u3 2", "u4 2"]
    assert labels("--threshold=-1", "--first-pass-max-utterances=3") == ["u0 1", "u1 3", "u2 1", "u3 3", "u4 2"]
    assert agglomerative_cluster.execute(["--max-spk-fraction=0", "ark:a", "ark:b", "ark:c"]) != 0
