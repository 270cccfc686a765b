"""nnet3py/export/: ONNX files give what nnet3py computes, for any number of sequences and frames."""
from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from export_cases import (
    CHAIN,
    GOLDEN,
    LENGTHS,
    NOT_EXPORTED,
    POOLED,
    SUBSAMPLED,
    TOLERANCE,
    all_cases,
    assert_close,
    chain_nnet,
    computed,
    made_session,
    random_inputs,
    read_case,
    small_cases,
    tolerance,
    with_numbers,
)
from paths import DATA
from random_networks import config, few_waves

import nnet3py
from nnet3py.cli.nnet.export import export, import_weights
from nnet3py.components.registry import COMPONENT_MODULES
from nnet3py.errors import Nnet3Error, UsageError
from nnet3py.export import layers, limits
from nnet3py.export.export_options import ExportOptions
from nnet3py.export.models import graph_of
from nnet3py.export.plain_weights import named_arrays, read_weights, set_arrays, write_weights
from nnet3py.export.times import statistics_reach
from nnet3py.formats.holders import FLOAT_MATRIX
from nnet3py.io.tables import write_table
from nnet3py.network.nnet import Nnet
from nnet3py.network.whole_model import set_batchnorm_test_mode
from nnet3py.runtime.compute import UtteranceComputer
from nnet3py.runtime.options import ComputeOptions
from nnet3py.runtime.xvectors import XvectorComputer

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from hypothesis import given, settings  # noqa: E402

from nnet3py.export.export_onnx import onnx_model  # noqa: E402
from nnet3py.export.from_onnx import set_from_onnx  # noqa: E402
from nnet3py.export.onnx_stream import run, session, utterance_output  # noqa: E402

MOST_WITHOUT = 5            # component types that cannot be exported
FEW = ["nets/net-lstm", "nets/net-tdnn", "nets/rnn-simple", "cases/restricted-attention", "cases/statistics-pooling",
       "cases/time-height-convolution", "cases/gru-nonlinearity"]


def outputs(running: Any, feats: np.ndarray, ivectors: np.ndarray | None) -> np.ndarray:
    by_name = {"input": feats, "ivector": ivectors}
    return run(running, *[by_name[each.name] for each in running.get_inputs()])[0]


def assert_exports(name: str, nnet: Nnet, factor: int, lengths: tuple[int, ...]) -> None:
    running = made_session(nnet, frame_subsampling_factor=factor)
    for frames in lengths:
        for num_sequences in (1, 3):
            given = random_inputs(nnet, frames, num_sequences)
            assert_close(outputs(running, *given), computed(nnet, *given, factor), tolerance(name))


@pytest.mark.parametrize("name", FEW)
def test_outputs_are_those_of_compute(name: str) -> None:
    assert_exports(name, read_case(name), 1, (23,))


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in small_cases() if Path(name).name not in
                                  {*NOT_EXPORTED, "multi-input-output"}])
def test_all_small_networks(name: str) -> None:
    assert_exports(name, read_case(name), 1, LENGTHS)


@pytest.mark.slow
@pytest.mark.skipif(not GOLDEN.is_dir(), reason="the reference cases are not here")
def test_all_reference_cases() -> None:
    for name in all_cases():
        for factor in (1, 3) if name in SUBSAMPLED else (1,):
            assert_exports(name, read_case(name), factor, LENGTHS)


@pytest.mark.parametrize("factor", [1, 2, 3])
def test_a_chain_model(factor: int) -> None:
    assert_exports("chain", chain_nnet(), factor, (1, 2, 3, 16))


def check_random_network(text: str, factor: int) -> None:
    """Networks that nnet3-compute cannot compute are passed over, and those with a fixed t inside a recurrence."""
    nnet = with_numbers(Nnet.from_config(text, seed=2))
    given = random_inputs(nnet, 13, 2)
    with few_waves():
        try:
            expected = computed(nnet, *given, factor)
        except Nnet3Error:
            return
        try:
            running = made_session(nnet, frame_subsampling_factor=factor)
        except Nnet3Error as error:
            assert "cannot be exported" in str(error) and "ReplaceIndex" in text
            return
        assert_close(outputs(running, *given), expected, TOLERANCE)


