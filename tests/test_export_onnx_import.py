"""nnet3py/export/onnx_import.py: graphs of other programs as networks, beside onnxruntime."""
from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from paths import DATA

import nnet3py
from nnet3py.errors import Nnet3Error

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx_graphs import END, GraphMaker, foreign, random_graph  # noqa: E402

from nnet3py.export.export_onnx import difference_from_onnx  # noqa: E402
from nnet3py.export.onnx_import import RULES  # noqa: E402
from nnet3py.export.onnx_stream import run, session  # noqa: E402

FILES = sorted(path for path in (DATA / "onnx").glob("*.onnx") if not path.name.startswith("attention"))
CLOSE = 2e-6                      # of the largest value: float32 sums in another order
LENGTHS = (120, 121, 122, 127)    # all residues of the strides that occur
FEW, MANY = 30, 600               # random graphs


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_models_of_pytorch(path: Path) -> None:
    """Of both of its exporters; tests/torch_models.py wrote them."""
    network = foreign(path)
    for frames in LENGTHS[:2]:
        assert difference_from_onnx(network, str(path), frames) < CLOSE
    values = nnet3py.compute(network.nnet, np.random.default_rng(0).standard_normal((40, network.nnet.input_dim(
        "input")), dtype=np.float32), *([np.ones(2, np.float32)] if path.stem.startswith("ivector") else []))
    assert values.std() > 0.01


def test_both_exporters_give_the_same_network() -> None:
    for path in FILES:
        if not path.stem.endswith("-dynamo"):
            old, new = foreign(path).nnet, foreign(path.with_name(f"{path.stem}-dynamo.onnx")).nnet
            assert old.num_parameters() == new.num_parameters() and len(old.components) == len(new.components)


def test_components_have_the_names_of_modules() -> None:
    nnet = foreign(DATA / "onnx" / "tdnn.onnx").nnet
    types = {name: type(component).__name__ for name, component in nnet.named_components()}
    assert types["tdnn1"] == "NaturalGradientAffineComponent" and types["norm1"] == "BatchNormComponent"
    assert types["norm1.scale"] == "NaturalGradientPerElementScaleComponent" and "norm2.scale" not in types
    dynamo = foreign(DATA / "onnx" / "tdnn-dynamo.onnx").nnet
    assert {"tdnn1", "tdnn2", "norm1", "output.affine"} <= set(dynamo.component_names)
    assert nnet.num_parameters() == 4 * 5 * 6 + 6 + 2 * 6 + 6 * 3 * 6 + 6 + 6 * 3 + 3


def test_rows_are_frames() -> None:
    """Without padding there are fewer rows than frames; with it, a stride, or both, their times are said."""
    assert {name: (network.first, network.step) for name in ("tdnn", "same_length", "causal", "strided", "spliced")
            for network in [foreign(DATA / "onnx" / f"{name}.onnx")]} == {
        "tdnn": (4, 1), "same_length": (0, 1), "causal": (0, 1), "strided": (0, 3), "spliced": (0, 3)}
    feats = np.random.default_rng(1).standard_normal((1, 40, 4)).astype(np.float32)
    for name, kept in (("tdnn", slice(4, -4)), ("same_length", slice(None)), ("causal", slice(None))):
        path = DATA / "onnx" / f"{name}.onnx"
        expected = run(session(str(path)), feats)[0][0]
        computed = nnet3py.compute(foreign(path).nnet, feats[0], frames_per_chunk=40)[kept]
        np.testing.assert_allclose(computed, expected, atol=CLOSE * np.abs(expected).max())


def test_zeros_can_be_repeated_frames() -> None:
    """A network with context, which is the graph but for the beginning and the end, whatever the chunks."""
    path = DATA / "onnx" / "same_length.onnx"
    with_zeros, network = foreign(path), foreign(path, padding="replicate")
    assert with_zeros.has_zeros and network.has_zeros
    assert "IfDefined" in "\n".join(with_zeros.nnet.config_lines())
    assert "IfDefined" not in "\n".join(network.nnet.config_lines())
    feats = np.random.default_rng(1).standard_normal((1, 100, 4)).astype(np.float32)
    expected = run(session(str(path)), feats)[0][0]
    computed = nnet3py.compute(network.nnet, feats[0], frames_per_chunk=20)
    inside = slice(12, -12)
    np.testing.assert_allclose(computed[inside], expected[inside], atol=1e-5)
    assert np.abs(computed - expected).max() > 0.01


