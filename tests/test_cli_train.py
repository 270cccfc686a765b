"""nnet3-train: on examples through a pipe, and directly on features and targets of the digits recipe."""
from __future__ import annotations

import math
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from command_lines import write_table
from digits_cases import CONFIG, NUM_PHONES, write_digits
from runtime_cases import assert_close, class_example, parameters, plain

from nnet3py.cli.egs.get import get_egs
from nnet3py.cli.training.train import train
from nnet3py.egs.example import EXAMPLE
from nnet3py.formats.holders import FLOAT_MATRIX, INT_VECTOR, POSTERIOR
from nnet3py.formats.posteriors import posterior_of_alignment
from nnet3py.io.tables import SequentialReader, TableWriter
from nnet3py.network.model_file import read_nnet
from nnet3py.network.nnet import Nnet

ROOT = Path(__file__).resolve().parent.parent
OBJECTIVE = re.compile(r"Overall average objective function for 'output' is (-?[\d.]+) over (\d+) frames\.")


@pytest.fixture
def folder(here):
    """The current folder: 0.raw and plain.raw, and a few merged examples plain.egs for the latter."""
    Nnet.from_config(CONFIG).write("0.raw")
    plain(objective="linear").write("plain.raw")
    write_table("ark:plain.egs", EXAMPLE, {f"eg{i}": class_example(seed=i) for i in range(6)})
    return here


def objective(text: str) -> float:
    match = OBJECTIVE.search(text)
    assert match, text
    return float(match[1])


def test_on_features_and_targets(folder, capfd):
    write_digits(folder)
    status = train.execute(["--feats=ark:feats.ark", "--targets=ark:ali.ark", "--num-epochs=3", "--minibatch-size=32",
                            "--learning-rate=0.01", "--final-learning-rate=0.001", "0.raw", "1.raw"])
    err = capfd.readouterr().err
    assert status == 0
    assert "Training on 3 utterances, failed for 0" in err
    rates = [float(rate) for rate in re.findall(r"Pass \d of 3 with learning rate (\S+)", err)]
    assert rates == [pytest.approx(0.01 * 0.1 ** (i / 3), rel=1e-5) for i in range(3)]
    assert -math.log(NUM_PHONES) + 0.5 < objective(err) < -0.1       # it learned more than the classes' number
    found, start = parameters(read_nnet("1.raw")), parameters(read_nnet("0.raw"))
    assert all(np.isfinite(value).all() for value in found.values())
    assert np.abs(found["b.linear_params"] - start["b.linear_params"]).max() > 0.01


def test_on_examples_through_a_pipe(folder, capfd, monkeypatch):
    """As a recipe does it: nnet3-get-egs, then nnet3-merge-egs in a pipe."""
    write_digits(folder)
    with TableWriter("ark:post.ark", POSTERIOR) as writer, SequentialReader("ark:ali.ark", INT_VECTOR) as reader:
        for name, labels in reader:
            writer.write(name, posterior_of_alignment(labels))
    assert get_egs.execute(["--num-pdfs=28", "--left-context=2", "--right-context=2", "--num-frames=8",
                            "ark:feats.ark", "ark:post.ark", "ark:0.egs"]) == 0
    monkeypatch.setenv("NNET3PY_PYTHON", sys.executable)
    monkeypatch.setenv("PATH", f"{ROOT / 'bin'}:{os.environ['PATH']}")
    status = train.execute(["--print-interval=2", "0.raw", "ark:nnet3-merge-egs --minibatch-size=16 ark:0.egs ark:-|",
                            "1.raw"])
    err = capfd.readouterr().err
    assert status == 0
    assert re.search(r"^LOG \(nnet3-train\[\S+\]:PrintStatsForThisPhase\(\):nnet-training.cc:\d+\) Average objective "
                     r"function for 'output' for minibatches 0-1 is -\d", err, re.MULTILINE)
    assert re.search(r"^LOG \(nnet3-train\[\S+\]:PrintTotalStats\(\):nnet-training.cc:\d+\) Overall average objective "
                     r"function for 'output' is -\d\S* over \d+ frames\.$", err, re.MULTILINE)
    assert re.search(r"\[this line is to be parsed by a script:\] log-prob-per-frame=-\d", err)
    assert re.search(r"^LOG \(nnet3-train\[\S+\]:main\(\):nnet3-train.cc:\d+\) Wrote model to 1.raw$", err,
                     re.MULTILINE)


