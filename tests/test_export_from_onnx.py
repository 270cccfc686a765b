"""nnet3py/export/from_onnx.py: exported files become the networks again that they were made of."""
from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from export_cases import (
    SUBSAMPLED,
    TOLERANCE,
    all_cases,
    assert_close,
    chain_nnet,
    computed,
    random_inputs,
    read_case,
    small_cases,
    tolerance,
    with_numbers,
)
from paths import DATA

import nnet3py
from nnet3py.acoustic_model import AcousticModel
from nnet3py.cli.nnet.export import export, import_weights
from nnet3py.errors import FormatError, Nnet3Error, ShapeError, UsageError
from nnet3py.export.plain_weights import named_arrays
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.io.object_files import read_object
from nnet3py.network.nnet import Nnet
from nnet3py.recognition.model_folder import demo_folder

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from nnet3py import from_onnx  # noqa: E402

FEW = ["nets/net-lstm", "nets/net-tdnn", "cases/restricted-attention", "cases/statistics-pooling", "cases/composite",
       "cases/time-height-convolution", "cases/gru-nonlinearity", "cases/batch-norm"]
FORMS: list[dict[str, Any]] = [{}, {"collapse": False}, {"edges": "given"}]
QUIET = "--print-args=false"
PDFS = 10              # of the transition model beside the tests


def assert_comes_back(name: str, nnet: Nnet, path: Path, factors: tuple[int, ...] = (1,),
                      forms: list[dict[str, Any]] = FORMS) -> None:
    given = random_inputs(nnet, 23, 2)
    for factor in factors:
        expected = computed(nnet, *given, factor)
        for form in forms:
            nnet3py.export_onnx(nnet, path, frame_subsampling_factor=factor, **form)
            assert_close(computed(from_onnx(path), *given, factor), expected, tolerance(name))


@pytest.mark.parametrize("name", FEW)
def test_outputs_are_those_of_the_network(name: str, tmp_path: Path) -> None:
    assert_comes_back(name, read_case(name), tmp_path / "a.onnx", forms=FORMS[:2])


@pytest.mark.slow
def test_all_networks(tmp_path: Path) -> None:
    for name in all_cases() or set(small_cases()) - {"nets/multi-input-output", "cases/distribute"}:
        assert_comes_back(name, read_case(name), tmp_path / "a.onnx", (1, 3) if name in SUBSAMPLED else (1,))


def test_a_chain_model_with_subsampling(tmp_path: Path) -> None:
    forms = [*FORMS, {"streaming": True}, {"streaming": True, "fixed_chunks": True, "chunk_outputs": 4}]
    assert_comes_back("chain", chain_nnet(), tmp_path / "a.onnx", (1, 3), forms)


def test_nothing_is_lost_of_what_is_not_merged(tmp_path: Path) -> None:
    nnet = chain_nnet()
    nnet.component("tdnn1.affine").learning_rate = 0.25             # type: ignore[attr-defined]
    nnet.write(tmp_path / "a.raw")
    nnet3py.export_onnx(nnet, tmp_path / "a.onnx", collapse=False, output="*")
    from_onnx(tmp_path / "a.onnx").write(tmp_path / "b.raw")
    assert (tmp_path / "a.raw").read_bytes() == (tmp_path / "b.raw").read_bytes()
    assert (tmp_path / "a.onnx").stat().st_size < 4 * nnet.num_parameters() + 40_000


def test_parameters_are_stored_once(tmp_path: Path) -> None:
    """Also those that no matrix is multiplied by."""
    nnet = Nnet.from_config("input-node name=input dim=20000\ncomponent name=s type=PerElementScaleComponent dim=20000 "
                            "param-stddev=1\ncomponent-node name=s component=s input=input\n"
                            "output-node name=output input=s\n")
    nnet3py.export_onnx(nnet, tmp_path / "a.onnx")
    assert 4 * 20_000 < (tmp_path / "a.onnx").stat().st_size < 4 * 20_000 + 4000
    np.testing.assert_array_equal(from_onnx(tmp_path / "a.onnx").component("s").parameters()["scales"],
                                  nnet.component("s").parameters()["scales"])