@pytest.mark.parametrize(("seeds"), [range(FEW), pytest.param(range(FEW, FEW + MANY), marks=pytest.mark.slow)])
def test_random_convolutions(seeds: range, tmp_path: Path) -> None:
    """What is not refused computes what the graph does, for any number of frames."""
    refused = 0
    for seed in seeds:
        path = random_graph(seed, tmp_path / "a.onnx")
        try:
            network = foreign(path)
        except Nnet3Error as error:
            assert re.search("longer than its input|follows a Pad|is padded with zeros", str(error))
            refused += 1
            continue
        for frames in LENGTHS:
            assert difference_from_onnx(network, str(path), frames) < 5 * CLOSE, seed
    assert refused < len(seeds) / 2


def make_flatten(g: GraphMaker) -> str:
    rows = g.add("Reshape", "x", g.constant([-1, 4]))
    gemm = g.add("Gemm", g.add("Flatten", rows), g.numbers(5, 4), g.numbers(5), transB=1, alpha=0.5, beta=2.0)
    shape = g.add("Concat", g.add("Shape", "x", end=2), g.constant([5]), axis=0)
    return g.add("Reshape", gemm, shape)


def make_parts(g: GraphMaker) -> str:
    first = g.add("Split", "x", outputs=2, axis=2)
    second = first + ".1"
    picked = g.add("Unsqueeze", g.add("Gather", "x", g.constant(1), axis=2), g.constant([2]))
    return g.add("Concat", second, g.add("Neg", first), picked, axis=2)


def make_sums(g: GraphMaker) -> str:
    half = g.add("Mul", "x", g.constant(0.5, np.float32))
    low = g.add("Clip", "x", g.constant(0.0, np.float32))
    return g.add("Sub", g.add("Sum", "x", half, g.add("Dropout", low)), g.add("Cast", g.add("Tanh", "x"), to=1))


def make_quotient(g: GraphMaker) -> str:
    return g.add("Add", g.constant([1.0, 2.0, 3.0, 4.0], np.float32), g.add("Div", "x", g.constant(4.0, np.float32)))


def make_rnn(g: GraphMaker) -> str:
    time_first = g.add("Transpose", "x", perm=[1, 0, 2])
    y = g.add("RNN", time_first, g.numbers(2, 5, 4), g.numbers(2, 5, 5), g.numbers(2, 10), hidden_size=5,
              direction="bidirectional")
    y = g.add("Reshape", g.add("Transpose", y, perm=[2, 0, 1, 3]), g.constant([0, 0, -1]))
    return g.add("Identity", y)


def make_old_gru(g: GraphMaker) -> str:
    """The form that PyTorch does not have: the reset gate comes before the matrix."""
    x = g.add("Transpose", "x", perm=[1, 0, 2])
    y = g.add("GRU", x, g.numbers(1, 15, 4), g.numbers(1, 15, 5), g.numbers(1, 30), hidden_size=5,
              linear_before_reset=0, direction="reverse")
    return g.add("Transpose", g.add("Squeeze", y, g.constant([1])), perm=[1, 0, 2])


def make_peepholes(g: GraphMaker) -> str:
    """An LSTM of frames of which the first three are cut off: its state begins with the fourth."""
    x = g.add("Slice", "x", *map(g.constant, ([3], [END], [1])))
    y = g.add("LSTM", g.add("Transpose", x, perm=[1, 0, 2]), g.numbers(1, 20, 4), g.numbers(1, 20, 5),
              g.numbers(1, 40), "", "", "", g.numbers(1, 15), hidden_size=5)
    return g.add("Transpose", g.add("Squeeze", y, g.constant([1])), perm=[1, 0, 2])


def make_matrix_first(g: GraphMaker) -> str:
    columns = g.add("MatMul", g.numbers(5, 4), g.add("Transpose", "x", perm=[0, 2, 1]))
    return g.add("Transpose", g.add("Add", columns, g.numbers(5, 1)), perm=[0, 2, 1])


def make_blocks(g: GraphMaker) -> str:
    """A matrix for each half of the columns, and another order of them."""
    halves = g.add("Reshape", "x", g.constant([0, 0, 2, 2]))
    y = g.add("Transpose", g.add("MatMul", halves, g.numbers(2, 3)), perm=[0, 1, 3, 2])
    return g.add("PRelu", g.add("Reshape", y, g.constant([0, 0, 6])), g.numbers(1))


def make_slopes(g: GraphMaker) -> str:
    same = g.add("Conv", g.add("Transpose", "x", perm=[0, 2, 1]), g.numbers(4, 4, 4), auto_pad="SAME_LOWER")
    y = g.add("LeakyRelu", same, alpha=0.3)
    return g.add("Softmax", g.add("Transpose", y, perm=[0, 2, 1]), axis=2)


def make_tiled(g: GraphMaker) -> str:
    """The vector of a sequence for each frame."""
    vector = g.add("Unsqueeze", "vector", g.constant([1]))
    frames = g.add("Slice", g.add("Shape", "x"), g.constant([1]), g.constant([2]))
    repeats = g.add("Concat", g.constant([1]), frames, g.constant([1]), axis=0)
    return g.add("Mul", g.add("Tile", vector, repeats), "x")