def test_a_frame_with_a_fixed_number() -> None:
    """It is needed at a time that the outputs, every third, would not need it at."""
    check_random_network("""input-node name=input dim=2
component name=c0 type=AffineComponent input-dim=2 output-dim=2
component-node name=c0 component=c0 input=input
output-node name=output input=Sum(c0, ReplaceIndex(c0, t, 2))
""", 3)


def test_a_recurrence_that_can_begin_at_any_even_time() -> None:
    """It begins after the last odd time at which it cannot be computed."""
    check_random_network("""input-node name=input dim=2
component name=c0 type=AffineComponent input-dim=2 output-dim=2
component-node name=c0 component=c0 input=Offset(input, 1)
component name=first type=NoOpComponent dim=2
component-node name=first component=first input=ReplaceIndex(c0, t, 0)
component name=c1 type=AffineComponent input-dim=2 output-dim=2
component-node name=c1 component=c1 input=Sum(Switch(first, c0), IfDefined(Offset(c1, -1)))
output-node name=output input=ReplaceIndex(c1, t, 1)
""", 1)


def test_a_switch_of_a_frame_with_a_fixed_number() -> None:
    nnet = Nnet.from_config("""input-node name=input dim=2
output-node name=output input=Switch(ReplaceIndex(input, t, 0), input)
""")
    with pytest.raises(Nnet3Error, match="'output': a Switch.. of a frame with a fixed number"):
        graph_of(nnet, ExportOptions())


@settings(max_examples=12, deadline=None, derandomize=True, database=None)
@given(config("type=AffineComponent input-dim=2 output-dim=2"))
def test_random_networks(text: str) -> None:
    check_random_network(text, 1)


@pytest.mark.slow
@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(config("type=AffineComponent input-dim=2 output-dim=2"))
def test_many_random_networks(text: str) -> None:
    for factor in (1, 3):
        check_random_network(text, factor)


def test_the_caller_gives_the_context() -> None:
    nnet = chain_nnet()
    feats, ivectors = random_inputs(nnet, 16, 2)
    running = made_session(nnet, edges="given")
    left, right = (int(running.get_modelmeta().custom_metadata_map[key]) for key in ("left_context", "right_context"))
    assert (left, right) == (4, 4)
    padded = np.pad(feats, ((0, 0), (left, right), (0, 0)), mode="edge")
    assert_close(outputs(running, padded, ivectors), computed(nnet, feats, ivectors), TOLERANCE)


def test_a_recurrence_that_hands_on_a_value_twice() -> None:
    """A node and a range of all its columns, both read a step later, are the same value in the loop."""
    affine = "type=AffineComponent input-dim=2 output-dim=2"
    nnet = with_numbers(Nnet.from_config(f"""input-node name=input dim=2
component name=a {affine}
component-node name=a component=a input=Sum(input, IfDefined(Offset(b, -1)))
dim-range-node name=part input-node=a dim-offset=0 dim=2
component name=b {affine}
component-node name=b component=b input=Sum(a, part)
output-node name=output input=part
""", seed=2))
    assert_exports("loop", nnet, 1, (2, 7))


def test_a_recurrence_that_reads_the_past_of_what_it_is_given() -> None:
    """``part`` is what ``a`` was two steps ago: the loop was given it, and hands it on under another name."""
    affine = "type=AffineComponent input-dim=2 output-dim=2"
    nnet = with_numbers(Nnet.from_config(f"""input-node name=input dim=2
component name=a {affine}
component-node name=a component=a input=Sum(input, IfDefined(Offset(b, -2)))
dim-range-node name=part input-node=a dim-offset=0 dim=2
component name=b {affine}
component-node name=b component=b input=Sum(Round(part, 3), IfDefined(Offset(b, -3)))
output-node name=output input=a
""", seed=2))
    assert_exports("loop", nnet, 1, (2, 12))


