"""Wrong input of every kind, for every command: one clear ERROR line, the right status, and no file harmed.

The commands run inside the tests, on small files that they made themselves.
"""
from __future__ import annotations

import os
import random
import re
import shutil
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from thinned import thinned
from wrong_input_cases import (
    ALSO_GOOD,
    CONFIG,
    DIRECT,
    FILES,
    GET_EGS,
    INPUTS,
    LENGTHS,
    LOOKED_UP,
    SIZES,
    filled,
    kind_of,
    make_folder,
    write,
)

from nnet3py import log
from nnet3py.cli.main import load
from nnet3py.egs.example import EXAMPLE, NnetExample, NnetIo, read_egs
from nnet3py.formats.compressed import CompressedMatrix
from nnet3py.formats.general import to_dense
from nnet3py.formats.holders import FLOAT_MATRIX, GENERAL_MATRIX, INT_VECTOR, POSTERIOR
from nnet3py.formats.posteriors import Posterior, posterior_of_alignment
from nnet3py.io.tables import SequentialReader


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, of good files, with an older ``out``."""
    monkeypatch.chdir(make_folder(tmp_path / "work"))
    return tmp_path / "work"


Run = Callable[..., str]


@pytest.fixture
def run(folder: Path, capfd: pytest.CaptureFixture[str]) -> Run:
    """``run(status, name, *words)`` runs a command, checks all that must hold, and returns its messages.

    ``status`` is a number or several; None stands for whatever a damaged file may end with. Afterwards the folder is
    as it was.
    """
    def run_(status: int | tuple[int, ...] | None, name: str, *words: str) -> str:
        before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
        log.disconnect_logging()
        capfd.readouterr()
        found = load(name).execute(["--print-args=false", *words])
        err = capfd.readouterr().err
        said = f"{name} {' '.join(words)}: status {found}\n{err}"
        expected = (0, 1, 255) if status is None else status if isinstance(status, tuple) else (status,)
        assert found in expected, said
        assert len(re.findall("^(?:ERROR|ASSERTION_FAILED) ", err, re.MULTILINE)) == (found == 255), said
        assert err.count("kaldi::KaldiFatalError\n") == (found == 255), said
        for word in ("Traceback", "internal error", "Out of memory"):
            assert word not in err, said
        after = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
        assert not [name for name in after if name.endswith(".tmp")], said
        if found == 255:
            assert after.keys() == before.keys() and all(after[name] == before[name] for name in before), said
        for path in after.keys() - before.keys():
            (folder / path).unlink()
        for path, data in before.items():
            if after.get(path) != data:
                (folder / path).write_bytes(data)
        return err
    return run_


# -- config files and options ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("old", "new", "message"), [
    ("LogSoftmaxComponent", "LogSoftMaxComponent", r"Unknown component-type.*did you mean LogSoftmaxComponent"),
    ("input-dim=12", "input-dim=13", "Dimension mismatch for network-node a"),
    ("Append(Offset(input,-1)", "Apend(Offset(input,-1)", "did you mean 'Append'"),
    ("Offset(input,1))", "Offset(input,1)", r"Expected '\)'"),
    ("Offset(input,1))", "Offset(input,1)))", "expected end of input"),
    ("Offset(input,1)", "Offset(input,x)", "Expected an integer"),
    ("Offset(input,1)", "Offset(inputt,1)", "did you mean 'input'"),
    ("input-dim=12 ", "", "input-dim and output-dim must be given"),
    ("input-dim=12", "input-dim=0", "above 0"), ("input-dim=12", "input-dim=abc", "must be a 32-bit integer"),
    ("input-dim=12", "input-dim=99999999999", "must be a 32-bit integer"),
    ("output-dim=8", "output-dim=8 foo=bar", "Unused values 'foo=bar'"),
    ("output-dim=8", "output-dim=8 learning-rate=x", "must be a number"),
    ("output-dim=8", "output-dim=8 param-stddev=inf", "NaN or infinite.*line 2"),
    ("component=r input", "component=rr input", "No component named 'rr'"),
    ("name=input dim=4", "name=input", "Expected dim=xxx"), ("name=input dim=4", "name=input dim=0", "1 or more"),
    ("input-node name", "input-nod name", "did you mean 'input-node'"),
    ("input=ls\n", "input=ls objective=foo\n", "Invalid objective type"),
    ("output-node name=output input=ls\n", "", "no output node"),
    ("name=r ", "name=9r ", "not allowable"), ("name=r type=RectifiedLinearComponent", "name=r", "Expected type=xxx"),
    ("component=r input=a", "component=r input=Sum(a, input)", "inconsistent dimension"),
    ("component=r input=a", "component=r input=" + "Sum(a," * 3000 + "a" + ")" * 3000, "nested more than"),
    ("BatchNormComponent dim=8", "FixedAffineComponent matrix=missing", "cannot open 'missing'"),
    ("BatchNormComponent dim=8", "FixedAffineComponent matrix=raw", "expected a matrix"),
])
def test_config(folder: Path, run: Run, old: str, new: str, message: str) -> None:
    assert old in CONFIG
    (folder / "config").write_text(CONFIG.replace(old, new, 1))
    err = run(255, "nnet3-init", "config", "out")
    assert re.search(message, err), err
    assert max(map(len, err.splitlines())) < 3000        # also where the line that is quoted is longer


@pytest.mark.parametrize("data", [b"garbage\n", b"\xff\xfe\n", b"\0B<Nnet3>", b"a=b c=d\n", b"\x1b[2J component\n"])
def test_what_is_no_config(folder: Path, run: Run, data: bytes) -> None:
    (folder / "config").write_bytes(data)
    assert "\x1b" not in run(255, "nnet3-init", "config", "out")


@pytest.mark.parametrize("words", [
    ("nnet3-copy", "--scael=2", "raw", "out"), ("nnet3-copy", "--scale=x", "raw", "out"),
    ("nnet3-copy", "--scale=nan", "raw", "out"), ("nnet3-copy", "--binary=", "raw", "out"),
    ("nnet3-copy", "--config=missing", "raw", "out"), ("nnet3-copy", "--config=raw", "raw", "out"),
    ("nnet3-copy", "--edits=foo", "raw", "out"),
    ("nnet3-copy", "--edits=rename-node old-name=x new-name=y", "raw", "out"),
    ("nnet3-copy", "--edits=remove-output-nodes name=*", "raw", "out"),
    ("nnet3-copy", "--edits-config=raw", "raw", "out"),
    ("nnet3-average", "--weights=1", "raw", "raw", "out"), ("nnet3-average", "--weights=0:0", "raw", "raw", "out"),
    ("nnet3-train", "--momentum=-1", "raw", "ark:megs", "out"),
    ("nnet3-train", "--feats=ark:feats", "raw", "out"),
    ("nnet3-compute", "--use-gpu=perhaps", "raw", "ark:feats", "ark:out"),
    ("nnet3-compute", "--use-priors=true", "raw", "ark:feats", "ark:out"),
    ("nnet3-compute", "--ivectors=ark:feats", "raw", "ark:feats", "ark:out"),
    ("nnet3-get-egs", "ark:feats", "ark:post", "ark:out"),
    ("nnet3-get-egs", *GET_EGS, "--num-frames=99999999999", "ark:feats", "ark:post", "ark:out"),
    ("nnet3-get-egs", *GET_EGS, "--num-frames=8,", "ark:feats", "ark:post", "ark:out"),
    ("nnet3-get-egs", *GET_EGS, "--left-context=-3", "ark:feats", "ark:post", "ark:out"),
    ("nnet3-merge-egs", "--minibatch-size=4:2", "ark:egs", "ark:out"),
    ("nnet3-copy-egs", "--frame=1.5", "ark:egs", "ark:out"), ("nnet3-subset-egs", "--n=x", "ark:egs", "ark:out"),
    ("nnet3-compute", "raw", "feats", "ark:out"), ("nnet3-compute", "raw", "ark:feats", "out"),
    ("nnet3-copy", "raw", "ark:out"), ("nnet3-copy", "raw:99999", "out"), ("copy-feats", "scp:feats", "ark:out"),
], ids=" ".join)
def test_options_and_specifiers(run: Run, words: tuple[str, ...]) -> None:
    run(255, *words)


# -- files that are missing, of another kind, cut short or damaged -----------------------------------------------------


@pytest.mark.parametrize("words", INPUTS, ids=" ".join)
def test_a_file_of_another_kind(run: Run, words: tuple[str, ...]) -> None:
    kind = kind_of(words)
    assert "cannot open 'missing' for reading: No such file" in run(255, *filled(words, "missing"))
    assert "cannot open 'dir' for reading: Is a directory" in run(255, *filled(words, "dir"))
    may_be_empty = any("ark:<" in word for word in words) or (kind == "config" and "raw" in words) or kind == "ranges"
    run(None if may_be_empty else 255, *filled(words, "empty"))
    for other, names in FILES.items():
        if other != kind and names[0] not in ALSO_GOOD.get(kind, ()):
            run(255, *filled(words, names[-1]))


@pytest.mark.parametrize("words", [("nnet3-info", "bad"), ("nnet3-am-info", "bad")])
@pytest.mark.parametrize("name", ["raw", "raw.txt", "mdl"])
def test_a_model_cut_anywhere(folder: Path, run: Run, words: tuple[str, ...], name: str) -> None:
    if (name == "mdl") != (words[0] == "nnet3-am-info"):
        return
    data = (folder / name).read_bytes().rstrip()
    for end in {*range(0, 60), *range(60, len(data), 53), *range(len(data) - 20, len(data))}:
        (folder / "bad").write_bytes(data[:end])
        run(255, *words)


@pytest.mark.parametrize("words", [words for words in INPUTS if any("ark:<" in word for word in words)], ids=" ".join)
def test_an_archive_cut_in_its_first_or_a_later_entry(folder: Path, run: Run, words: tuple[str, ...]) -> None:
    for name in FILES[kind_of(words)]:
        data = (folder / name).read_bytes()
        for end in (len(data) // 10, len(data) - 9):
            (folder / "bad").write_bytes(data[:end])
            err = run(255, *filled(words, "bad"))
            assert re.search(r"ERROR .*(key u|key merged|byte \d|example merged)", err), err


def damaged(data: bytes, rng: random.Random, how: str) -> bytes:
    result = bytearray(data)
    if how == "bytes":
        for _ in range(rng.choice((1, 1, 2, 5))):
            result[rng.randrange(len(result))] = rng.choice((0, 255, 127, 32, 45, 57, rng.randrange(256)))
    elif how == "cut":
        start = rng.randrange(len(result))
        del result[start:start + rng.randrange(1, 9)]
    else:
        counts = [i for i in range(len(data) - 5) if data[i] == 4 and data[i + 3:i + 5] == b"\0\0"]
        if counts:
            start = rng.choice(counts) + 1
            result[start:start + 4] = rng.choice(SIZES).to_bytes(4, "little", signed=True)
    return bytes(result)


@pytest.mark.parametrize(("words", "how"), thinned(INPUTS, ["bytes", "cut", "size"]),
                         ids=lambda words: words if isinstance(words, str) else " ".join(words))
def test_damage(folder: Path, run: Run, words: tuple[str, ...], how: str) -> None:
    rng = random.Random(" ".join(words) + how)
    for name in FILES[kind_of(words)]:
        for _ in range(3):
            (folder / "bad").write_bytes(damaged((folder / name).read_bytes(), rng, how))
            run(None, *filled(words, "bad"))


def test_inspecting_what_is_no_model(folder: Path, run: Run) -> None:
    for kind, names in FILES.items():
        if kind not in ("raw", "mdl", "trans"):
            run(255, "nnet3-inspect", names[0])
    assert "cannot open 'missing' for reading: No such file" in run(255, "nnet3-inspect", "missing")
    assert "the folder dir holds no model" in run(255, "nnet3-inspect", "dir")
    run(255, "nnet3-inspect", "--jsn", "raw")
    run(1, "nnet3-inspect")


@pytest.mark.parametrize("how", ["bytes", "cut", "size"])
def test_inspecting_damage(folder: Path, run: Run, how: str) -> None:
    rng = random.Random(how)
    for name in ("raw", "raw.txt", "mdl", "trans.mdl", "tree"):
        for _ in range(6):
            (folder / "bad").write_bytes(damaged((folder / name).read_bytes(), rng, how))
            run(None, "nnet3-inspect", "bad")
            shutil.copy(folder / "bad", folder / "dir" / ("tree" if name == "tree" else "final.mdl"))
            run(None, "nnet3-inspect", "--json", "dir")


@pytest.mark.parametrize("rxfilename", ["bad", "cat bad |"])
def test_a_huge_matrix_is_only_announced(folder: Path, run: Run, rxfilename: str) -> None:
    limit = 64 << 20
    for head in (b"u0 \0BFM \4\xff\xff\xff\x7f\4\xff\xff\xff\x7f", b"u0 \0BFM \4\0\0\0\x08\4\x08\0\0\0",
                 b"u0 \0BCM \0\0\0\0\0\0\x80\x3f\xff\xff\xff\x7f\xff\xff\xff\x7f"):
        (folder / "bad").write_bytes(head + bytes(1000))
        tracemalloc.start()
        run(255, "copy-feats", f"ark:{rxfilename}", "ark:out")
        assert tracemalloc.get_traced_memory()[1] < limit
        tracemalloc.stop()


# -- faults of utterances and examples ---------------------------------------------------------------------------------


def features(change: Callable[[np.ndarray], Any], keys: tuple[str, ...] = ("u1",)) -> None:
    items = dict(SequentialReader("ark:feats", FLOAT_MATRIX))
    write("feats", GENERAL_MATRIX, {k: change(m.copy()) if k in keys else m for k, m in items.items()})


def labels(change: Callable[[np.ndarray], np.ndarray], drop: bool = False) -> None:
    items = {k: change(v) if k == "u1" else v for k, v in SequentialReader("ark:ali", INT_VECTOR)}
    if drop:
        del items["u1"]
    write("ali", INT_VECTOR, items)
    write("post", POSTERIOR, {k: posterior_of_alignment(v) for k, v in items.items()})


def with_value(value: float) -> Callable[[np.ndarray], np.ndarray]:
    def change(matrix: np.ndarray) -> np.ndarray:
        matrix[3, 2] = value
        return matrix
    return change


def compressed_with(**header: float) -> Callable[[np.ndarray], CompressedMatrix]:
    def change(matrix: np.ndarray) -> CompressedMatrix:
        result = CompressedMatrix.compress(matrix)
        for name, value in header.items():
            setattr(result, name, np.float32(value))
        return result
    return change


THREE = [("nnet3-get-egs", *GET_EGS, "ark:feats", "ark:post", "ark:out"),
         ("nnet3-compute", "raw", "ark:feats", "ark:out"), ("nnet3-train", *DIRECT, "raw", "out")]


@pytest.mark.parametrize("change", [
    with_value(np.nan), with_value(np.inf), with_value(-np.inf), compressed_with(range=np.nan),
    compressed_with(minimum=np.inf), compressed_with(minimum=3e38, range=3e38)])
def test_an_utterance_that_is_not_finite_is_skipped(folder: Path, run: Run, change: Callable) -> None:
    features(change)
    for words in (*THREE, (THREE[0][0], "--compress=false", *THREE[0][1:])):
        err = run(0, *words)
        assert len(re.findall(r"^WARNING .*Skipping utterance u1: the feature matrix (has|is) ", err, re.M)) == 1, err
        assert "get-egs" not in words[0] or "1 utterances had errors and could not be processed." in err
    features(change, ("u0", "u2"))
    for words, status in zip(THREE, (1, 1, 255), strict=True):
        assert run(status, *words).count("Skipping utterance") == 3


def test_compressed_features_are_checked_without_decoding(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    features(CompressedMatrix.compress, tuple(LENGTHS))

    def decode(self: CompressedMatrix, target: np.ndarray) -> None:
        raise AssertionError("decoded")

    monkeypatch.setattr(CompressedMatrix, "decode_into", decode)
    run(0, *THREE[0])


@pytest.mark.parametrize(("change", "messages"), [
    (lambda m: m[:0], ("expected length = 0, got 41", "Zero-length utterance: u1", "expected length = 0, got 41")),
    (lambda m: m[:5], ("expected length = 5, got 41", "", "expected length = 5, got 41")),
])
def test_an_utterance_of_another_length(run: Run, change: Callable, messages: tuple[str, ...]) -> None:
    features(change)
    for words, message in zip(THREE, messages, strict=True):
        assert message in run(0, *words)


@pytest.mark.parametrize(("change", "drop", "message"), [
    (lambda v: v[:-10], False, "expected length = 41, got 31"), (lambda v: np.tile(v, 2), False, "got 82"),
    (lambda v: v[:0], False, "got 0"),
    (lambda v: v, True, "(No pdf-level posterior for key|No targets for utterance) u1"),
])
def test_labels_of_another_length_and_missing_ones(run: Run, change: Callable, drop: bool, message: str) -> None:
    labels(change, drop)
    for words in (THREE[0], THREE[2]):
        assert re.search(f"WARNING .*{message}", run(0, *words))


def test_an_utterance_shorter_than_a_chunk(run: Run) -> None:
    features(lambda m: m[:5])
    labels(lambda v: v[:5])
    for words in (THREE[0], THREE[2]):
        assert "Not producing egs for utterance u1 because it is too short: 5 frames." in run(0, *words)
    run(0, *THREE[1])


@pytest.mark.parametrize("label", [6, 100000, 2**31 - 1, -1])
def test_labels_out_of_range(run: Run, label: int) -> None:
    labels(lambda v: np.where(np.arange(len(v)) == 3, np.int32(label), v))
    for words in (THREE[0], THREE[2]):
        assert re.search(rf"ERROR .*utterance u1 has .*{label}.*", run(255, *words))


@pytest.mark.parametrize("weight", [np.nan, np.inf])
def test_weights_that_are_not_finite(run: Run, weight: float) -> None:
    items: dict[str, Posterior] = dict(SequentialReader("ark:post", POSTERIOR))
    items["u1"].weights[2] = weight
    write("post", POSTERIOR, items)
    assert "Skipping utterance u1: the posteriors" in run(0, *THREE[0])


def test_feat_of_another_dimension(run: Run) -> None:
    features(lambda m: np.hstack([m, m]))
    err = run(255, *THREE[1])
    assert "utterance u1: Neural net expects 'input' features with dimension 4 but you provided 8" in err
    assert "utterance u1 has features of dimension 8, but the network's is 4" in run(255, *THREE[2])


def test_a_network_whose_output_is_nan(folder: Path, run: Run) -> None:
    text = (folder / "raw.txt").read_text()
    bias = re.search(r"<BiasParams>\s*\[\s*(\S+)", text)
    assert bias is not None
    (folder / "bad").write_text(text[:bias.start(1)] + "nan" + text[bias.end(1):])
    assert run(1, "nnet3-compute", "bad", "ark:feats", "ark:out").count("the network's output has NaN") == 3


def change_io(number: int, change: Callable[[NnetIo], NnetIo]) -> Callable[[NnetExample], NnetExample]:
    return lambda eg: NnetExample([change(io) if i == number else io for i, io in enumerate(eg.io)])


def dense_with(value: float) -> Callable[[NnetIo], NnetIo]:
    def change(io: NnetIo) -> NnetIo:
        matrix = to_dense(io.features).copy()
        matrix[2, 1] = value
        return NnetIo(io.name, io.indexes, matrix)
    return change


def columns(count: int) -> Callable[[NnetIo], NnetIo]:
    return lambda io: NnetIo(io.name, io.indexes, to_dense(io.features)[:, :count].copy())


def shifted(n: int, t: int) -> Callable[[NnetIo], NnetIo]:
    return lambda io: NnetIo(io.name, io.indexes + np.array([n, t, 0], dtype=np.int32), io.features)


@pytest.mark.parametrize(("change", "message"), [
    (change_io(0, dense_with(np.nan)), "input 'input' has nan in row 2, column 1"),
    (change_io(0, dense_with(np.inf)), "input 'input' has inf in row 2, column 1"),
    (change_io(1, dense_with(np.nan)), "the supervision has nan in row 2, column 1"),
    (change_io(0, columns(2)), "Num-cols mismatch for input 'input'"),
    (change_io(1, columns(2)), r"dimension \(num-classes\) mismatch for 'output': 6 \(nnet\) vs. 2 \(egs\)"),
    (change_io(0, lambda io: NnetIo("inptu", io.indexes, io.features)), "named 'inptu'"),
    (change_io(1, lambda io: NnetIo("output-xent", io.indexes, io.features)), "named 'output-xent'"),
    (lambda eg: NnetExample(eg.io[:1]), "has no output"), (lambda eg: NnetExample(eg.io[1:]), "has no input"),
    (lambda eg: NnetExample([*eg.io, eg.io[0]]), "more than once"),
    (change_io(0, shifted(0, 5)), "Not all outputs were computable"),
    (change_io(0, shifted(2**31 - 100, 0)), "too far"),
    (change_io(0, lambda io: NnetIo(io.name, io.indexes[:0], to_dense(io.features)[:0])), "no indexes"),
])
def test_examples_that_do_not_fit(run: Run, change: Callable, message: str) -> None:
    write("megs", EXAMPLE, {k: change(eg) if k == "merged-1-4" else eg for k, eg in read_egs("ark:megs")})
    for words in (("nnet3-train", "raw", "ark:megs", "out"), ("nnet3-compute-prob", "raw", "ark:megs")):
        err = run(255, *words)
        assert re.search(rf"ERROR .*example merged-1-4: .*{message}", err), err


# -- pipes, outputs ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("words", "command"), thinned(
    [words for words in INPUTS if any(word.startswith("ark:<") for word in words)
     and words not in LOOKED_UP and "get-egs" not in words[0]],
    ["false |", "cat {} && false |", "no-such-command 2>/dev/null |"]),
    ids=lambda words: words if isinstance(words, str) else " ".join(words))
def test_a_table_from_a_command_that_fails(run: Run, words: tuple[str, ...], command: str) -> None:
    name = FILES[kind_of(words)][0] if "megs" not in " ".join(words) else "megs"
    assert "had nonzero return status" in run(255, *filled(words, command.format(name)))


def test_objects_from_and_to_commands_that_fail(run: Run) -> None:
    for words in (("false |", "out"), ("head -c 100 raw |", "out"), ("no-such-command 2>/dev/null |", "out")):
        run(255, "nnet3-copy", *words)
    for words in (("cat raw; false |", "out"), ("raw", "| cat >/dev/null; exit 3")):    # Kaldi only warns of these
        assert "failed with status" in run(255, "nnet3-copy", *words)
    assert "the command ended before all was written" in run(
        255, "copy-feats", "ark:for i in `seq 200`; do cat feats; done |", "ark:| false")


WRITING = [("nnet3-init", "config", "out"), ("nnet3-copy", "raw", "out"), ("nnet3-am-init", "trans.mdl", "raw", "out"),
           ("nnet3-am-copy", "mdl", "out"), ("nnet3-am-adjust-priors", "mdl", "vec", "out"),
           ("nnet3-average", "raw", "raw", "out"), ("nnet3-train", "raw", "ark:megs", "out"), *THREE,
           ("nnet3-copy-egs", "ark:egs", "ark:out"), ("nnet3-merge-egs", "--minibatch-size=4", "ark:egs", "ark:out"),
           ("nnet3-shuffle-egs", "ark:egs", "ark:out"), ("nnet3-subset-egs", "--n=5", "ark:egs", "ark:out"),
           ("copy-feats", "ark:feats", "ark:out"), ("copy-feats", "ark:feats", "ark,scp:first,out"),
           ("copy-feats", "--write-num-frames=ark,t:out", "ark:feats", "ark:first"),
           ("feat-to-dim", "ark:feats", "out"),
           ("feat-to-len", "ark:feats", "ark,t:out"), ("copy-int-vector", "ark:ali", "ark:out"),
           ("ali-to-post", "ark:ali", "ark:out"), ("copy-matrix", "ark:feats", "ark:out"),
           ("compute-cmvn-stats", "ark:feats", "out"), ("apply-cmvn", "gstats", "ark:feats", "ark:out"),
           ("splice-feats", "ark:feats", "ark:out"), ("ali-to-phones", "--ctm-output", "trans.mdl", "ark:tids", "out"),
           ("paste-feats", "ark:feats", "ark:feats", "ark:out"), ("post-to-tacc", "trans.mdl", "ark:tpost", "out"),
           ("sum-lda-accs", "out", "lda"), ("nnet-get-feature-transform", "out", "lda"),
           ("matrix-sum", "mat", "mat", "out"), ("copy-transition-model", "trans.mdl", "out")]


@pytest.mark.parametrize("words", WRITING, ids=" ".join)
def test_where_nothing_can_be_written(run: Run, words: tuple[str, ...]) -> None:
    for name, reason in (("/dev/full", "No space left on device"), ("nodir/x", "No such file or directory"),
                         ("dir", "Is a directory"), ("new/", "Is a directory"), ("raw/x", "Not a directory")):
        if name == "/dev/full" and not os.path.exists(name):
            continue
        err = run(255, *(re.sub(r"\bout$", name, word) for word in words))
        assert re.search(rf"ERROR .*'{name}'.*: {reason}", err), err


def test_one_name_for_two_outputs(run: Run) -> None:
    assert "another output" in run(255, "nnet3-copy-egs", "ark:egs", "ark:out", "ark:out")
    assert "another output" in run(255, "copy-feats", "ark:feats", "ark,scp:out,./out")


def test_a_script_that_names_bad_entries(folder: Path, run: Run) -> None:
    for entry in ("missing", "feats:99999", "feats:3[0:99]", "feats:3[a]", "raw"):
        (folder / "script").write_text(f"u0 feats:3\nu1 {entry}\n")
        assert re.search(r"ERROR .*key u1: ", run(255, "copy-feats", "scp:script", "ark:out"))


@pytest.mark.parametrize("words", [
    ("nnet3-copy", "raw", "raw"), ("nnet3-train", "raw", "ark:megs", "raw"), ("copy-feats", "ark:feats", "ark:feats"),
    ("nnet3-copy-egs", "ark:egs", "ark:egs"), ("nnet3-average", "raw", "raw", "raw"), ("nnet3-am-copy", "mdl", "mdl")])
def test_output_onto_the_input(folder: Path, run: Run, words: tuple[str, ...]) -> None:
    run(0, *words)
    for name in ("raw", "mdl", "feats", "egs"):
        (folder / name).write_bytes((folder / name).read_bytes()[:-9])
    if words[1:] != ("raw", "ark:megs", "raw"):
        run(255, *words)
