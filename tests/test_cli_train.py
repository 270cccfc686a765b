"""nnet3-train, nnet3-compute-prob and others: lines, exit statuses, files; compiled computations that are kept."""
from __future__ import annotations

import math
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from digits_cases import CONFIG, NUM_PHONES, write_digits
from runtime_cases import PLAIN, TDNN, TDNN_CONTEXT, assert_close, class_example, dense_example, parameters, plain

from nnet3py.cli.egs.get import get_egs
from nnet3py.cli.nnet.compute import compute
from nnet3py.cli.training.train import compute_prob, train
from nnet3py.compiler import disk_cache
from nnet3py.egs.example import EXAMPLE
from nnet3py.formats.holders import FLOAT_MATRIX, INT_VECTOR, POSTERIOR
from nnet3py.formats.posteriors import posterior_of_alignment
from nnet3py.io.tables import SequentialReader, TableWriter, write_table
from nnet3py.network.model_file import read_nnet
from nnet3py.network.nnet import Nnet
from nnet3py.training.diagnostics import NnetDiagnostics

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


NORMALIZED = TDNN.replace("component name=s type=SigmoidComponent dim=4",
                          "component name=s type=BatchNormComponent dim=4")


def examples() -> list:
    left, right = TDNN_CONTEXT
    return [class_example(4, 3, seed=i, left=left, right=right) for i in range(3)]


@pytest.fixture
def prob_folder(here):
    """The current folder, with n.raw and its examples n.egs."""
    Nnet.from_config(TDNN).write("n.raw")
    write_table("ark:n.egs", EXAMPLE, {f"eg{i}": eg for i, eg in enumerate(examples())})
    return here


def numbers(err: str, what: str) -> tuple[float, float]:
    match = re.search(r"^LOG \(nnet3-compute-prob\[\S+\]:PrintTotalStats\(\):nnet-diagnostics.cc:\d+\) Overall "
                      rf"{what} for 'output' is (\S+) per frame, over (\S+) frames\.$", err, re.MULTILINE)
    assert match, err
    return float(match[1]), float(match[2])


@pytest.mark.parametrize("collapse", ["true", "false"])
def test_lines(prob_folder, capfd, collapse):
    diagnostics = NnetDiagnostics(Nnet.from_config(TDNN))
    for eg in examples():
        diagnostics.compute(eg)
    totals = diagnostics.outputs["output"]
    assert compute_prob.execute([f"--collapse-model={collapse}", "n.raw", "ark:n.egs"]) == 0
    err = capfd.readouterr().err
    assert numbers(err, "log-likelihood") == (pytest.approx(totals.objective / 36, rel=1e-5), 36)
    assert numbers(err, "accuracy") == (pytest.approx(totals.num_correct / 36, rel=1e-5), 36)


def test_accuracy_is_optional(prob_folder, capfd):
    assert compute_prob.execute(["--compute-accuracy=false", "n.raw", "ark:n.egs"]) == 0
    assert "accuracy for" not in capfd.readouterr().err
    assert compute_prob.execute(["--compute-per-dim-accuracy=true", "n.raw", "ark:n.egs"]) == 0
    err = capfd.readouterr().err
    assert re.search(r"Overall per-dim accuracy vector for 'output' is  \[( \S+){4} \]\n per frame, over 36 frames\.$",
                     err, re.MULTILINE)


def test_a_quadratic_output_has_an_objective(prob_folder, capfd):
    plain().write("q.raw")
    write_table("ark:q.egs", EXAMPLE, {"eg": dense_example()})
    assert compute_prob.execute(["q.raw", "ark:q.egs"]) == 0
    err = capfd.readouterr().err
    assert numbers(err, "objective")[0] < 0 and numbers(err, "objective")[1] == 6
    assert "Overall accuracy for 'output'" in err


def test_batchnorm_test_mode_uses_stored_statistics(prob_folder, capfd):
    nnet = Nnet.from_config(NORMALIZED)
    norm = vars(nnet.component("s"))
    norm["count"][:], norm["sum"][:], norm["sumsq"][:] = 10.0, 50.0, 300.0
    nnet.write("b.raw")
    found = []
    for mode in ("true", "false"):
        assert compute_prob.execute([f"--batchnorm-test-mode={mode}", "b.raw", "ark:n.egs"]) == 0
        found.append(numbers(capfd.readouterr().err, "log-likelihood")[0])
    assert abs(found[0] - found[1]) > 0.05


def test_exit_status_without_weight(prob_folder, capfd):
    (prob_folder / "empty.egs").write_bytes(b"")
    assert compute_prob.execute(["n.raw", "ark:empty.egs"]) == 1
    eg = examples()[0]
    eg.io[1].features = np.zeros((12, 4), dtype=np.float32)
    write_table("ark:zero.egs", EXAMPLE, {"eg": eg})
    assert compute_prob.execute(["n.raw", "ark:zero.egs"]) == 1
    assert "Overall log-likelihood for 'output' is nan per frame, over 0 frames." in capfd.readouterr().err


@pytest.mark.parametrize(("words", "status"), [
    (["n.raw"], 1), (["n.raw", "ark:n.egs", "x"], 1), (["n.raw", "ark:missing"], 255), (["missing", "ark:n.egs"], 255),
    (["n.raw", "ark:cut.egs"], 255), (["p.raw", "ark:n.egs"], 255)])