MADE = [make_flatten, make_parts, make_sums, make_quotient, make_rnn, make_old_gru, make_peepholes, make_matrix_first,
        make_blocks, make_slopes, make_tiled]


@pytest.mark.parametrize("make", MADE, ids=lambda make: make.__name__.removeprefix("make_"))
def test_operators(make: Any, tmp_path: Path) -> None:
    g = GraphMaker(3)
    more = {"vector": ("N", 4)} if make is make_tiled else None
    path = g.write(tmp_path / "a.onnx", make(g), more_inputs=more)
    for frames in (20, 21):
        assert difference_from_onnx(foreign(path), str(path), frames) < CLOSE


def test_all_operators_are_tried(tmp_path: Path) -> None:
    kinds = {node.op_type for path in FILES for node in onnx.load(path).graph.node} | {"Pad", "AveragePool", "MaxPool"}
    for make in MADE:
        g = GraphMaker()
        make(g)
        kinds |= {node.op_type for node in g.nodes}
    assert set(RULES) <= kinds | {"Expand"}, set(RULES) - kinds


@pytest.mark.parametrize(("shape", "is_matrix"), [((1, 30, 4), False), (("T", 4), True), ((30, 4), True),
                                                  (("N", 1, "T", 4), False)])
def test_other_inputs(shape: tuple[Any, ...], is_matrix: bool, tmp_path: Path) -> None:
    """A fixed number of frames; frames as the rows of a matrix; an axis of a single channel."""
    g = GraphMaker(1)
    y = g.add("Relu", g.add("Gemm" if is_matrix else "MatMul", "x", g.numbers(4, 5)))
    path = g.write(tmp_path / "a.onnx", y, shape=shape)
    assert difference_from_onnx(foreign(path), str(path), 30) < CLOSE


def test_columns_before_frames(tmp_path: Path) -> None:
    g = GraphMaker(1)
    path = g.write(tmp_path / "a.onnx", g.add("Conv", "x", g.numbers(5, 4, 3)), shape=(1, 4, 30))
    network = foreign(path)
    assert network.layout == "nct" and difference_from_onnx(network, str(path)) < CLOSE


def test_branches_that_shapes_decide(tmp_path: Path) -> None:
    """As PyTorch's older exporter writes a squeeze."""
    g, helper = GraphMaker(1), onnx.helper
    inner = [helper.make_graph([helper.make_node(kind, ["x"], [f"{kind}.out"])], kind, [], [
        helper.make_tensor_value_info(f"{kind}.out", 1, None)]) for kind in ("Relu", "Tanh")]
    size = g.add("Gather", g.add("Shape", "x"), g.constant(2))
    y = g.add("If", g.add("Equal", size, g.constant(4)), then_branch=inner[0], else_branch=inner[1])
    path = g.write(tmp_path / "a.onnx", y)
    assert difference_from_onnx(foreign(path), str(path)) < CLOSE


def test_an_old_opset_is_converted(tmp_path: Path) -> None:
    g = GraphMaker(1)
    y = g.add("Dropout", g.add("Squeeze", g.add("Unsqueeze", "x", axes=[1]), axes=[1]))
    path = g.write(tmp_path / "a.onnx", g.add("Relu", y), opset=11)
    assert difference_from_onnx(foreign(path), str(path)) < CLOSE


def wrong_attention(g: GraphMaker) -> str:
    return g.add("MatMul", "x", g.add("Transpose", "x", perm=[0, 2, 1]))


def wrong_frames(g: GraphMaker) -> str:
    return g.add("MatMul", g.add("Transpose", "x", perm=[0, 2, 1]), g.numbers(4001, 2))


def wrong_filter(g: GraphMaker) -> str:
    return g.add("Conv", g.add("Transpose", "x", perm=[0, 2, 1]), g.add("Gather", g.add("Relu", "x"), g.constant(0)))


def padded(g: GraphMaker, **attributes: Any) -> str:
    return g.add("Pad", "x", g.constant([0, 1, 0, 0, 0, 0]), *([g.constant(1.0, np.float32)] if not attributes else []),
                 **attributes)


def lstm(g: GraphMaker, **attributes: Any) -> str:
    turned = g.add("Transpose", "x", perm=[1, 0, 2])
    y = g.add("LSTM", turned, g.numbers(1, 8, 4), g.numbers(1, 8, 2), hidden_size=2, outputs=3, **attributes)
    return g.add("Squeeze", y, g.constant([1]))


def last_state(g: GraphMaker) -> str:
    return g.add("Relu", g.add("Squeeze", lstm(g)[:0] + "v1.1", g.constant([0])))


