"""Vectors of utterances, by chunks and in batches, against means of frames and against the computer itself."""
from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from io_samples import read_table

import nnet3py
from nnet3py.cli.main import load
from nnet3py.errors import NumericError, ShapeError, UsageError
from nnet3py.formats.holders import FLOAT_MATRIX, FLOAT_VECTOR
from nnet3py.io.tables import TableWriter
from nnet3py.network.nnet import Nnet
from nnet3py.runtime.cutting import Utterance
from nnet3py.runtime.options import BatchedXvectorOptions, XvectorOptions
from nnet3py.runtime.xvectors import BatchedXvectorComputer, XvectorComputer, chunk_starts, pooling_context

TOLERANCE = 1e-4       # float32 means of some hundred frames of about 1

POOLING = """component name=e type=StatisticsExtractionComponent input-dim=3 input-period=1 output-period=1
component-node name=e component=e input={source}
component name=p type=StatisticsPoolingComponent input-dim=7 input-period=1 left-context=0 right-context=10000
component-node name=p component=p input=e
output-node name=output input=Round(p, 1)
"""
MEANS = "input-node name=input dim=3\n" + POOLING.format(source="input")
MEANS = MEANS.replace("input-dim=3 ", "input-dim=3 include-variance=false ").replace("input-dim=7", "input-dim=4")
WITH_CONTEXT = """input-node name=input dim=3
component name=a type=NaturalGradientAffineComponent input-dim=6 output-dim=3
component-node name=a component=a input=Append(Offset(input, -2), Offset(input, 3))
""" + POOLING.format(source="a")


