"""egs/english_digits_and_commands: its grammar and speech, what makes the model folder, a small whole run."""
from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from paths import ROOT

RECIPE = ROOT / "egs" / "english_digits_and_commands"
NUM_WORDS = 574
NUM_PARTS = 3            # of the corpus without flite
needs_espeak = pytest.mark.skipif(shutil.which("espeak-ng") is None, reason="the corpus is spoken by espeak-ng")


@pytest.fixture
def corpus(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setattr(sys, "path", [*sys.path])
    spec = importlib.util.spec_from_file_location("english_corpus", RECIPE / "local" / "make_corpus.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "english_corpus", module)      # its dataclass asks for it
    spec.loader.exec_module(module)
    return module


def run(*words: object, timeout: float = 120.0) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=timeout,
                          env={**os.environ, "NNET3PY_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)})


def test_sentences(corpus: ModuleType) -> None:
    grammar = corpus.Grammar(RECIPE / "local" / "grammar.txt", 0)
    words = {word.lower() for word in grammar.words}
    assert len(words) == NUM_WORDS
    sentences = [corpus.transcript(grammar.sentence()) for _ in range(3000)]
    assert words.issuperset(" ".join(sentences).split())
    assert len(set(sentences)) > 1500 and 3 < np.mean([len(sentence.split()) for sentence in sentences]) < 6
    again = corpus.Grammar(RECIPE / "local" / "grammar.txt", 0)
    assert [corpus.transcript(again.sentence()) for _ in range(50)] == sentences[:50]
    assert all(re.fullmatch(r"[a-z']+", word) for word in words)


def test_a_rule_that_is_missing(corpus: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "grammar").write_text("sentence = a | 3* $other b\n")
    with pytest.raises(SystemExit, match=r"no rule for \$other"):
        corpus.Grammar(tmp_path / "grammar", 0)
    (tmp_path / "grammar").write_text("# words\nsentence = a\n  | 3* $other b\nother = C\n")
    grammar = corpus.Grammar(tmp_path / "grammar", 0)
    sentences = [corpus.transcript(grammar.sentence()) for _ in range(400)]
    assert set(sentences) == {"a", "c b"} and 250 < sentences.count("c b") < 350        # three of four


def test_voices_of_test_are_in_no_other_part(corpus: ModuleType) -> None:
    voices = {part: {speaker.voice.rpartition("+")[2] for speaker in corpus.speakers(part, 200, 0, True)}
              for part in ("train", "dev", "test", "flite")}
    assert voices["flite"] == {"rms"} and not voices["test"] & voices["train"] and not voices["flite"] & voices["train"]
    assert voices["dev"] <= {*corpus.VARIANTS, *corpus.FLITE_VOICES} and len(voices["train"]) > 40
    names = [speaker.name for speaker in corpus.speakers("train", 200, 0, True)]
    assert names == sorted(set(names))


def test_rooms_and_noise(corpus: ModuleType) -> None:
    rng = np.random.default_rng(0)
    sound = 3000.0 * np.sin(np.arange(8000) / 5.0).astype(np.float32)
    assert abs(len(corpus.longer(sound, 1.1)) - 8800) <= 2          # what lies behind the last sample is not made
    made = [corpus.recorded([sound, sound], sound, rng) for _ in range(30)]
    assert all(sound.dtype == np.float32 and np.isfinite(sound).all() for sound in made)
    assert all(0.03 < np.abs(sound).max() / corpus.LARGEST <= 0.9001 for sound in made)
    assert any((sound == 0.0).sum() > 500 for sound in made) and any((sound != 0.0).all() for sound in made)


@needs_espeak
def test_a_lexicon(corpus: ModuleType) -> None:
    lines = corpus.lexicon(["A", "B", "the", "yes"])
    assert "a eI" in lines and "b b i:" in lines and "yes j E s" in lines
    assert {line.split()[0] for line in lines} >= {"a", "b", "the", "yes"}


def test_a_model_folder(tmp_path: Path) -> None:
    files = {"graph/HCLG.fst": "g", "graph/words.txt": "w", "lang/phones/silence.csl": "1:2", "lang/phones.txt": "p",
             "lang/phones/word_boundary.int": "1 nonword", "extractor/final.ie": "i", "extractor/final.dubm": "u",
             "extractor/final.mat": "m", "extractor/global_cmvn.stats": "s",
             "extractor/splice_opts": "--left-context=3 --right-context=3"}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text + "\n")
    made = run(RECIPE / "local/make_package.sh", "--model", tmp_path / "chain", "--graph", tmp_path / "graph",
               "--lang", tmp_path / "lang", "--extractor", tmp_path / "extractor", "--conf", RECIPE / "conf",
               "--dir", tmp_path / "model")
    assert made.returncode == 1 and "chain/final.mdl" in made.stderr


@pytest.mark.slow
@needs_espeak
def test_the_whole_recipe(tmp_path: Path) -> None:
    pytest.importorskip("kaldifst", reason="words are decoded with the extra 'decode'")
    small = ("--num-speakers", 6, "--num-sentences", 6, "--num-start", 5, "--start-epochs", 1, "--num-text", 500,
             "--flite", "false", "--e2e-width", 64, "--width", 64, "--e2e-bottleneck", 16, "--bottleneck", 16,
             "--e2e-epochs", 1, "--e2e-minibatch", "8,4,2,1", "--num-epochs", 1, "--minibatch", "8,4,2,1",
             "--num-leaves", 60, "--num-gauss", 16, "--ivector-dim", 8,
             "--egs-opts", "--num-utts-subset 5 --num-egs-diagnostic 10 --num-train-egs-combine 10")
    done = run(RECIPE / "run.sh", "--dir", tmp_path / "exp", *small, timeout=1800.0)
    assert done.returncode == 0, done.stderr[-2000:]
    found = re.findall(r"^(dev|test|digits), small language model: %WER ([\d.]+) \[", done.stdout, re.MULTILINE)
    assert len(found) == NUM_PARTS and all(0.0 <= float(rate) <= 150.0 for _, rate in found)
    model = tmp_path / "exp" / "model"
    assert "--endpoint.silence-phones=1:2:3:4:5" in (model / "conf/model.conf").read_text().splitlines()
    assert (model / "am/final.mdl").stat().st_size > 0 and (model / "graph/phones/word_boundary.int").is_file()
