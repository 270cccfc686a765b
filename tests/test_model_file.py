"""Model files: the same bytes after reading and writing, and clear errors for damaged ones."""
from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from paths import DATA, shared_golden

import nnet3py
from nnet3py.acoustic_model import AcousticModel, read_model
from nnet3py.errors import FormatError, Nnet3Error, UsageError
from nnet3py.io.tokens import TokenReader
from nnet3py.network.model_file import network_of, network_or_file, read_nnet, read_nnet_or_model
from nnet3py.network.nnet import Nnet

FOLDER = DATA / "network"
CASES = sorted(path.name for path in FOLDER.iterdir() if path.is_dir())
RAW = FOLDER / "descriptor-switch-round-replace" / "nnet.raw"


def copied(source: Path, target: Path, binary: bool) -> bytes:
    read_nnet(str(source)).write(str(target), binary=binary)
    return target.read_bytes()


@pytest.mark.parametrize("case", CASES)
def test_raw_networks_keep_their_bytes(case: str, tmp_path: Path) -> None:
    raw, text = FOLDER / case / "nnet.raw", FOLDER / case / "nnet.txt"
    assert copied(raw, tmp_path / "out", True) == raw.read_bytes()
    assert copied(text, tmp_path / "out", False) == text.read_bytes()
    assert copied(raw, tmp_path / "out", False) == text.read_bytes()


def test_all_of_kaldis_networks_keep_their_bytes(tmp_path: Path) -> None:
    from nnet3py.components.registry import COMPONENT_MODULES

    count = 0
    for raw in sorted((shared_golden() / "cases").glob("*/nnet.raw")):
        types = {word.decode()[1:-1] for word in raw.read_bytes().split() if word.startswith(b"<")
                 and word.endswith(b"Component>")} - {""}
        if not types <= set(COMPONENT_MODULES):
            continue
        assert copied(raw, tmp_path / "out", True) == raw.read_bytes(), raw.parent.name
        count += 1
    assert count >= 40


@pytest.mark.parametrize(("name", "binary"), [("am.mdl", True), ("am-priors.mdl", True), ("am.mdl.txt", False)])
def test_acoustic_models_keep_their_bytes(name: str, binary: bool, tmp_path: Path) -> None:
    model = read_model(str(FOLDER / name))
    model.write(str(tmp_path / "out"), binary=binary)
    assert (tmp_path / "out").read_bytes() == (FOLDER / name).read_bytes()


def test_the_network_of_an_acoustic_model_can_be_read_alone() -> None:
    nnet = read_nnet(str(FOLDER / "am.mdl"))
    assert nnet.config_lines() == read_model(str(FOLDER / "am-priors.mdl")).nnet.config_lines()


def test_priors() -> None:
    assert read_model(str(FOLDER / "am.mdl")).priors.shape == (0,)
    assert read_model(str(FOLDER / "am-priors.mdl")).priors.sum() == pytest.approx(1.0, abs=1e-6)   # float32 sum


def test_a_raw_network_is_no_acoustic_model() -> None:
    with pytest.raises(FormatError, match="begins with <TransitionModel>, found a raw network.*nnet3-am-init"):
        read_model(str(RAW))