def test_the_model_that_comes_with_the_package(tmp_path: Path) -> None:
    """A published chain model: i-vectors, TDNN-F, subsampling; the file is as large as before, and the model whole."""
    folder = demo_folder()
    nnet3py.export_onnx(folder, tmp_path / "a.onnx")
    model = from_onnx(tmp_path / "a.onnx", like=folder)
    output = nnet3py.front_end(folder)(str(DATA / "demo.wav"))
    expected = nnet3py.compute(folder, *output)
    assert_close(nnet3py.compute(model, *output, frame_subsampling_factor=3), expected, TOLERANCE)
    model.write(tmp_path / "final.mdl")
    assert nnet3py.read_model(tmp_path / "final.mdl").transition_model.num_pdfs == expected.shape[1]
    text = nnet3py.decode(folder, nnet3py.compute(model, *output, frame_subsampling_factor=3)).text
    assert text == "set a timer for ten minutes"
    largest = onnx.load(tmp_path / "a.onnx")
    assert len(next(each.value for each in largest.metadata_props if each.key == "network")) < 60_000


def changed(path: Path, change: Any, new: Path) -> Path:
    """A copy of a file with other numbers."""
    model = onnx.load(path)
    for initializer in model.graph.initializer:
        array = change(initializer.name, onnx.numpy_helper.to_array(initializer).copy())
        initializer.CopyFrom(onnx.numpy_helper.from_array(array, initializer.name))
    onnx.save(model, new)
    return new


def test_numbers_that_training_changed(tmp_path: Path) -> None:
    nnet = chain_nnet()
    nnet3py.export_onnx(nnet, tmp_path / "a.onnx", collapse=False)
    path = changed(tmp_path / "a.onnx", lambda name, x: x * 1.5 if "linear_params" in name else x, tmp_path / "b.onnx")
    arrays, old = named_arrays(from_onnx(path)), named_arrays(nnet)
    for name in ("lda.linear_params", "tdnn1.affine.linear_params", "tdnnf2.affine.linear_params"):
        np.testing.assert_array_equal(arrays[name], old[name] * np.float32(1.5))
    np.testing.assert_array_equal(arrays["tdnn1.affine.bias_params"], old["tdnn1.affine.bias_params"])


def test_statistics_that_training_changed(tmp_path: Path) -> None:
    """Batch normalization gets the mean and the variance that the changed scale and offset stand for."""
    nnet = read_case("cases/batch-norm")
    nnet3py.export_onnx(nnet, tmp_path / "a.onnx", collapse=False)
    path = changed(tmp_path / "a.onnx", lambda name, x: x * 0.5 if "test_scale" in name else x + 1.0
                   if "test_offset" in name else x, tmp_path / "b.onnx")
    feats, _ = random_inputs(nnet, 9, 2)
    running = nnet3py.export.onnx_stream.session(str(path))       # type: ignore[attr-defined]
    assert_close(computed(from_onnx(path), feats, None), running.run(None, {"input": feats})[0], TOLERANCE)
    bad = changed(tmp_path / "a.onnx", lambda name, x: -x if "test_scale" in name else x, tmp_path / "c.onnx")
    with pytest.raises(Nnet3Error, match="scales that batch normalization cannot have: they are above 0"):
        from_onnx(bad)


def test_what_comes_after_the_network_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    nnet = chain_nnet()
    nnet3py.export_onnx(nnet, tmp_path / "a.onnx", log_softmax=True, frame_subsampling_factor=3)
    given = random_inputs(nnet, 9, 1)
    with caplog.at_level(logging.INFO, "nnet3py.export"):
        found = computed(from_onnx(tmp_path / "a.onnx"), *given)
    assert_close(found, computed(nnet, *given), TOLERANCE)
    assert "ends with a log-softmax after the network; the imported network does not" in caplog.text
    assert "a row of output for every 3 frames" in caplog.text