def test_errors(prob_folder, capfd, words, status):
    (prob_folder / "cut.egs").write_bytes((prob_folder / "n.egs").read_bytes()[:-9])
    Nnet.from_config(PLAIN.format(settings="", objective="linear").replace("dim=4", "dim=5")).write("p.raw")
    assert compute_prob.execute(words) == status
    err = capfd.readouterr().err
    assert "internal error" not in err and (status == 1 or err.count("ERROR (nnet3-compute-prob") == 1)


FOLDER = "--compiler.cache-dir=computations"
TIMES = re.compile(r"breakdown: (\S+) compilation, (\S+) optimization, (\S+) shortcut expansion, (\S+) checking")


@pytest.fixture
def cache_folder(here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with plain.raw, examples plain.egs for it, and feats.ark for nnet.raw."""
    monkeypatch.delenv(disk_cache.ENVIRONMENT, raising=False)
    disk_cache._disk_cache.cache_clear()
    plain(objective="linear").write("plain.raw")
    Nnet.from_config(CONFIG).write("nnet.raw")
    write_table("ark:plain.egs", EXAMPLE, {f"eg{i}": class_example(seed=i) for i in range(6)})
    rng = np.random.default_rng(0)
    write_table("ark:feats.ark", FLOAT_MATRIX, {
        f"u{i}": rng.standard_normal((20 + 9 * i, 40), dtype=np.float32) for i in range(3)})
    return here


def times(text: str) -> list[float]:
    """Seconds that the last command took for compiling, optimizing, expanding and checking what it compiled."""
    return [float(number) for number in TIMES.findall(text)[-1]]


def test_training(cache_folder: Path, capfd) -> None:
    """Also on from the model that the first run made: parameters and statistics play no part."""
    words = [FOLDER, "plain.raw", "ark:plain.egs"]
    assert train.execute([*words, "1.raw"]) == 0
    assert sum(times(capfd.readouterr().err)) > 0.0
    assert train.execute([*words, "2.raw"]) == 0
    err = capfd.readouterr().err
    assert times(err) == [0.0] * 4 and "WARNING" not in err
    assert (cache_folder / "1.raw").read_bytes() == (cache_folder / "2.raw").read_bytes()
    assert train.execute([FOLDER, "1.raw", "ark:plain.egs", "3.raw"]) == 0
    assert times(capfd.readouterr().err) == [0.0] * 4


def test_training_a_whole_network_on(cache_folder: Path, capfd) -> None:
    """With statistics, batch normalization and natural gradient; every iteration begins with the last one's model."""
    write_digits(cache_folder)
    for number, model in enumerate(("nnet.raw", "1.raw", "2.raw")):
        assert train.execute([FOLDER, "--feats=ark:feats.ark", "--targets=ark:ali.ark", "--minibatch-size=32",
                              f"--learning-rate={0.01 / (number + 1)}", f"--srand={number}", model,
                              f"{number + 1}.raw"]) == 0
        assert (sum(times(capfd.readouterr().err)) > 0.0) == (number == 0)


@pytest.mark.parametrize("by_environment", [True, False])
def test_computing(cache_folder: Path, capfd, monkeypatch: pytest.MonkeyPatch, by_environment: bool) -> None:
    if by_environment:
        monkeypatch.setenv(disk_cache.ENVIRONMENT, str(cache_folder / "computations"))
    options = [] if by_environment else [FOLDER]
    for number in (1, 2):
        assert compute.execute([*options, "nnet.raw", "ark:feats.ark", f"ark:{number}.ark"]) == 0
        assert (sum(times(capfd.readouterr().err)) > 0.0) == (number == 1)
    assert (cache_folder / "1.ark").read_bytes() == (cache_folder / "2.ark").read_bytes()
    assert len(os.listdir("computations")) == 3


def test_computing_objectives(cache_folder: Path, capfd) -> None:
    logs = []
    for number in (1, 2):
        assert compute_prob.execute([FOLDER, "plain.raw", "ark:plain.egs"]) == 0
        err = capfd.readouterr().err
        assert (sum(times(err)) > 0.0) == (number == 1)
        logs.append(re.findall(r"Overall .*", err))
    assert logs[0] == logs[1] and logs[0]


def test_the_shortcut_can_be_switched_off(cache_folder: Path, capfd) -> None:
    """And has entries of its own."""
    for number, value in enumerate(("true", "false"), 1):
        assert train.execute([FOLDER, f"--compiler.use-shortcut={value}", "plain.raw", "ark:plain.egs",
                              f"{number}.raw"]) == 0
        expansion = times(capfd.readouterr().err)[2]
        assert (expansion > 0.0) == (value == "true")
    assert len(os.listdir("computations")) == 2
    assert (cache_folder / "1.raw").read_bytes() == (cache_folder / "2.raw").read_bytes()


def test_a_real_second_process(cache_folder: Path, run_launcher, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands of their own, with the folder in the environment; the second writes the same and nothing new."""
    monkeypatch.setenv(disk_cache.ENVIRONMENT, str(cache_folder / "computations"))
    for number in (1, 2):
        done = run_launcher("nnet3-compute", "nnet.raw", "ark:feats.ark", f"ark:{number}.ark")
        assert done.returncode == 0, done.stderr
        assert (sum(times(done.stderr)) > 0.0) == (number == 1)
    assert (cache_folder / "1.ark").read_bytes() == (cache_folder / "2.ark").read_bytes()
    assert len(os.listdir("computations")) == 3


def test_a_folder_that_cannot_be_made_is_a_warning(cache_folder: Path, capfd) -> None:
    assert train.execute(["--compiler.cache-dir=plain.raw/x", "plain.raw", "ark:plain.egs", "1.raw"]) == 0
    err = capfd.readouterr().err
    assert err.count("WARNING") == 1 and "computations in" in err