def test_an_ivector_for_each_chunk() -> None:
    """As nnet3-compute takes one from --online-ivectors for each of its chunks."""
    nnet, size, period = chain_nnet(), 8, 5
    feats = random_inputs(nnet, 3 * size, 1)[0]
    ivectors = np.random.default_rng(1).standard_normal((5, nnet.input_dim("ivector"))).astype(np.float32)
    running = made_session(nnet, edges="given")
    padded = np.pad(feats, ((0, 0), (4, 4), (0, 0)), mode="edge")
    rows = [outputs(running, padded[:, t:t + size + 8], ivectors[[(t + (size - 1) // 2) // period]])
            for t in range(0, 3 * size, size)]
    set_batchnorm_test_mode(nnet, True)
    computer = UtteranceComputer(nnet, ComputeOptions(frames_per_chunk=size))
    expected = computer.compute(feats[0], online_ivectors=ivectors, online_ivector_period=period)
    assert_close(np.concatenate(rows, axis=1)[0], expected, TOLERANCE)


def test_what_comes_after_the_output(tmp_path: Path) -> None:
    nnet = chain_nnet()
    given = random_inputs(nnet, 16, 2)
    plain = computed(nnet, *given).astype(np.float64)
    normalized = plain - np.log(np.exp(plain).sum(axis=-1, keepdims=True))
    assert_close(outputs(made_session(nnet, log_softmax=True), *given), normalized, TOLERANCE)
    assert_close(outputs(made_session(nnet, apply_exp=True, log_softmax=True), *given), np.exp(normalized), TOLERANCE)
    with pytest.raises(UsageError, match="priors"):
        graph_of(nnet, ExportOptions(use_priors=True))


def test_other_outputs_and_metadata() -> None:
    nnet = chain_nnet()
    feats, ivectors = random_inputs(nnet, 16, 1)
    running = made_session(nnet, output="tdnn1.batchnorm", comment="layer 1")
    assert ivectors is not None
    expected = nnet3py.compute(nnet, feats[0], ivectors[0], output="tdnn1.batchnorm")
    assert_close(outputs(running, feats, ivectors)[0], expected, TOLERANCE)
    metadata = running.get_modelmeta().custom_metadata_map
    assert metadata["comment"] == "layer 1" and metadata["left_context"] == "1"
    both = made_session(nnet, output="*")
    assert [each.name for each in both.get_outputs()] == ["output", "output-xent"]
    assert {"tdnn1.affine.bias_params", "tdnnf2.linear.linear_params"} <= {
        each.name for each in onnx_model(graph_of(nnet, ExportOptions(collapse=False))).graph.initializer}


def test_two_inputs_of_frames(tmp_path: Path) -> None:
    """Not a network of nnet3-compute: the second input goes the same way as the first."""
    nnet = read_case("nets/multi-input-output")
    running = made_session(nnet)
    names = [each.name for each in running.get_inputs()]
    assert sorted(names) == ["aux", "input"]
    rng = np.random.default_rng(0)
    given = {name: rng.standard_normal((2, 6, nnet.input_dim(name))).astype(np.float32) for name in names}
    found = run(running, *given.values())[0]

    def rows(times: range) -> np.ndarray:
        return np.array([(n, t, 0) for n in (0, 1) for t in times], np.int32)

    request = nnet3py.ComputationRequest([nnet3py.IoSpecification(name, rows(range(6))) for name in names],
                                         [nnet3py.IoSpecification("output", rows(range(6)))])
    computer = nnet3py.Computer(nnet3py.compile(nnet, request), nnet)
    for name, array in given.items():
        computer.accept_input(name, array.reshape(-1, array.shape[2]))
    computer.run()
    assert_close(found, computer.output("output").reshape(2, 6, -1), TOLERANCE)
    nnet.write(tmp_path / "a.raw")
    assert export.execute(["--print-args=false", str(tmp_path / "a.raw"), str(tmp_path / "a.onnx")]) == 0


def test_one_vector_for_each_utterance() -> None:
    """As nnet3-xvector-compute gives it, which uses the frames that can be computed without repeating any."""
    nnet = read_case("cases/statistics-pooling-whole-utterance")
    running = made_session(nnet, edges="none")
    feats, _ = random_inputs(nnet, 101, 2)
    expected = [XvectorComputer(nnet).compute(x) for x in feats]
    assert_close(outputs(running, feats, None)[:, 0], np.stack(expected), POOLED)


def test_what_cannot_be_exported_is_said_before() -> None:
    statistics = {type(c).__name__ for c in read_case("cases/statistics-pooling").components if statistics_reach(c)}
    with_rule = {*layers.RULES, *layers.RULES_OVER_TIME, *statistics}
    assert len(limits.UNSUPPORTED) <= MOST_WITHOUT and with_rule.isdisjoint(limits.UNSUPPORTED)
    assert with_rule | set(limits.UNSUPPORTED) == set(COMPONENT_MODULES)
    with pytest.raises(Nnet3Error, match="DistributeComponent 'c'|DistributeComponent 'd'"):
        graph_of(read_case("cases/distribute"), ExportOptions())
    untrained = Nnet.from_config("""input-node name=input dim=2
component name=b type=BatchNormComponent dim=2
component-node name=b component=b input=input
output-node name=output input=Offset(b, 1, 1)
""")
    with pytest.raises(Nnet3Error, match=r"BatchNormComponent 'b': it has no statistics.*node 'output'.*another x"):
        graph_of(untrained, ExportOptions())


@pytest.mark.parametrize("file_format", ["npz", "safetensors"])
def test_numbers_alone_and_back(tmp_path: Path, file_format: str) -> None:
    if file_format == "safetensors":
        pytest.importorskip("safetensors")
    nnet = chain_nnet()
    write_weights(nnet, tmp_path / "weights", file_format)
    weights = read_weights(tmp_path / "weights", file_format)
    assert weights.keys() == named_arrays(nnet).keys()
    other = Nnet.from_config(CHAIN, seed=7)
    assert set_arrays(other, weights)
    for name, array in named_arrays(other).items():
        np.testing.assert_array_equal(array, named_arrays(nnet)[name])
    assert set_arrays(other, weights) == []
    with pytest.raises(Nnet3Error, match="not a parameter of the network"):
        set_arrays(other, {"tdnn9": np.zeros(3)})
    with pytest.raises(Nnet3Error, match="shape"):
        set_arrays(other, {"tdnn1.affine.bias_params": np.zeros(3)})
    (tmp_path / "weights").write_bytes(b"no such file")
    with pytest.raises(Nnet3Error, match="file of weights"):
        read_weights(tmp_path / "weights", file_format)


@pytest.mark.parametrize("collapse", ["true", "false"])
def test_an_onnx_file_and_back(here: Path, collapse: str) -> None:
    """What did not change keeps its bytes; what changed comes back, if it was not merged."""
    chain_nnet().write("a.raw")
    plain = "--print-args=false"
    assert export.execute([plain, f"--collapse={collapse}", "--frame-subsampling-factor=3", "a.raw", "a.onnx"]) == 0
    assert import_weights.execute([plain, "a.raw", "a.onnx", "b.raw"]) == 0
    assert Path("a.raw").read_bytes() == Path("b.raw").read_bytes()
    model = onnx.load("a.onnx")
    for initializer in model.graph.initializer:
        if initializer.name.endswith("linear_params"):
            array = 2 * onnx.numpy_helper.to_array(initializer)
            initializer.CopyFrom(onnx.numpy_helper.from_array(array, initializer.name))
    onnx.save(model, "double.onnx")
    status = import_weights.execute([plain, "a.raw", "double.onnx", "double.raw"])
    if collapse == "true":
        assert status == 255 and not Path("double.raw").exists()
        return
    assert status == 0
    old, new = (named_arrays(nnet3py.read_nnet(name)) for name in ("a.raw", "double.raw"))
    np.testing.assert_array_equal(new["tdnnf2.affine.linear_params"], 2 * old["tdnnf2.affine.linear_params"])
    np.testing.assert_array_equal(new["tdnnf2.affine.bias_params"], old["tdnnf2.affine.bias_params"])


def test_the_weights_of_a_recurrence_come_back(tmp_path: Path) -> None:
    nnet = read_case("nets/net-lstm")
    nnet3py.export_onnx(nnet, tmp_path / "a.onnx", collapse=False)
    assert set_from_onnx(nnet, tmp_path / "a.onnx") == []
    other = read_case("nets/net-lstm")
    other.scale(0.5)
    set_from_onnx(other, tmp_path / "a.onnx")
    for name, array in named_arrays(other).items():
        np.testing.assert_array_equal(array, named_arrays(nnet)[name])
    (tmp_path / "bad.onnx").write_bytes(b"no such file")
    with pytest.raises(Nnet3Error, match="ONNX"):
        set_from_onnx(nnet, tmp_path / "bad.onnx")


@pytest.mark.filterwarnings("ignore")           # of onnxruntime's tools
@pytest.mark.parametrize(("kind", "with_feats", "allowed"), [("int8", False, 0.02), ("int16", True, 1e-3),
                                                             ("float16", False, 0.01)])
def test_quantized(here: Path, capfd: pytest.CaptureFixture[str], kind: str, with_feats: bool, allowed: float) -> None:
    nnet = read_case("nets/net-tdnn")
    nnet.write("a.raw")
    options = ["--print-args=false", f"--quantize={kind}"]
    if with_feats:
        options.append("--quantize-feats=ark:feats.ark")
        write_feats(Path("feats.ark"), nnet)
    assert export.execute([*options, "a.raw", "a.onnx"]) == 0
    assert "of the outputs' standard deviation" in capfd.readouterr().err
    given = random_inputs(nnet, 40, 1)
    found, expected = outputs(session("a.onnx"), *given), computed(nnet, *given)
    assert 0 < np.sqrt(((found - expected)**2).mean()) <= allowed * expected.std()


@pytest.mark.filterwarnings("ignore")           # of onnxruntime's tools
@pytest.mark.parametrize(("kind", "limit", "beside"), [("int8", 1000, True), ("int8", 20000, False),
                                                       ("float16", 1000, True), ("float16", 20000, False)])
def test_quantized_weights_beside_the_graph(here: Path, monkeypatch: pytest.MonkeyPatch, kind: str, limit: int,
                                            beside: bool) -> None:
    """A model that is too large for a single file becomes smaller; it stays two files only if it is still too large."""
    monkeypatch.setattr("nnet3py.export.onnx_graph.LARGEST_FILE", limit)
    nnet = Nnet.from_config("""input-node name=input dim=80
component name=a type=LinearComponent input-dim=80 output-dim=80
component-node name=a component=a input=input
output-node name=output input=a
""", seed=1)
    nnet.write("a.raw")
    write_feats(Path("feats.ark"), nnet)
    assert export.execute(["--print-args=false", f"--quantize={kind}", "--quantize-feats=ark:feats.ark", "a.raw",
                           "a.onnx"]) == 0
    assert Path("a.onnx.weights").exists() == beside
    given = random_inputs(nnet, 9, 1)
    quantized, expected = outputs(session("a.onnx"), *given), computed(nnet, *given)
    assert 0 < np.sqrt(((quantized - expected)**2).mean()) <= 0.1 * expected.std()


@pytest.mark.filterwarnings("ignore")           # of onnxruntime's tools
@pytest.mark.parametrize(("kind", "form"), [("int8", "--streaming=true"), ("float16", "--streaming=true"),
                                            ("int16", "--edges=given")])
def test_quantized_streams(here: Path, capfd: pytest.CaptureFixture[str], kind: str, form: str) -> None:
    """The loss is measured chunk after chunk, or with the frames around an utterance."""
    nnet = read_case("nets/net-tdnn")
    nnet.write("a.raw")
    write_feats(Path("feats.ark"), nnet)
    assert export.execute(["--print-args=false", form, f"--quantize={kind}", "--quantize-feats=ark:feats.ark", "a.raw",
                           "a.onnx"]) == 0
    assert f"Quantized a.onnx to {kind}" in capfd.readouterr().err
    feats, ivectors = random_inputs(nnet, 40, 1)
    given = {"input": feats} | ({} if ivectors is None else {"ivector": ivectors})
    found, expected = utterance_output(session("a.onnx"), given), computed(nnet, feats, ivectors)
    assert 0 < np.sqrt(((found - expected)**2).mean()) <= 0.1 * expected.std()


@pytest.mark.parametrize("form", ["--edges=given", "--streaming=true", "--streaming=true --fixed-chunks=true"])
def test_other_forms_are_compared(here: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str],
                                  form: str) -> None:
    chain_nnet().write("a.raw")
    options = ["--print-args=false", "--frame-subsampling-factor=3", "--chunk-outputs=4", *form.split()]
    assert export.execute([*options, "a.raw", "a.onnx"]) == 0
    assert "onnxruntime and nnet3py differ by" in capfd.readouterr().err
    monkeypatch.setattr("nnet3py.cli.nnet.export.ONNX_TOLERANCE", 0.0)
    assert export.execute([*options, "a.raw", "a.onnx"]) == 1


def test_more_metadata(tmp_path: Path) -> None:
    nnet3py.export_onnx(chain_nnet(), tmp_path / "a.onnx", metadata="sample_rate=16000, language = en")
    known = session(str(tmp_path / "a.onnx")).get_modelmeta().custom_metadata_map
    assert (known["sample_rate"], known["language"], known["subsampling_factor"]) == ("16000", "en", "1")
    with pytest.raises(UsageError, match="key=value"):
        nnet3py.export_onnx(chain_nnet(), tmp_path / "b.onnx", metadata="16000")
    assert not (tmp_path / "b.onnx").exists()


def write_feats(path: Path, nnet: Nnet) -> None:
    write_table(f"ark:{path}", FLOAT_MATRIX,
                ((f"u{number}", random_inputs(nnet, 30 + number, 1)[0][0]) for number in range(3)))


def test_priors(tmp_path: Path) -> None:
    model = nnet3py.read_model(str(DATA / "network" / "am-priors.mdl"))
    nnet3py.export_onnx(model, tmp_path / "a.onnx", use_priors=True)
    given = random_inputs(model.nnet, 12, 2)
    expected = computed(model.nnet, *given) - np.log(model.priors)
    assert_close(outputs(session(str(tmp_path / "a.onnx")), *given), expected, TOLERANCE)


def test_large_weights_lie_beside_the_graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As those of more than 2 GB do."""
    monkeypatch.setattr("nnet3py.export.onnx_graph.LARGEST_FILE", 1000)
    nnet = Nnet.from_config("""input-node name=input dim=40
component name=a type=LinearComponent input-dim=40 output-dim=24
component-node name=a component=a input=input
output-node name=output input=a
""", seed=1)
    for _ in range(2):
        nnet3py.export_onnx(nnet, tmp_path / "a.onnx")
    assert (tmp_path / "a.onnx").stat().st_size < 2000 and (tmp_path / "a.onnx.weights").stat().st_size == 40 * 24 * 4
    assert set_from_onnx(nnet, tmp_path / "a.onnx") == []
    given = random_inputs(nnet, 9, 1)
    assert_close(outputs(session(str(tmp_path / "a.onnx")), *given), computed(nnet, *given), TOLERANCE)
    with pytest.raises(UsageError, match="too many for a single ONNX file"):
        nnet3py.export_onnx(nnet, f"| cat > {tmp_path / 'b.onnx'}")
    assert not (tmp_path / "b.onnx").exists()
