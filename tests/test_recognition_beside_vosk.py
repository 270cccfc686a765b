"""Packages by the public vosk and by ours: an old one, normalized input, rescoring (the extra test-published)."""
from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from recognition_cases import CHUNK, PACKAGE, RATE, dialogue
from rnnlm_cases import rnnlm_folder
from vosk_results import vosk_results

from nnet3py.cli.fst.make_graph import arpa_to_const_arpa
from nnet3py.io.streams import open_output
from nnet3py.io.tokens import TokenWriter
from nnet3py.recognition.recognizer import Recognizer
from nnet3py.recognition.results import Result
from nnet3py.rnnlm.training.run import train_rnnlm
from nnet3py.transducers.fst import Fst
from nnet3py.transducers.fst_binary import write_binary_fst

PIECE = 2880                 # samples: what vosk is given is also what our streams decode at a time
SECONDS = 0.05               # most are equal to the microsecond; where two paths cost the same, means of times are not
CONFIDENCE = 1.0e-3
NUM_WORDS, BEGIN, END = 10, 11, 12


def flat(folder: Path) -> None:
    """As old packages are: all in one folder, without options of decoding."""
    for name in ("am/final.mdl", "graph/HCLG.fst", "graph/words.txt", "conf/mfcc.conf"):
        shutil.move(folder / name, folder)
    for name in ("am", "graph", "conf"):
        shutil.rmtree(folder / name)


def normalized(folder: Path) -> None:
    """With normalization of the network's input."""
    shutil.copy(folder / "ivector" / "global_cmvn.stats", folder / "am")


def rescored(folder: Path) -> None:
    """With a unigram loop to be taken off, and a model of pairs of words to be added."""
    (folder / "rescore").mkdir()
    words = np.arange(1, NUM_WORDS + 1)
    none = np.zeros(NUM_WORDS, int)
    with open_output(folder / "rescore" / "G.fst") as stream:
        write_binary_fst(TokenWriter(stream, binary=True), Fst.from_arcs(
            0, [0.0], none, words, words, np.full(NUM_WORDS, np.log(NUM_WORDS)), none), "vector")
    pairs = [(one, (3 * one + step) % NUM_WORDS + 1) for one in words.tolist() for step in (0, 4)]
    unigrams = [f"{-1 - 0.07 * word:.2f}\t{word}\t-0.3" for word in words.tolist()]
    (folder / "g.arpa").write_text("\n".join([
        "\\data\\", f"ngram 1={NUM_WORDS + 2}", f"ngram 2={len(pairs)}", "\n\\1-grams:", f"-99\t{BEGIN}\t-0.1",
        *unigrams, f"-1.2\t{END}", "\n\\2-grams:", *(f"-0.5\t{one} {other}" for one, other in pairs), "\n\\end\\", ""]))
    assert arpa_to_const_arpa.execute([f"--bos-symbol={BEGIN}", f"--eos-symbol={END}", str(folder / "g.arpa"),
                                       str(folder / "rescore" / "G.carpa")]) == 0


def with_rnnlm(name: str, options: str = "") -> Callable[[Path], None]:
    """The same, and then rescored with a network; with one of them other words are recognized than without."""
    def change(folder: Path) -> None:
        rescored(folder)
        rnnlm_folder(folder / "rnnlm", name, options)
        (folder / "rnnlm" / "special_symbol_opts.txt").rename(folder / "rnnlm" / "special_symbol_opts.conf")
        (folder / "rnnlm" / "words.txt").unlink()         # they are others

    return change


def with_trained_rnnlm(folder: Path) -> None:
    """The same with a network that was trained here, on sentences in which each word has two that may follow."""
    rescored(folder)
    rng = np.random.default_rng(0)
    names = [line.split()[0] for line in (folder / "graph" / "words.txt").read_text().splitlines()][1:NUM_WORDS + 1]
    steps = np.cumsum(rng.integers(1, 3, (300, 6)), axis=1)
    sentences = [" ".join(names[step % NUM_WORDS] for step in row) for row in steps]
    (folder / "train.txt").write_text("".join(f"{sentence}\n" for sentence in sentences))
    train_rnnlm(folder / "train.txt", folder / "rnnlm", words=folder / "graph" / "words.txt", num_epochs=2,
                embedding_dim=16, num_lstm_layers=1, minibatch_words=128, initial_effective_lrate=0.01)


def check(found: Result, expected: dict[str, Any]) -> None:
    assert found.text == expected["text"]
    for word, other in zip(found.words, expected.get("result", []), strict=True):
        assert (word.start, word.end) == pytest.approx((other["start"], other["end"]), abs=SECONDS)
        assert word.confidence == pytest.approx(other["conf"], abs=CONFIDENCE)


@pytest.mark.parametrize("change", [flat, normalized, rescored, with_rnnlm("lstm"), with_rnnlm("tdnn"),
                                    with_rnnlm("lstm", "--normalize-probs=true"), with_trained_rnnlm],
                         ids=["flat", "normalized", "rescored", "lstm", "tdnn", "lstm-normalized", "trained"])
def test_results_are_vosks(tmp_path: Path, change: Callable[[Path], None]) -> None:
    folder = tmp_path / "model"
    shutil.copytree(PACKAGE, folder)
    change(folder)
    *theirs, (_, last) = vosk_results(folder, dialogue(), RATE, PIECE)
    stream = Recognizer(folder, options={"chunk-length": CHUNK}).stream()
    num_results = 0
    for first, (has_ended, expected) in zip(range(0, len(dialogue()), PIECE), theirs, strict=True):
        assert stream.accept_waveform(dialogue()[first:first + PIECE]) == has_ended
        if has_ended:
            check(stream.result(), expected)
            num_results += 1
        else:
            assert stream.partial == expected["partial"]
    assert num_results
    check(stream.finish(), last)