def test_only_simple_networks_make_acoustic_models(tmp_path: Path) -> None:
    model = read_model(str(FOLDER / "am.mdl"))
    nnet = Nnet.from_config("input-node name=other dim=3\noutput-node name=output input=other")
    with pytest.raises(Nnet3Error, match="must have an input 'input'"):
        AcousticModel(model.transition_model, nnet).write(str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_pipes_and_offsets(tmp_path: Path) -> None:
    expected = read_nnet(str(RAW)).config_lines()
    assert read_nnet(f"cat {RAW} |").config_lines() == expected
    (tmp_path / "shifted").write_bytes(b"x" * 10 + RAW.read_bytes())
    assert read_nnet(f"{tmp_path / 'shifted'}:10").config_lines() == expected


def test_lines_may_end_in_carriage_returns(tmp_path: Path) -> None:
    text = (FOLDER / "affine" / "nnet.txt").read_bytes()
    head, rest = text.split(b"\n\n", 1)
    (tmp_path / "dos").write_bytes(head.replace(b"\n", b"\r\n") + b"\r\n\r\n" + rest)
    assert read_nnet(str(tmp_path / "dos")).config_lines() == read_nnet(str(FOLDER / "affine/nnet.txt")).config_lines()


def read_bytes(data: bytes) -> Nnet:
    reader = TokenReader(io.BytesIO(data), path="model", size=len(data))
    reader.read_header()
    return read_nnet_or_model(reader)


DATA_OF_RAW = RAW.read_bytes()


def test_errors_name_component_file_and_byte() -> None:
    """The byte is the first of what was not expected."""
    damaged = DATA_OF_RAW.replace(b"<BiasParams>", b"<BiosParams>", 1)
    place = rf"component 'a', after <LinearParams>, model, byte {damaged.index(b'<BiosParams>')}\]"
    with pytest.raises(FormatError, match=f"expected <BiasParams>, found '<BiosParams>' .{place}"):
        read_bytes(damaged)


@pytest.mark.parametrize(("old", "new", "message"), [
    (b"<AffineComponent>", b"<AffineComponemt>", "unknown component type <AffineComponemt>.*did you mean AffineComp"),
    (b"<Nnet3> \n", b"<Nnet3> x\n", "expected a newline after <Nnet3>"),
    (b"<NumComponents> \x04\x03", b"<NumComponents> \x04\x04", "expected .*<ComponentName>"),
    (b"<ComponentName> b ", b"<ComponentName> a ", "two components are named a"),
    (b"dim=6", b"dim=7", r"Dimension mismatch for network-node a.*\[model\]"),
    (b"<Nnet3>", b"<Nnet>", "found '<Nnet>'.*nnet1 or nnet2"), (b"<Nnet3>", b"<DIMENSION>", "this is a GMM model"),
    (b"component=b", b"component=d", "No component named 'd'"),
])
def test_damage_is_named(old: bytes, new: bytes, message: str) -> None:
    assert old in DATA_OF_RAW
    with pytest.raises(Nnet3Error, match=message):
        read_bytes(DATA_OF_RAW.replace(old, new, 1))


@pytest.mark.parametrize("count", [-1, 100000, 2**31 - 1])
def test_impossible_numbers_of_components(count: int) -> None:
    at = DATA_OF_RAW.index(b"<NumComponents> \x04") + len(b"<NumComponents> \x04")
    with pytest.raises(FormatError, match="expected 0 to 99999 components"):
        read_bytes(DATA_OF_RAW[:at] + np.int32(count).tobytes() + DATA_OF_RAW[at + 4:])


@given(st.integers(0, len(DATA_OF_RAW) - 2))
@settings(max_examples=60)
def test_truncated_files_are_refused(length: int) -> None:
    with pytest.raises(Nnet3Error):
        read_bytes(DATA_OF_RAW[:length])


@given(st.integers(0, len(DATA_OF_RAW) - 1), st.integers(0, 255))
@settings(max_examples=150)
def test_a_changed_byte_is_read_or_refused(position: int, value: int) -> None:
    data = bytearray(DATA_OF_RAW)
    data[position] = value
    try:
        nnet = read_bytes(bytes(data))
    except Nnet3Error:
        return
    assert len(nnet.components) == 3


def test_a_path_object_names_a_file(tmp_path) -> None:
    nnet = read_nnet(DATA / "cases" / "affine" / "nnet.raw")
    nnet.write(tmp_path / "out.raw")
    assert (tmp_path / "out.raw").read_bytes() == (DATA / "cases" / "affine" / "nnet.raw").read_bytes()


MODEL = DATA / "network" / "am-priors.mdl"


def test_an_acoustic_model_stands_for_its_network(tmp_path: Path) -> None:
    model = nnet3py.read_model(MODEL)
    assert network_of(model) is model.nnet and network_of(model.nnet) is model.nnet
    assert network_or_file(MODEL) == model.nnet and network_or_file(str(MODEL)) == model.nnet
    before = model["o"]["bias_params"].copy()
    nnet3py.freeze(model, "a")
    nnet3py.train(model, np.ones((20, 40), np.float32), np.arange(20) % 10, learning_rate=0.01)
    assert (model["o"]["bias_params"] != before).any() and model["a"].is_frozen
    assert nnet3py.for_inference(model) == nnet3py.for_inference(model.nnet)
    comparison = nnet3py.compare(model, MODEL)
    assert not comparison and [each.name for each in comparison.different] == ["o"]


@pytest.mark.parametrize(("given", "said"), [
    ("final.mdl", r"expected a network, found the path final.mdl \(nnet = nnet3py.read_nnet\('final.mdl'\)\)"),
    (np.zeros((3, 2)), r"found ndarray \(3, 2\) \(the network comes first"),
    (7, r"found int \(nnet3py.read_nnet\('final.raw'\) reads one\)")])
def test_anything_else_is_refused(given: object, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        network_of(given)                                                                      # type: ignore[arg-type]
