"""Commands of RNN language models against what Kaldi's made; nbest-to-lattice; errors."""
from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from io_samples import read_table
from lattice_cases import LATTICE_DATA, check_same_words, ways
from rnnlm_cases import BOS, EOS, RNNLM_DATA, rnnlm_lattices, scores

from nnet3py.cli.main import load
from nnet3py.formats.holders import read_matrix_file
from nnet3py.io.tables import SequentialReader
from nnet3py.transducers.lattice import COMPACT_LATTICES

COST, PRINTED = 2.0e-3, 1.0e-4
SYMBOLS = f"--bos-symbol={BOS} --eos-symbol={EOS}"


@pytest.fixture
def work(here: Path) -> Path:
    shutil.copytree(RNNLM_DATA, here, dirs_exist_ok=True)
    shutil.copy(LATTICE_DATA / "graph-grammar" / "G.fst", here)
    shutil.copy(LATTICE_DATA / "const-arpa" / "G.carpa", here)
    return here


def run(command: str) -> int:
    name, *words = command.split()
    return load(name).execute(words)


@pytest.mark.parametrize("binary", ["true", "false"])
def test_embedding(work: Path, binary: str) -> None:
    assert run(f"rnnlm-get-word-embedding --binary={binary} word_feats.txt feat_embedding.mat out.mat") == 0
    assert ((work / "out.mat").read_bytes()[:2] == b"\0B") == (binary == "true")
    np.testing.assert_allclose(read_matrix_file("out.mat"), read_matrix_file("word_embedding.mat"), atol=1e-6)


@pytest.mark.parametrize(("name", "option", "result"), [
    ("lstm", "", "probs"), ("lstm", "--normalize-probs=true", "normalized"), ("tdnn", "", "probs"),
    ("tdnn", "--normalize-probs=true", "normalized")])
def test_sentence_probs(work: Path, capsys: pytest.CaptureFixture[str], name: str, option: str, result: str) -> None:
    assert run(f"rnnlm-sentence-probs {SYMBOLS} {option} {name}.raw word_embedding.mat text.int") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["a", "b", "c", "d"]
    for line in lines:
        key, *values = line.split(" ")
        np.testing.assert_allclose([float(value) for value in values], scores(f"{result}-{name}.txt")[key],
                                   atol=PRINTED)
        assert all(len(value.lstrip("-").replace(".", "").lstrip("0")) <= 6 for value in values)