def test_print_and_max_change_lines(folder, capfd):
    assert train.execute(["--max-param-change=0.01", "plain.raw", "ark:plain.egs", "1.raw"]) == 0
    err = capfd.readouterr().err
    assert len(re.findall(r"Global max-change factor was 0\.\d+ with max-change=0\.01\.", err)) == 6
    assert "The global max-change was enforced 100 % of the time." in err


def test_the_same_seed_writes_the_same_bytes(folder):
    write_digits(folder, 1)
    words = ["--feats=ark:feats.ark", "--targets=ark:ali.ark", "--srand=5", "--minibatch-size=1:16", "0.raw"]
    for out in ("1.raw", "2.raw"):
        assert train.execute([*words, out]) == 0
    assert (folder / "1.raw").read_bytes() == (folder / "2.raw").read_bytes()


def test_text_output(folder):
    assert train.execute(["--binary=false", "plain.raw", "ark:plain.egs", "text.raw"]) == 0
    assert train.execute(["plain.raw", "ark:plain.egs", "binary.raw"]) == 0
    assert (folder / "text.raw").read_bytes().startswith(b"<Nnet3>")
    text, binary = (parameters(read_nnet(name)) for name in ("text.raw", "binary.raw"))
    for name, value in binary.items():
        assert_close(text[name], value)


def test_options_reach_the_trainer(folder, capfd):
    assert train.execute(["--backstitch-training-scale=0.3", "--backstitch-training-interval=2", "plain.raw",
                          "ark:plain.egs", "1.raw"]) == 0
    assert "Overall average objective function for 'output_backstitch' is" in capfd.readouterr().err
    changed = []
    for options in (["--max-param-change=0"], ["--max-param-change=0", "--momentum=0.9"]):
        assert train.execute([*options, "plain.raw", "ark:plain.egs", "1.raw"]) == 0
        changed.append(parameters(read_nnet("1.raw"))["a.linear_params"])
    assert np.abs(changed[0] - changed[1]).max() > 1e-3


def test_nothing_to_train_on(folder):
    """Exit status 1, and the model is written all the same, as Kaldi does."""
    (folder / "empty.egs").write_bytes(b"")
    assert train.execute(["plain.raw", "ark:empty.egs", "1.raw"]) == 1
    for name, value in parameters(read_nnet("1.raw")).items():
        np.testing.assert_array_equal(value, parameters(read_nnet("plain.raw"))[name])


@pytest.mark.parametrize("words", [
    ["plain.raw"], ["plain.raw", "ark:plain.egs"], ["a", "b", "c", "d"], ["--feats=ark:x", "plain.raw", "1.raw"],
    ["--targets=ark:x", "plain.raw", "1.raw"], ["--feats=ark:x", "--targets=ark:y", "plain.raw", "ark:egs", "1.raw"],
    ["--momentum=-1", "plain.raw", "ark:plain.egs", "1.raw"], ["--no-such-option=1", "plain.raw", "ark:p", "1.raw"],
    ["--feats=ark:x", "--targets=ark:y", "--num-epochs=0", "plain.raw", "1.raw"],
    ["--feats=ark:x", "--targets=ark:y", "--final-learning-rate=0.1", "plain.raw", "1.raw"]])
def test_wrong_usage(folder, words):
    wrong_number = words[0] in ("plain.raw", "a") or "ark:egs" in words
    assert train.execute(words) == (1 if wrong_number else 255)
    assert not (folder / "1.raw").exists()


