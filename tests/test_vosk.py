"""Programs that use vosk's Python interface: their answers, states, settings; beside vosk itself, letter by letter."""
from __future__ import annotations

import importlib.util
import io
import json
import logging
import os
import re
import subprocess
import sys
import wave
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from recognition_cases import PACKAGE, RATE, SOUNDS, dialogue, samples_of
from test_recognition_lookahead import write_package

from nnet3py import vosk
from nnet3py.cli.process.command import load
from nnet3py.recognition.results import TimedAlternative, Word
from nnet3py.transducers.fst import Fst
from nnet3py.transducers.fst_text import write_fst_file
from nnet3py.vosk.recognizer import (
    EMPTY,
    EMPTY_ALTERNATIVES,
    EMPTY_NLSML,
    alternatives_text,
    dump,
    nlsml_text,
    partial_words_text,
    result_text,
    subtitles,
)
from nnet3py.vosk.transcriber import Task, blocks, formatted, tasks

ROOT = Path(__file__).parent.parent
PIECE = 3000                               # samples: less than a step, so that steps are cut
NUMBER = re.compile(r"-?\d+\.\d+")
NUMBERS = 0.02                             # times, confidences and costs of the same paths
UNFINISHED = 3                             # partial results with a word that is not over, whose end is another
PROGRAM = """
import sys
from vosk import Model, KaldiRecognizer, SetLogLevel
SetLogLevel(-1)
model = Model(sys.argv[1])
sound = sys.stdin.buffer.read()
for words, partial_words, alternatives, nlsml in ((0, 0, 0, 0), (1, 1, 0, 0), (1, 0, 2, 0), (0, 0, 2, 1)):
    recognizer = KaldiRecognizer(model, 16000)
    recognizer.SetWords(words)
    recognizer.SetPartialWords(partial_words)
    recognizer.SetMaxAlternatives(alternatives)
    recognizer.SetNLSML(nlsml)
    print(recognizer.Result(), recognizer.PartialResult())
    for begin in range(0, len(sound), 6000):
        ended = recognizer.AcceptWaveform(sound[begin:begin + 6000])
        print(ended, recognizer.Result() if ended else recognizer.PartialResult())
    print(recognizer.FinalResult(), recognizer.FinalResult(), recognizer.PartialResult())
    recognizer.AcceptWaveform(sound[:40000])
    recognizer.Reset()
    recognizer.AcceptWaveform(sound[40000:90000])
    print(recognizer.FinalResult())
print(model.vosk_model_find_word("five"), model.vosk_model_find_word("fivefold"))
"""


@pytest.fixture(scope="module")
def model() -> vosk.Model:
    return vosk.Model(str(PACKAGE))


def test_the_same_program_with_vosk(tmp_path: Path) -> None:
    """What is not a number is the same letter by letter, numbers nearly so."""
    if importlib.util.find_spec("vosk") is None:
        pytest.skip("needs vosk (the extra test-published)")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    ours, theirs = (subprocess.run([sys.executable, *words, str(program), str(PACKAGE)], input=dialogue().tobytes(),
                                   stdout=subprocess.PIPE, check=True, cwd=ROOT).stdout.decode()
                    for words in (["-m", "nnet3py.vosk"], []))
    assert NUMBER.sub("#", ours) == NUMBER.sub("#", theirs)
    differ = [abs(float(one) - float(other)) > NUMBERS for one, other in zip(
        NUMBER.findall(ours), NUMBER.findall(theirs), strict=True)]
    assert sum(differ) <= UNFINISHED
    assert theirs.count("partial_result") >= 3 and theirs.count("<interpretation") > 5