def test_damaged_files(tmp_path: Path) -> None:
    nnet3py.export_onnx(chain_nnet(), tmp_path / "a.onnx")
    model = onnx.load(tmp_path / "a.onnx")
    props = {each.key: each for each in model.metadata_props}
    text = props["network"].value
    for value, message in (("no text", "the network in the metadata is damaged"), (text[:400], "the network in the"),
                           (text[:200] + "AAAA" + text[204:], "damaged|expected")):
        props["network"].value = value
        onnx.save(model, tmp_path / "b.onnx")
        with pytest.raises(FormatError, match=message):
            from_onnx(tmp_path / "b.onnx")
    props["network"].value, props["frame_subsampling_factor"].value = text, "three"
    onnx.save(model, tmp_path / "b.onnx")
    with pytest.raises(FormatError, match="frame_subsampling_factor=three"):
        from_onnx(tmp_path / "b.onnx")
    props["frame_subsampling_factor"].value = "1"
    model.graph.initializer[[each.name for each in model.graph.initializer].index(
        "output.affine.bias_params")].name = "other"
    onnx.save(model, tmp_path / "b.onnx")
    with pytest.raises(FormatError, match="the file has no 'output.affine.bias_params'.*quantized, or changed"):
        from_onnx(tmp_path / "b.onnx")
    (tmp_path / "b.onnx").write_bytes(b"no such file")
    for content in (b"no such file", b""):
        (tmp_path / "b.onnx").write_bytes(content)
        with pytest.raises(FormatError, match="this is no ONNX file"):
            from_onnx(tmp_path / "b.onnx")
    with pytest.raises(Nnet3Error, match="c.onnx"):
        from_onnx(tmp_path / "c.onnx")


@pytest.mark.filterwarnings("ignore")           # of onnxruntime's tools
def test_a_quantized_file_is_refused(tmp_path: Path) -> None:
    nnet3py.export_onnx(read_case("nets/net-tdnn"), tmp_path / "a.onnx", quantize="int8")
    with pytest.raises(Nnet3Error, match="was the file quantized"):
        from_onnx(tmp_path / "a.onnx")


def model_of(nnet: Nnet) -> AcousticModel:
    transitions = read_object(DATA / "network" / "trans.mdl", TransitionModel.read)
    assert transitions.num_pdfs == PDFS
    return AcousticModel(transitions, nnet, np.full(PDFS, 1 / PDFS, np.float32))


def acoustic_model(pdfs: int = PDFS) -> AcousticModel:
    config = f"""input-node name=input dim=4
component name=a type=NaturalGradientAffineComponent input-dim=12 output-dim={pdfs}
component-node name=a component=a input=Append(Offset(input, -1), input, Offset(input, 1))
output-node name=output input=a
"""
    return model_of(with_numbers(Nnet.from_config(config, seed=1)))


def test_like_gives_an_acoustic_model(tmp_path: Path) -> None:
    model = acoustic_model()
    model.write(tmp_path / "final.mdl")
    nnet3py.export_onnx(tmp_path / "final.mdl", tmp_path / "a.onnx")
    for like in (model, tmp_path / "final.mdl", str(tmp_path)):
        from_onnx(tmp_path / "a.onnx", like=like).write(tmp_path / "b.mdl")
        assert (tmp_path / "final.mdl").read_bytes() == (tmp_path / "b.mdl").read_bytes()
    other = acoustic_model(PDFS + 1)
    nnet3py.export_onnx(other.nnet, tmp_path / "b.onnx")
    with pytest.raises(ShapeError, match=f"the output of the network has dimension {PDFS + 1}.* {PDFS} pdfs"):
        from_onnx(tmp_path / "b.onnx", like=model)
    with pytest.raises(ShapeError, match="dimension 3, but the transition model has 10 pdfs"):
        from_onnx(DATA / "onnx" / "tdnn.onnx", like=model)
    with pytest.raises(UsageError, match="padding='circular': expected 'zeros' or 'replicate'"):
        from_onnx(DATA / "onnx" / "tdnn.onnx", padding="circular")