def features(num_frames: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((num_frames, 3)).astype(np.float32)


def by_hand(nnet: Nnet, feats: np.ndarray) -> np.ndarray:
    """The output at t = 0 for frames from t = 0 on."""
    times = np.zeros((len(feats), 3), dtype=np.int32)
    times[:, 1] = np.arange(len(feats))
    request = nnet3py.ComputationRequest([nnet3py.IoSpecification("input", times)],
                                         [nnet3py.IoSpecification("output", times[:1])])
    computer = nnet3py.Computer(nnet3py.compile(nnet, request), nnet)
    computer.accept_input("input", feats)
    computer.run()
    return computer.output("output")[0]


def close(found: np.ndarray, expected: np.ndarray) -> bool:
    return bool(np.abs(found - expected).max() < TOLERANCE)


def test_whole_utterances() -> None:
    nnet, feats = Nnet.from_config(MEANS), features(37)
    assert close(XvectorComputer(nnet, XvectorOptions(min_chunk_size=1)).compute(feats), feats.mean(axis=0))
    other = Nnet.from_config(WITH_CONTEXT, seed=1)
    found = XvectorComputer(other, XvectorOptions(min_chunk_size=10)).compute(feats)
    assert close(found, by_hand(other, feats)) and found.shape == (6,)


def test_chunks_are_weighted_by_their_lengths() -> None:
    nnet, feats = Nnet.from_config(WITH_CONTEXT, seed=1), features(47)
    found = XvectorComputer(nnet, XvectorOptions(chunk_size=20, min_chunk_size=7)).compute(feats)
    expected = sum(len(part) * by_hand(nnet, part) for part in (feats[:20], feats[20:40], feats[40:])) / 47
    assert close(found, expected)


def test_short_chunks_are_padded_or_left_out() -> None:
    nnet, feats = Nnet.from_config(MEANS), features(25)
    padded = np.concatenate([feats[20:21].repeat(2, axis=0), feats[20:], feats[24:].repeat(3, axis=0)])
    found = XvectorComputer(nnet, XvectorOptions(20, 10)).compute(feats)
    assert close(found, (20 * feats[:20].mean(axis=0) + 5 * padded.mean(axis=0)) / 25)
    without = XvectorComputer(nnet, XvectorOptions(20, 10, pad_input=False))
    assert close(without.compute(feats), feats[:20].mean(axis=0))
    with pytest.raises(UsageError, match="9 frames"):
        without.compute(feats[:9])


def test_wrong_options_and_features() -> None:
    nnet = Nnet.from_config(MEANS)
    for options in (XvectorOptions(0), XvectorOptions(20, 30, pad_input=False)):
        with pytest.raises(UsageError, match="chunk-size"):
            XvectorComputer(nnet, options)
    with pytest.raises(UsageError, match="batch-size"):
        BatchedXvectorComputer(nnet, BatchedXvectorOptions(batch_size=0))
    assert BatchedXvectorComputer(nnet, BatchedXvectorOptions(batch_size=1)).options.batch_size == 1
    with pytest.raises(UsageError, match=r"2 \+ 3 frames"):
        BatchedXvectorComputer(Nnet.from_config(WITH_CONTEXT), BatchedXvectorOptions(chunk_size=5))
    with pytest.raises(ShapeError, match="provided 5"):
        XvectorComputer(nnet).compute(np.zeros((200, 5), np.float32))
    with pytest.raises(ShapeError, match="utterance u: .*provided 5"):
        list(BatchedXvectorComputer(nnet).compute([("u", np.zeros((200, 5), np.float32))]))


def test_many_utterances_give_what_each_gives_alone() -> None:
    nnet = Nnet.from_config(WITH_CONTEXT, seed=1)
    computer = XvectorComputer(nnet, XvectorOptions(200, 30))
    data = [Utterance(f"u{n}", features(n, n)) for n in (12, 200, 450, 201, 650, 1700, 3000, 90, 400)]
    data[4].feats[7] = np.nan
    missing = Utterance("none", features(0), error=UsageError("nothing"))
    found = list(computer.compute_all([*data, missing]))
    assert [key for key, _ in found] == [one.key for one in data] + ["none"]
    assert isinstance(found[4][1], NumericError) and found[-1][1] is missing.error
    for one, (_, vector) in zip(data, found, strict=False):
        if one is not data[4]:
            pieces = [one.feats[begin:begin + 200] for begin in range(0, len(one.feats), 200)]
            alone = [by_hand(nnet, padded(piece, 30)) for piece in pieces]
            assert close(vector, np.average(alone, axis=0, weights=list(map(len, pieces)))), one.key
            assert close(computer.compute(one.feats), vector)
    sizes = {len(request.outputs[0].indexes) for _, request in computer.compiler._kept}
    assert 10 in sizes and max(sizes) == 10     # 2048 frames at a time
    results = computer.compute_all([data[1], Utterance("wide", np.zeros((9, 4), np.float32))])
    assert next(results)[0] == "u200"
    with pytest.raises(ShapeError, match="utterance wide"):
        next(results)


def padded(feats: np.ndarray, least: int) -> np.ndarray:
    missing = max(0, least - len(feats))
    return np.pad(feats, ((missing // 2, missing - missing // 2), (0, 0)), mode="edge")


def test_the_context_before_the_pooling() -> None:
    nnet = Nnet.from_config(WITH_CONTEXT)
    assert pooling_context(nnet) == (2, 3) and pooling_context(Nnet.from_config(MEANS)) == (0, 0)
    assert nnet.component("p").right_context == 10000


def test_where_chunks_start() -> None:
    assert chunk_starts(99, 100, 8) == chunk_starts(100, 100, 8) == [0]
    assert chunk_starts(99, 100, 8, pad_input=False) == [] and chunk_starts(100, 100, 8, pad_input=False) == [0]
    assert chunk_starts(30, 10, 0) == [0, 10, 20]
    assert chunk_starts(21, 10, 0) == [0, 10]              # one frame is left out: smaller gaps come first
    assert chunk_starts(29, 10, 0) == [0, 10, 19]          # one is used twice
    assert chunk_starts(10, 3, 0) == [0, 3, 6]             # one left out, or two used twice: as even, so fewer chunks
    assert chunk_starts(28, 10, 2) == [0, 8, 17]           # gaps of 0, 0, 1 and 1 among 26 frames, pooled 8 by 8


@pytest.mark.parametrize("context", [0, 7])
def test_chunks_lie_within_the_utterance_and_evenly(context: int) -> None:
    size = 23
    for num_frames in range(size + 1, 300):
        starts = np.array(chunk_starts(num_frames, size, context))
        assert starts[0] >= 0 and starts[-1] + size <= num_frames
        steps = np.diff(starts)
        assert len(starts) == 1 or steps.max() - steps.min() <= 1
        assert starts[0] == 0 or (steps >= size - context).all()
        pooled = np.zeros(num_frames - context)
        for start in starts:
            pooled[start:start + size - context] += 1
        assert (pooled > 0).mean() > 0.5 and pooled.max() <= 2


@pytest.mark.parametrize("batch_size", [1, 4, 100])
def test_batches_give_the_means_of_the_chunks(batch_size: int) -> None:
    nnet = Nnet.from_config(WITH_CONTEXT, seed=1)
    utterances = [(f"u{n}", features(n, n)) for n in (12, 20, 21, 57, 39, 64, 20)]
    found = dict(BatchedXvectorComputer(nnet, BatchedXvectorOptions(20, batch_size)).compute(utterances))
    assert list(found) == [key for key, _ in dict(utterances).items()]
    for key, feats in utterances:
        rows = [np.minimum(start + np.arange(20), len(feats) - 1) for start in chunk_starts(len(feats), 20, 5)]
        expected = np.mean([by_hand(nnet, feats[one]) for one in rows], axis=0)
        assert close(found[key], expected), key


def test_batches_skip_what_cannot_be_computed() -> None:
    nnet = Nnet.from_config(MEANS)
    bad = np.full((30, 3), np.nan, np.float32)
    computer = BatchedXvectorComputer(nnet, BatchedXvectorOptions(20, 4, pad_input=False))
    found = dict(computer.compute([("a", features(30)), ("bad", bad), ("short", features(7)), ("b", features(20))]))
    assert list(found) == ["a", "bad", "b"] and isinstance(found["bad"], NumericError)
    assert close(found["b"], features(20).mean(axis=0))


@pytest.fixture
def folder(here: Path) -> Path:
    Nnet.from_config(MEANS).write("raw")
    with TableWriter("ark:feats", FLOAT_MATRIX) as writer:
        for key, count in (("u0", 45), ("none", 0), ("u1", 12)):
            writer.write(key, features(count))
        writer.write("bad", np.full((40, 3), np.nan, np.float32))
    return here


def vectors(path: str) -> dict[str, np.ndarray]:
    return read_table(f"ark:{path}", FLOAT_VECTOR)


def test_the_command(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    command = load("nnet3-xvector-compute")
    assert command.execute(["--chunk-size=20", "--min-chunk-size=5", "--cached-compiler-out=cache", "raw", "ark:feats",
                            "ark:out"]) == 0
    err = capfd.readouterr().err
    assert "Zero-length utterance: none" in err and "Done 2 utterances, failed for 2" in err
    assert ("Chunk size of 20 is greater than the number of rows in utterance: u1, using chunk size  of 12" in err)
    assert "real-time factor assuming 100 frames/sec is" in err and "utterance bad" in err
    found = vectors("out")
    assert list(found) == ["u0", "u1"] and close(found["u0"], features(45).mean(axis=0))
    assert command.execute(["--chunk-size=20", "--min-chunk-size=5", "--cached-compiler-in=cache", "raw", "ark:feats",
                            "ark:out2"]) == 0
    assert (folder / "out").read_bytes() == (folder / "out2").read_bytes()
    assert command.execute(["--pad-input=false", "--min-chunk-size=41", "raw", "ark:feats", "ark:out"]) == 0
    assert list(vectors("out")) == ["u0"]
    assert "Minimum chunk size of 41 is greater than the number of rows in utterance: u1" in capfd.readouterr().err
    assert command.execute(["--pad-input=false", "--min-chunk-size=50", "raw", "ark:feats", "ark:out"]) == 1
    assert command.execute(["--cached-compiler-in=raw", "raw", "ark:feats", "ark:none"]) == 255
    assert not (folder / "none").exists()


def test_the_batched_command(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    command = load("nnet3-xvector-compute-batched")
    options = ["--chunk-size=15", "--batch-size=2", "--optimize=false"]
    assert command.execute([*options, "raw", "ark:feats", "ark:out"]) == 0
    err = capfd.readouterr().err
    assert "Left/right context is 0, 0" in err and "Read 3 utterances, wrote 2 xvectors." in err
    found = vectors("out")
    assert list(found) == ["u0", "u1"] and close(found["u0"], features(45).mean(axis=0))
    assert command.execute(["--chunk-size=15", "--pad-input=false", "raw", "ark:feats", "ark:out"]) == 1
    assert "Skipping utterance u1: it has 12 frames" in capfd.readouterr().err