def test_states(model: vosk.Model) -> None:
    recognizer = vosk.KaldiRecognizer(model, RATE)
    recognizer.SetWords(True)
    assert recognizer.Result() == recognizer.FinalResult() == recognizer.PartialResult() == EMPTY
    sound = samples_of(SOUNDS[0]).tobytes()
    whole = sound + bytes(RATE)
    assert recognizer.AcceptWaveform(whole) in (0, 1)
    first = json.loads(recognizer.Result())
    assert recognizer.Result() == EMPTY and first["text"]
    recognizer.AcceptWaveform(whole)
    second = json.loads(recognizer.FinalResult())
    shift = len(whole) / 2 / RATE
    assert second["result"][0]["start"] >= first["result"][-1]["end"]
    recognizer.AcceptWaveform(sound)                          # everything begins anew but the clock
    third = json.loads(recognizer.FinalResult())
    assert third["result"][0]["start"] == pytest.approx(first["result"][0]["start"] + 2 * shift, abs=0.1)
    for setting, empty in ((recognizer.SetMaxAlternatives, EMPTY_ALTERNATIVES), (recognizer.SetNLSML, EMPTY_NLSML)):
        setting(1)
        assert recognizer.Result() == empty


def answers(model: vosk.Model, between: tuple[str, ...] = (), dropped: bool = False) -> list[str]:
    """The answers to a sound said twice, with words, after each of which some results are asked for."""
    recognizer = vosk.KaldiRecognizer(model, RATE)
    recognizer.SetWords(True)
    sound, texts = samples_of(SOUNDS[0]).tobytes(), []
    for _ in range(2):
        recognizer.AcceptWaveform(sound)
        if dropped:
            recognizer.Reset()
            recognizer.AcceptWaveform(sound)
        texts.append(recognizer.Result())
        assert [getattr(recognizer, name)() for name in between] == [EMPTY] * len(between)
    return texts


def test_results_of_nothing_change_nothing(model: vosk.Model) -> None:
    assert answers(model, ("PartialResult", "FinalResult", "Result")) == answers(model)


def test_what_is_discarded_is_in_no_result(model: vosk.Model) -> None:
    assert [json.loads(text)["text"] for text in answers(model, dropped=True)] == [
        json.loads(text)["text"] for text in answers(model)]
    recognizer = vosk.KaldiRecognizer(model, RATE)
    recognizer.AcceptWaveform(samples_of(SOUNDS[0]).tobytes())
    recognizer.Reset()
    assert recognizer.Result() == recognizer.PartialResult() == recognizer.FinalResult() == EMPTY