WRONG = {
    "the ONNX operator 'Erf' (node 'n0') has no counterpart in nnet3": lambda g: g.add("Erf", "x"),
    "'MatMul' (node 'n1') cannot become part of a network: its second factor, as in self-attention": wrong_attention,
    "multiplies frames or sequences, not columns": wrong_frames,
    "selects frames, sequences or several columns": wrong_filter,
    "'Softmax' (node 'n0') cannot become part of a network: it is over axis 1": lambda g: g.add("Softmax", "x", axis=1),
    "concatenates frames or sequences": lambda g: g.add("Concat", "x", "x", axis=1),
    "have shapes": lambda g: g.add("Mul", "x", g.add("Slice", "x", *map(g.constant, ([0], [1], [2])))),
    "not the same for all frames": lambda g: g.add("Add", "x", g.numbers(4001, 1)),
    "divides by a value that is not constant": lambda g: g.add("Div", "x", g.add("Relu", "x")),
    "limits are not 0 and infinity": lambda g: g.add("Clip", "x", g.constant(-1.0, np.float32)),
    "it is in training mode": lambda g: g.add("BatchNormalization", g.add("Transpose", "x", perm=[0, 2, 1]), *[
        g.constant([1.0] * 4, np.float32) for _ in range(4)], outputs=3, training_mode=1),
    "in reverse": lambda g: g.add("Slice", "x", *map(g.constant, ([-1], [-END], [1], [-1]))),
    "pads in the mode 'reflect'": lambda g: padded(g, mode="reflect"),
    "with another number than 0": padded,
    "it follows a Pad": lambda g: g.add("Relu", g.add("Pad", "x", g.constant([0, 1, 0, 0, 0, 0]))),
    "is repeated to": lambda g: g.add("Tile", "x", g.constant([1, 2, 1])),
    "longer than its input": lambda g: g.add("Conv", g.add("Transpose", "x", perm=[0, 2, 1]), g.numbers(2, 4, 3),
                                             pads=[2, 2]),
    "its activations are": lambda g: lstm(g, activations=["Sigmoid", "Tanh", "Relu"]),
    "it clips": lambda g: lstm(g, clip=1.0),
    "the state after the last frame is read": last_state,
    "is the number of frames or sequences fixed in the graph": lambda g: g.add("Reshape", "x", g.constant([60, -1, 4])),
    "'Gather' (node 'n0') reads 'nothing', which nothing makes": lambda g: g.add("Gather", "nothing", g.constant(0)),
    "has NaN or infinity in it": lambda g: g.add("Mul", "x", g.constant(np.inf, np.float32)),
    "the output 'v1' does not depend on the input": lambda g: g.add("Relu", g.add("Neg", g.numbers(3))),
}


@pytest.mark.parametrize("message", WRONG)
def test_what_no_network_has_is_said(message: str, tmp_path: Path) -> None:
    g = GraphMaker()
    path = g.write(tmp_path / "a.onnx", WRONG[message](g))
    with pytest.raises(Nnet3Error, match=re.escape(message)) as caught:
        foreign(path)
    assert type(caught.value) is Nnet3Error and str(caught.value).startswith(str(path))


@pytest.mark.parametrize("count", [100, pytest.param(5000, marks=pytest.mark.slow)])
def test_damaged_files_are_errors_for_people(count: int, tmp_path: Path) -> None:
    rng, contents = np.random.default_rng(0), [path.read_bytes() for path in FILES]
    failed = 0
    for number in range(count):
        content = bytearray(contents[number % len(contents)])
        for place in rng.integers(len(content), size=rng.integers(1, 5)):
            if rng.random() < 0.3:
                del content[place:place + rng.integers(1, 20)]
            elif place < len(content):
                content[place] = rng.integers(256)
        (tmp_path / "a.onnx").write_bytes(content)
        try:
            nnet3py.from_onnx(tmp_path / "a.onnx")
        except Nnet3Error:
            failed += 1
    assert failed > count / 2


@pytest.mark.parametrize("name", ["attention", "attention-dynamo"])
def test_attention_is_refused(name: str) -> None:
    with pytest.raises(Nnet3Error, match=r"the ONNX operator 'MatMul' \(node '.*[Mm]at_?[Mm]ul'\) cannot become part"):
        foreign(DATA / "onnx" / f"{name}.onnx")


@pytest.mark.parametrize(("shape", "more", "message"), [
    (("N", "T", "C"), None, "expected an input of sequences, frames and a fixed number of columns"),
    (("N", "T", 4), {"h": (1, "N", 8)}, "the input 'h' has the shape.*a vector for each sequence, and no states"),
])
def test_inputs_that_no_network_has(shape: Any, more: Any, message: str, tmp_path: Path) -> None:
    g = GraphMaker()
    path = g.write(tmp_path / "a.onnx", g.add("Relu", "x"), shape=shape, more_inputs=more)
    with pytest.raises(Nnet3Error, match=message):
        foreign(path)