@pytest.mark.parametrize("damage", ["truncated", "garbage", "missing", "pipe"])
def test_a_failing_input_leaves_no_output(folder, damage, capfd):
    whole, source = (folder / "plain.egs").read_bytes(), "ark:bad.egs"
    if damage == "truncated":
        (folder / "bad.egs").write_bytes(whole[:-100])
    elif damage == "garbage":
        (folder / "bad.egs").write_bytes(whole[:len(whole) // 2] + b"rubbish" * 20)
    elif damage == "pipe":
        source = "ark:cat plain.egs; exit 3|"
    (folder / "1.raw").write_text("what was there before")
    assert train.execute(["plain.raw", source, "1.raw"]) == 255
    assert (folder / "1.raw").read_text() == "what was there before"
    err = capfd.readouterr().err
    assert err.count("ERROR (nnet3-train") == 1 and "Traceback" not in err and "internal error" not in err
    assert sorted(p.name for p in folder.iterdir() if "1.raw" in p.name) == ["1.raw"]      # no temporary file


def test_examples_of_another_network(folder, capfd):
    assert train.execute(["0.raw", "ark:plain.egs", "1.raw"]) == 255
    err = capfd.readouterr().err
    assert "ERROR (nnet3-train" in err and "internal error" not in err
    assert not (folder / "1.raw").exists()


def test_bad_numbers_in_features(folder, capfd):
    names = write_digits(folder, 2)
    write_table("ark:feats.ark", FLOAT_MATRIX, {names[0]: np.full((250, 40), np.nan, dtype=np.float32)})
    assert train.execute(["--feats=ark:feats.ark", "--targets=ark:ali.ark", "0.raw", "1.raw"]) == 255
    assert "no examples could be made: 0 utterances were used, 1 failed" in capfd.readouterr().err


def test_too_few_examples_for_a_minibatch_is_said(folder, capfd):
    write_digits(folder, 1)
    assert train.execute(["--feats=ark:feats.ark", "--targets=ark:ali.ark", "--minibatch-size=5000", "0.raw",
                          "1.raw"]) == 255
    assert "examples are too few for a minibatch of --minibatch-size=5000" in capfd.readouterr().err
    assert not (folder / "1.raw").exists()


@pytest.mark.parametrize("binary", ["true", "false"])
def test_cached_computations_are_used(folder, capfd, monkeypatch, binary):
    """The second run compiles nothing and trains the same."""
    words = ["plain.raw", "ark:plain.egs"]
    assert train.execute(["--write-cache=cache.1", f"--binary-write-cache={binary}", *words, "1.raw"]) == 0
    assert (folder / "cache.1").read_bytes().startswith(b"\0B" if binary == "true" else b"<NnetOptimizeOptions>")
    monkeypatch.setattr("nnet3py.compiler.cache.generate_computation", None)
    assert train.execute(["--read-cache=cache.1", "--write-cache=cache.2", *words, "2.raw"]) == 0
    assert (folder / "1.raw").read_bytes() == (folder / "2.raw").read_bytes()
    assert "WARNING" not in capfd.readouterr().err


@pytest.mark.parametrize("content, message", [
    (None, "Could not open cached computation. Probably this is the first training iteration."),
    (b"<Nnet3> ", "Could not read the cached computations, they will be compiled again: expected <NnetOptimizeOptions"),
    (b"\0B<NnetOptimizeOptions> <Opt", "Could not read the cached computations")])
def test_a_missing_or_damaged_cache_is_a_warning(folder, capfd, content, message):
    if content is not None:
        (folder / "cache.1").write_bytes(content)
    assert train.execute(["--read-cache=cache.1", "plain.raw", "ark:plain.egs", "1.raw"]) == 0
    assert message in capfd.readouterr().err


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="pseudo-terminals are POSIX's")
def test_on_a_terminal_it_shows_examples_a_second_and_the_time_left(folder):
    write_table("ark,scp:many.egs,many.scp", EXAMPLE, {f"eg{i}": class_example(seed=i) for i in range(300)})
    (folder / "long.scp").write_text((folder / "many.scp").read_text() * 10)
    for rspecifier in ("ark:many.egs", "scp:long.scp"):
        main, other = os.openpty()
        with subprocess.Popen([ROOT / "bin" / "nnet3-train", "plain.raw", rspecifier, "1.raw"],
                              env={**os.environ, "NNET3PY_PYTHON": sys.executable}, stdout=subprocess.DEVNULL,
                              stderr=other) as process:
            os.close(other)
            shown = read_until_closed(main)
        assert process.returncode == 0, shown
        if rspecifier.startswith("scp"):
            assert re.search(r"training: \d+ done, \d+ s, \d+ examples a second, 0:00:\d\d left", shown), shown
        assert OBJECTIVE.search(shown)


def read_until_closed(descriptor: int) -> str:
    """What a terminal was shown, until nobody has it open any more (which Linux tells by an error)."""
    data = b""
    try:
        while piece := os.read(descriptor, 1 << 16):
            data += piece
    except OSError:
        pass
    os.close(descriptor)
    return data.decode()