def test_a_long_stream_begins_anew_after_a_result(model: vosk.Model, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same sound then gives the same confidences, by the clock of the first stream."""
    whole = [json.loads(text)["result"] for text in answers(model)]
    monkeypatch.setattr("nnet3py.vosk.recognizer._MOST_FRAMES", 0)
    anew = [json.loads(text)["result"] for text in answers(model)]
    shift = len(samples_of(SOUNDS[0])) / RATE
    assert anew[1] == [word | {part: pytest.approx(word[part] + shift, abs=1e-5) for part in ("start", "end")}
                       for word in anew[0]]
    assert anew[0] == whole[0] and [word["conf"] for word in whole[1]] != [word["conf"] for word in whole[0]]


@pytest.mark.parametrize(("settings", "parts", "of_word"), [
    ({}, {"text"}, None),
    ({"SetPartialWords": True, "SetNLSML": True}, {"text"}, None),
    ({"SetWords": True}, {"text", "result"}, {"word", "start", "end", "conf"}),
    ({"SetMaxAlternatives": 1}, {"text", "confidence"}, None),
    ({"SetMaxAlternatives": 1, "SetWords": True}, {"text", "confidence", "result"}, {"word", "start", "end"})])
def test_parts_of_answers(model: vosk.Model, settings: dict[str, int], parts: set[str], of_word: set[str]) -> None:
    recognizer = vosk.KaldiRecognizer(model, RATE)
    for name, value in settings.items():
        getattr(recognizer, name)(value)
    recognizer.AcceptWaveform(dialogue().tobytes()[:100000])
    partial = json.loads(recognizer.PartialResult())
    assert set(partial) == ({"partial", "partial_result"} if "SetPartialWords" in settings else {"partial"})
    answer = json.loads(recognizer.FinalResult())
    answer, = answer.get("alternatives", [answer])
    assert set(answer) == parts and answer["text"]
    assert {*answer.get("result", [{}])[0]} == (of_word or set())


def test_endpoints(model: vosk.Model) -> None:
    assert {mode.name: mode.value for mode in vosk.EndpointerMode} == {
        "DEFAULT": 0, "SHORT": 1, "LONG": 2, "VERY_LONG": 3}                # vosk's
    ends = {}
    for mode in vosk.EndpointerMode:
        recognizer = vosk.KaldiRecognizer(model, RATE)
        recognizer.SetEndpointerMode(mode)
        ends[mode.name] = next((begin for begin in range(0, len(dialogue()), PIECE) if recognizer.AcceptWaveform(
            dialogue()[begin:begin + PIECE].tobytes())), len(dialogue()))
    assert ends["SHORT"] <= ends["DEFAULT"] <= ends["LONG"] <= ends["VERY_LONG"] and ends["SHORT"] < ends["VERY_LONG"]
    recognizer.SetEndpointerDelays(5.0, 30.0, 0.4)
    assert [recognizer.AcceptWaveform(bytes(6400)) for _ in range(4)][-1] == 1, "the longest utterance"


def test_phrase_lists(tmp_path: Path, model: vosk.Model, caplog: pytest.LogCaptureFixture) -> None:
    sound = samples_of(SOUNDS[1]).tobytes()
    plain = vosk.KaldiRecognizer(model, RATE, '["two [unk]"]')
    assert "A phrase list has no effect" in caplog.text
    plain.AcceptWaveform(sound)
    assert json.loads(plain.FinalResult())["text"]
    lookahead = vosk.Model(str(write_package(tmp_path / "model")))
    caplog.clear()
    recognizer = vosk.KaldiRecognizer(lookahead, RATE, '["two  nine", "zebra"]')
    assert "the model does not know are left out: zebra" in caplog.text
    recognizer.AcceptWaveform(sound)
    with pytest.raises(Exception, match="already running"):
        recognizer.SetGrammar("[]")
    said = json.loads(recognizer.FinalResult())["text"].split()
    assert said and set(said) <= {"two", "nine"}
    recognizer.SetGrammar("[]")
    recognizer.AcceptWaveform(sound)
    assert set(json.loads(recognizer.FinalResult())["text"].split()) - {"two", "nine"}


def test_what_cannot_be_made(model: vosk.Model, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(Exception, match="Failed to create a model"):
        vosk.Model(str(tmp_path))
    assert "cannot be used for recognition" in caplog.text
    with pytest.raises(Exception, match="Failed to create a speaker model"):
        vosk.SpkModel(str(tmp_path))
    with pytest.raises(Exception, match="Failed to create a recognizer"):
        vosk.KaldiRecognizer(model, RATE, "two nine")
    assert "expected a phrase list, a JSON list of texts" in caplog.text
    for args in ((model,), (model, RATE, 5), (str(PACKAGE), RATE)):
        with pytest.raises(TypeError, match="Unknown arguments"):
            vosk.KaldiRecognizer(*args)
    for kind in (vosk.BatchModel, vosk.BatchRecognizer):
        with pytest.raises(NotImplementedError, match="use Model and KaldiRecognizer"):
            kind("model")


def test_layout_of_json() -> None:
    assert dump({"b": [{"x": 1.0, "a": 'q"\n'}, {"x": 2}], "a": ""}) == (
        '{\n  "a" : "",\n  "b" : [{\n      "a" : "q\\"\\n",\n      "x" : 1.000000\n    }, {\n      "x" : 2\n    }]\n}')


def test_texts_of_results() -> None:
    words = (Word("five", 0.25, 0.5, 0.75), Word("six", 0.5, 1.0, 1.0))
    alternatives = [TimedAlternative("five six", 12.3456789, words), TimedAlternative("", 2.0, ())]
    result = SimpleNamespace(text="five six", words=words, speaker=np.array([0.5, -1.0]), speaker_frames=7,
                             alternatives=lambda count: alternatives[:count])
    nobody = SimpleNamespace(text="", words=(), speaker=None, alternatives=result.alternatives)
    speaker = {"spk": [0.5, -1.0], "spk_frames": 7}
    times = [{"word": "five", "start": 10.25, "end": 10.5}, {"word": "six", "start": 10.5, "end": 11.0}]
    timed = [word | {"conf": conf} for word, conf in zip(times, (0.75, 1.0), strict=True)]
    assert json.loads(result_text(result, 10.0, True)) == {"text": "five six", "result": timed, **speaker}
    assert json.loads(result_text(result, 10.0, False)) == {"text": "five six", **speaker}
    assert json.loads(result_text(nobody, 10.0, True)) == {"text": ""}
    both = [{"text": "five six", "confidence": 12.345679, "result": times}, {"text": "", "confidence": 2.0}]
    assert json.loads(alternatives_text(result, 2, 10.0, True)) == {"alternatives": both, **speaker}
    assert json.loads(alternatives_text(nobody, 1, 10.0, False)) == {
        "alternatives": [{"text": "five six", "confidence": 12.345679}]}
    assert json.loads(partial_words_text(words, 10.0)) == {"partial": "five six", "partial_result": timed}
    assert json.loads(partial_words_text((), 10.0)) == {"partial": ""}
    assert nlsml_text(alternatives) == (
        '<?xml version="1.0"?>\n<result grammar="default">\n'
        '<interpretation grammar="default" confidence="12.3457">\n<input mode="speech">five six</input>\n'
        '<instance>five six</instance>\n</interpretation>\n'
        '<interpretation grammar="default" confidence="2">\n<input mode="speech"></input>\n<instance></instance>\n'
        "</interpretation>\n</result>\n")


def test_subtitles(model: vosk.Model) -> None:
    words = [{"word": f"w{place}", "start": 3661.2 + place, "end": 3661.9999 + place} for place in range(3)]
    assert subtitles([{"text": ""}, {"result": words}], 2) == (
        "1\n01:01:01,200 --> 01:01:02,999\nw0 w1\n\n2\n01:01:03,200 --> 01:01:03,999\nw2\n\n")
    recognizer = vosk.KaldiRecognizer(model, RATE)
    recognizer.SetWords(True)
    assert recognizer.SrtResult(io.BytesIO(dialogue().tobytes())).startswith("1\n00:00:00,000 --> 00:00:01,680\nfive ")


def test_text_processor(tmp_path: Path) -> None:
    """Two transducers of bytes: a becomes b, b becomes x."""
    pytest.importorskip("kaldifst", reason="the extra decode")
    for name, pairs in (("tagger", {"a": "b"}), ("verbalizer", {"b": "x"})):
        letters = {byte: byte for byte in range(1, 256)}
        letters |= {ord(key): ord(value) for key, value in pairs.items()}
        write_fst_file(tmp_path / name, Fst.from_arcs(0, [0.0], np.zeros(255), list(letters), list(letters.values()),
                                                     np.zeros(255), np.zeros(255)))
    processor = vosk.Processor(str(tmp_path / "tagger"), str(tmp_path / "verbalizer"))
    assert processor.process("a bé") == "x xé" and processor.process("") == ""
    with pytest.raises(Exception, match="Failed to create processor"):
        vosk.Processor(str(tmp_path / "none"), str(tmp_path / "none"))


def test_programs_that_are_not_there() -> None:
    done = subprocess.run([sys.executable, "-m", "nnet3py.vosk", "nowhere.py"], capture_output=True, text=True,
                          cwd=ROOT)
    assert done.returncode == 1 and done.stderr == "python -m nnet3py.vosk: there is no program nowhere.py\n"
    for words, status in (([], 2), (["-m"], 2), (["-h"], 0), (["--help"], 0)):
        done = subprocess.run([sys.executable, "-m", "nnet3py.vosk", *words], capture_output=True, text=True, cwd=ROOT)
        usage, nothing = (done.stderr, done.stdout) if status else (done.stdout, done.stderr)
        assert (done.returncode, nothing) == (status, "")
        assert usage == ("usage: python -m nnet3py.vosk PROGRAM [ARGUMENT ...]\n"
                         "   or: python -m nnet3py.vosk -m MODULE [ARGUMENT ...]\n")


def test_programs_import_what_is_beside_them(tmp_path: Path) -> None:
    folder = tmp_path / "programs"
    folder.mkdir()
    (folder / "beside.py").write_text("NAME = 'beside'\n")
    (folder / "program.py").write_text("import sys\nimport vosk\nfrom beside import NAME\n"
                                       "print(NAME, vosk.__name__, sys.argv[1:])\n")
    for program, place, words in (([str(folder / "program.py")], tmp_path, []),
                                         ([str(folder / "program.py")], tmp_path, ["x"]),
                                         (["-m", "program"], folder, ["x", "-m"])):
        done = subprocess.run([sys.executable, "-m", "nnet3py.vosk", *program, *words], capture_output=True, text=True,
                              cwd=place, env={**os.environ, "PYTHONPATH": str(ROOT)})
        assert (done.stdout, done.stderr) == (f"beside nnet3py.vosk {words}\n", "")


def test_words_have_numbers(model: vosk.Model) -> None:
    number = model.vosk_model_find_word("five")
    assert f"five {number}" in (PACKAGE / "graph" / "words.txt").read_text().splitlines()
    assert model.vosk_model_find_word("fivefold") == -1


def test_sound_in_blocks(tmp_path: Path) -> None:
    """Of an eighth of a second, the last one shorter; samples are those of the file."""
    path, samples = tmp_path / "sound.wav", np.random.default_rng(1).integers(-32768, 32768, 2500).astype("<i2")
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, 8000, 0, "NONE", ""))
        file.writeframes(samples.tobytes())
    rate, pieces = blocks(path)
    assert rate == 8000 and list(pieces) == [samples[:1000].tobytes(), samples[1000:2000].tobytes(),
                                             samples[2000:].tobytes()]


def test_tasks_of_a_file_or_a_folder(tmp_path: Path) -> None:
    for name in ("b.wav", "a.flac"):
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "folder").mkdir()
    assert tasks(str(tmp_path), "out", "srt") == [Task(tmp_path / "a.flac", str(Path("out", "a.srt"))),
                                                  Task(tmp_path / "b.wav", str(Path("out", "b.srt")))]
    assert tasks(str(tmp_path / "b.wav"), "", "srt") == [Task(tmp_path / "b.wav", "")]


def test_forms_of_transcripts() -> None:
    said = [{"word": word, "start": start, "end": start + 0.5, "conf": 0.25}
            for start, word in enumerate(("fünf", "six", "two"))]
    results = [{"text": "fünf six two", "result": said}, {"text": ""}, {"text": "nine"}, {}]
    assert formatted(results, "txt") == "fünf six two\nnine\n"
    assert formatted(results, "srt") == "1\n00:00:00,000 --> 00:00:02,500\nfünf six two\n\n"
    whole = formatted(results, "json")
    assert "fünf" in whole and json.loads(whole) == {
        "schemaVersion": "2.0", "text": ["fünf six two", "nine"], "monologues": [{
            "speaker": {"id": "unknown", "name": None}, "start": 0, "end": 2.5, "terms": [
                {"confidence": 0.25, "start": start, "end": start + 0.5, "text": word, "type": "WORD"}
                for start, word in enumerate(("fünf", "six", "two"))]}]}


def test_transcriber_writes_what_is_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = load("vosk-transcriber")
    assert command.execute(["-m", str(PACKAGE), "-i", str(SOUNDS[0].parent), "-o", str(tmp_path / "out"), "-t", "json",
                            "-ts", "2"]) == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["utt1.json", "utt2.json", "utt3.json"]
    found = json.loads((tmp_path / "out" / "utt1.json").read_text())
    terms = found["monologues"][0]["terms"]
    assert found["text"] and " ".join(term["text"] for term in terms) in found["text"][0]
    broken = tmp_path / "broken.wav"
    broken.write_bytes(b"RIFF")
    assert command.execute(["-m", str(PACKAGE), "-i", str(broken)]) == 1
    assert command.execute(["-m", str(PACKAGE), "-i", str(tmp_path / "none")]) != 0
    assert "there is no file or folder" in capsys.readouterr().err


@pytest.mark.parametrize(("level", "wanted"), [
    (-1, logging.CRITICAL + 1), (0, logging.INFO), (1, logging.DEBUG), (2, logging.DEBUG)])
def test_levels_of_logging(level: int, wanted: int, monkeypatch: pytest.MonkeyPatch) -> None:
    logger = logging.getLogger("nnet3py")
    before = logger.level
    monkeypatch.setattr("nnet3py.vosk.recognizer.show_log", lambda: None)
    try:
        vosk.SetLogLevel(level)
        assert logger.level == wanted
    finally:
        logger.setLevel(before)