def test_many_sentences(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (work / "many.int").write_text("".join(f"u{k} {1 + k % 14} {1 + k % 3}\n" for k in range(600)))
    assert run(f"rnnlm-sentence-probs {SYMBOLS} lstm.raw word_embedding.mat many.int") == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [row[0] for row in rows] == [f"u{k}" for k in range(600)] and rows[42][1:] == rows[0][1:] != rows[1][1:]


def test_test_mode_is_the_default(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Dropout in training mode draws another mask for each word."""
    from nnet3py.network.nnet import Nnet

    Nnet.from_config("""
        input-node name=input dim=12
        component name=d type=DropoutComponent dim=12 dropout-proportion=0.5
        component-node name=d component=d input=input
        component name=a type=AffineComponent input-dim=12 output-dim=12
        component-node name=a component=a input=d
        output-node name=output input=a""", seed=1).write("dropout.raw")
    found = []
    for option in ("", "--batchnorm-test-mode=false", "--dropout-test-mode=false"):
        assert run(f"rnnlm-sentence-probs {SYMBOLS} {option} dropout.raw word_embedding.mat text.int") == 0
        found.append(capsys.readouterr().out)
    assert found[0] == found[1] != found[2]


@pytest.mark.parametrize(("command", "result", "inside"), [
    ("lattice-lmrescore-kaldi-rnnlm --normalize-probs=true word_embedding.mat lstm.raw ark:no-lm.ark", "rescore-lstm",
     4.0),
    ("lattice-lmrescore-kaldi-rnnlm --max-ngram-order=4 --lm-scale=0.6 word_embedding.mat tdnn.raw ark:decoded.ark",
     "rescore-tdnn-order4", 4.0),
    ("lattice-lmrescore-kaldi-rnnlm-pruned --acoustic-scale=1.0 --normalize-probs=true G.fst word_embedding.mat "
     "lstm.raw ark:decoded.ark", "pruned-lstm", 5.4),
    ("lattice-lmrescore-kaldi-rnnlm-pruned --acoustic-scale=0.5 --use-const-arpa=true --max-ngram-order=4 "
     "--lattice-compose-beam=4 --lm-scale=0.8 G.carpa word_embedding.mat tdnn.raw ark:decoded.ark",
     "pruned-tdnn-const-arpa", 1.0)])
def test_lattices(work: Path, capsys: pytest.CaptureFixture[str], command: str, result: str, inside: float) -> None:
    name, rest = command.split(" ", 1)
    assert run(f"{name} --config=special_symbol_opts.conf {rest} ark:out.ark") == 0
    found = read_table("ark:out.ark", COMPACT_LATTICES)
    expected = rnnlm_lattices(result)
    assert found.keys() == expected.keys()
    for key, lattice in expected.items():
        check_same_words(found[key], lattice, COST, inside)
    done = "succeeded for 3 lattices, failed for 0" if "pruned" in name else "Done 3 lattices, failed for 0"
    assert done in capsys.readouterr().err


def test_lattices_without_a_path(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An old model of one word has none of the lattices' paths."""
    from nnet3py.transducers.fst import Fst
    from nnet3py.transducers.fst_text import write_fst_file

    write_fst_file("few.fst", Fst.from_arcs(0, [0.0], [0], [1], [1], [0.5], [0]))
    assert run(f"lattice-lmrescore-kaldi-rnnlm-pruned {SYMBOLS} few.fst word_embedding.mat lstm.raw ark:decoded.ark "
               "ark:out.ark") == 1
    messages = capsys.readouterr().err
    assert messages.count("Empty lattice for utterance") == 3 and "succeeded for 0 lattices, failed for 3" in messages


@pytest.mark.parametrize(("command", "message"), [
    ("rnnlm-sentence-probs --eos-symbol=17 lstm.raw word_embedding.mat text.int", "--bos-symbol is not given"),
    ("rnnlm-sentence-probs --bos-symbol=16 --eos-symbol=18 lstm.raw word_embedding.mat text.int",
     "--eos-symbol=18: expected a word's number, from 1 to 17"),
    (f"rnnlm-sentence-probs {SYMBOLS} lstm.raw word_embedding.mat letters.int",
     "letters.int: line 2: expected integer word ids .*'one 2'"),
    (f"rnnlm-sentence-probs {SYMBOLS} lstm.raw word_embedding.mat beyond.int", "no word 18"),
    (f"rnnlm-sentence-probs {SYMBOLS} lstm.raw narrow.mat text.int", "words have vectors of 3 numbers"),
    (f"lattice-lmrescore-kaldi-rnnlm {SYMBOLS} short.mat lstm.raw ark:decoded.ark ark:out.ark",
     "--bos-symbol=16: expected a word's number, from 1 to 3"),
    ("lattice-lmrescore-kaldi-rnnlm --bos-symbol=1 --eos-symbol=2 short.mat lstm.raw ark:decoded.ark ark:out.ark",
     "key en-029-.*: the language model has no word 1[0-4]"),
    ("lattice-lmrescore-kaldi-rnnlm-pruned --bos-symbol=1 --eos-symbol=2 G.fst short.mat lstm.raw ark:decoded.ark "
     "ark:out.ark", "no word 1[0-4]"),
    ("rnnlm-get-word-embedding words.txt feat_embedding.mat out.mat", "line 1 of a file of word features"),
])
def test_errors(work: Path, capfd: pytest.CaptureFixture[str], command: str, message: str) -> None:
    (work / "letters.int").write_text("a 3\nb one 2\n")
    (work / "beyond.int").write_text("a 3 18\n")
    (work / "narrow.mat").write_text(" [ 0 0 0\n 1 2 3 ]\n")
    (work / "short.mat").write_text(" [" + "".join(" 0" * 12 + "\n" for _ in range(4)) + " ]\n")
    assert run(command) == 255
    errors = capfd.readouterr().err
    assert re.search(message, errors) and "Traceback" not in errors


def test_best_paths_are_united(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("lattice-to-nbest --n=5 ark:decoded.ark ark:nbest.ark") == 0
    assert run("nbest-to-lattice ark:nbest.ark ark:united.ark") == 0
    with SequentialReader("ark:nbest.ark", COMPACT_LATTICES) as paths, \
            SequentialReader("ark:united.ark", COMPACT_LATTICES) as united:
        expected: dict[str, list] = {}
        for key, path in paths:
            expected.setdefault(key.rpartition("-")[0], []).extend(ways(path))
        found = {key: ways(lattice) for key, lattice in united}
    assert {key: sorted(each) for key, each in found.items()} == {key: sorted(each) for key, each in expected.items()}
    count = sum(map(len, expected.values()))
    assert (f"Done joining n-best into lattices for 3 utterances, with on average {count / 3:g} N-best paths per "
            "utterance.") in capsys.readouterr().err
    (work / "bad.ark").write_bytes((work / "nbest.ark").read_bytes().replace(b"en-029-belinda-03-1 ", b"enO029 ", 1))
    assert run("nbest-to-lattice ark:bad.ark ark:united.ark") == 255
    assert "'enO029' is not the key of an n-best entry" in capsys.readouterr().err
