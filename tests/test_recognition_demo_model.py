"""The demo model that comes with nnet3py: complete, small, and able to recognize a recording."""
from __future__ import annotations

import re
from pathlib import Path

from paths import DATA, ROOT

import nnet3py
from nnet3py.recognition.model_folder import demo_folder
from nnet3py.recognition.sound import open_sound

FILES = {"am/final.mdl", "conf/mfcc.conf", "conf/model.conf", "graph/HCLG.fst", "graph/words.txt", "graph/phones.txt",
         "graph/phones/word_boundary.int", "ivector/final.ie", "ivector/final.dubm", "ivector/final.mat",
         "ivector/global_cmvn.stats", "ivector/splice.conf", "ivector/online_cmvn.conf", "README.md",
         "graph-lookahead/HCLr.fst", "graph-lookahead/Gr.fst", "graph-lookahead/disambig_tid.int"}
LARGEST = 10_000_000            # bytes, of all files together
RECORDING, WORDS = DATA / "demo.wav", "set a timer for ten minutes"


def test_its_files() -> None:
    folder = Path(demo_folder())
    found = {str(path.relative_to(folder)): path.stat().st_size for path in folder.rglob("*") if path.is_file()}
    assert set(found) == FILES and sum(found.values()) < LARGEST
    assert all(size for name, size in found.items() if name != "ivector/online_cmvn.conf")


def test_they_are_installed() -> None:
    listed = (ROOT / "setup.cfg").read_text()
    patterns = [line.strip() for line in listed.splitlines() if line.strip().startswith("demo_model/")]
    place = ROOT / "nnet3py" / "recognition"
    assert {str(path.relative_to(place / "demo_model")) for pattern in patterns for path in place.glob(pattern)
            if path.is_file()} == FILES


def test_a_recording() -> None:
    recognizer = nnet3py.Recognizer(demo_folder())
    assert re.fullmatch(r"<Recognizer: .*final\.mdl, [\d,]+ words, 16000 samples a second>", repr(recognizer))
    result = recognizer.transcribe(RECORDING)
    assert result.text == WORDS
    assert [word.word for word in result.words] == WORDS.split()
    assert all(word.confidence > 0.5 for word in result.words)
    assert all(one.end <= other.start + 0.03 for one, other in zip(result.words, result.words[1:], strict=False))


def test_phrases_and_boosted_words() -> None:
    """By its second graph, which is loaded when it is needed."""
    recognizer = nnet3py.Recognizer(demo_folder())
    assert recognizer.transcribe(RECORDING, phrases=[WORDS, "turn on the light"]).text == WORDS
    assert set(recognizer.transcribe(RECORDING, phrases=["turn on the light"]).text.split()) == set(
        "turn on the light".split())
    assert recognizer.transcribe(RECORDING, boost={"light": 0.0}).text == WORDS
    sound = open_sound(str(RECORDING))
    stream = recognizer.stream(sound.rate, phrase_list=["turn on the light", "fivefold"])
    for block in sound.blocks():
        stream.accept_waveform(block)
    assert set(stream.finish().text.split()) <= {"turn", "on", "the", "light"}