def test_graphs_of_other_programs(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "nnet3py.export"):
        assert from_onnx(DATA / "onnx" / "tdnn.onnx").output_dim("output") == 3
        assert "is the network's output for frame r + 4" in caplog.text
        from_onnx(DATA / "onnx" / "strided.onnx")
        assert "frame 3 r" in caplog.text and "pads with zeros" in caplog.text
        caplog.clear()
        from_onnx(DATA / "onnx" / "gru.onnx")
        from_onnx(DATA / "onnx" / "same_length.onnx", padding="replicate")
        assert "is recurrent" in caplog.text and "pads with zeros" not in caplog.text


def test_an_acoustic_model_stays_one(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    acoustic_model().write("final.mdl")
    acoustic_model().nnet.write("final.raw")
    assert export.execute([QUIET, "--collapse=false", "final.mdl", "a.onnx"]) == 0
    assert import_weights.execute([QUIET, "final.mdl", "a.onnx", "b.mdl"]) == 0
    assert import_weights.execute([QUIET, "--like=final.mdl", "a.onnx", "c.mdl"]) == 0
    assert import_weights.execute([QUIET, "--like=final.mdl", "final.raw", "a.onnx", "d.mdl"]) == 0
    for name in ("b.mdl", "c.mdl", "d.mdl"):
        assert Path(name).read_bytes() == Path("final.mdl").read_bytes()
    assert import_weights.execute([QUIET, "--raw=true", "final.mdl", "a.onnx", "b.raw"]) == 0
    assert import_weights.execute([QUIET, "a.onnx", "c.raw"]) == 0
    for name in ("b.raw", "c.raw"):
        assert Path(name).read_bytes() == Path("final.raw").read_bytes()
    assert export.execute([QUIET, "--format=npz", "final.mdl", "a.npz"]) == 0
    assert import_weights.execute([QUIET, "--format=npz", "final.mdl", "a.npz", "e.mdl"]) == 0
    assert Path("e.mdl").read_bytes() == Path("final.mdl").read_bytes()
    capfd.readouterr()
    for words, message in (
            (["--raw=true", "--like=final.mdl", "a.onnx", "x"], "--raw and --like cannot both be given"),
            (["--format=npz", "a.npz", "x"], "such files contain weights only"),
            (["--padding=same", "a.onnx", "x"], "padding"),
            (["--like=final.mdl", str(DATA / "onnx" / "tdnn.onnx"), "x"], "has dimension 3"),
            ([str(DATA / "onnx" / "attention.onnx"), "x"], "the ONNX operator 'MatMul' (node '/MatMul')"),
            (["final.raw", str(DATA / "onnx" / "tdnn.onnx"), "x"], "nnet3-import FILE.onnx NNET-OUT")):
        assert import_weights.execute([QUIET, *words]) != 0 and not Path("x").exists()
        assert message in capfd.readouterr().err


def test_graphs_are_compared(here: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    path = str(DATA / "onnx" / "same_length.onnx")
    assert import_weights.execute([QUIET, path, "a.raw"]) == 0
    assert "onnxruntime and nnet3py differ by" in capfd.readouterr().err
    assert import_weights.execute([QUIET, "--padding=replicate", path, "b.raw"]) == 0
    assert "is not compared with onnxruntime" in capfd.readouterr().err
    assert nnet3py.read_nnet("a.raw").num_parameters() == nnet3py.read_nnet("b.raw").num_parameters()
    monkeypatch.setattr("nnet3py.cli.nnet.export.ONNX_TOLERANCE", 0.0)
    assert import_weights.execute([QUIET, path, "c.raw"]) == 1 and not Path("c.raw").exists()
    assert import_weights.execute([QUIET, "--check=false", path, "c.raw"]) == 0
