"""What nnet3-info and nnet3-am-info print, against what Kaldi printed; and the commands that make and copy models."""
from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from paths import DATA, shared_golden

from nnet3py.acoustic_model import read_model
from nnet3py.cli.nnet.acoustic_model import am_adjust_priors, am_init
from nnet3py.cli.nnet.networks import am_copy, am_info, copy, info, init
from nnet3py.model_info import acoustic_model_info
from nnet3py.model_info import info as describe
from nnet3py.network.model_file import read_nnet

FOLDER = DATA / "network"
CASES = sorted(path.name for path in FOLDER.iterdir() if path.is_dir())
NUMBER = re.compile(r"-?\d+\.?\d*(?:e[-+]\d+)?")
# A mean is printed with 4 digits, but where summands cancel, the order of float32 summation shows in them.
CANCELLATION = 2e-8


def same_text(found: str, expected: str) -> bool:
    """True if the texts differ in numbers near zero at most, by what the order of a float32 sum does."""
    if NUMBER.split(found) != NUMBER.split(expected):
        return False
    pairs = zip(NUMBER.findall(found), NUMBER.findall(expected), strict=True)
    return all(a == b or abs(float(a) - float(b)) < CANCELLATION for a, b in pairs)


def expected_info(path: Path) -> str:
    return path.read_text().split("# Nnet info follows.\n")[-1]


@pytest.mark.parametrize("case", CASES)
def test_info_is_kaldis(case: str) -> None:
    assert describe(read_nnet(str(FOLDER / case / "nnet.raw"))) == expected_info(FOLDER / case / "info.txt")


def test_all_of_kaldis_infos() -> None:
    from nnet3py.components.registry import COMPONENT_MODULES

    wrong, count = [], 0
    for raw in sorted((shared_golden() / "cases").glob("*/nnet.raw")):
        text = (raw.parent / "info.txt").read_text()
        if not set(re.findall(r"type=(\w+)", text)) <= set(COMPONENT_MODULES):
            continue
        count += 1
        if not same_text(describe(read_nnet(str(raw))), expected_info(raw.parent / "info.txt")):
            wrong.append(raw.parent.name)
    assert not wrong
    assert count >= 40


def test_acoustic_model_info_is_kaldis() -> None:
    assert acoustic_model_info(read_model(str(FOLDER / "am-priors.mdl"))) == (FOLDER / "am-info.txt").read_text()


def test_verbose_adds_singular_values() -> None:
    nnet = read_nnet(str(FOLDER / "affine/nnet.raw"))
    assert "singular-values" not in describe(nnet, verbose=1)
    assert "linear-params-singular-values=" in describe(nnet, verbose=2)


# -- commands ----------------------------------------------------------------------------------------------------------


def test_info_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert info.execute([str(FOLDER / "affine/nnet.txt")]) == 0
    assert capsys.readouterr().out == expected_info(FOLDER / "affine/info.txt")
    assert am_info.execute([str(FOLDER / "am-priors.mdl")]) == 0
    assert capsys.readouterr().out == (FOLDER / "am-info.txt").read_text()
    assert am_info.execute([str(FOLDER / "affine/nnet.raw")]) == 255
    assert "ERROR (nnet3-am-info" in capsys.readouterr().err


def test_init_and_extend(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config, out, more = FOLDER / "affine/config.txt", tmp_path / "0.raw", tmp_path / "more.config"
    assert init.execute(["--srand=3", str(config), str(out)]) == 0
    assert f"Initialized raw neural net and wrote it to {out}" in capsys.readouterr().err
    expected = read_nnet(str(FOLDER / "affine/nnet.raw")).config_lines()
    assert read_nnet(str(out)).config_lines() == expected
    more.write_text("output-node name=second input=c\n")
    assert init.execute([str(out), str(more), str(tmp_path / "1.raw")]) == 0
    assert f"Read raw neural net from {out}" in capsys.readouterr().err
    assert read_nnet(str(tmp_path / "1.raw")).config_lines() == [
        *expected, "output-node name=second input=c objective=linear"]
    assert init.execute([str(out), str(tmp_path / "2.raw")]) == 255
    assert "expected a config file, found binary data" in capsys.readouterr().err
    assert not (tmp_path / "2.raw").exists()


def test_copy_resets_batchnorm_and_edits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, out = str(FOLDER / "affine/nnet.raw"), tmp_path / "out"
    assert copy.execute(["--binary=false", source, str(out)]) == 0
    assert out.read_bytes() == (FOLDER / "affine/nnet.txt").read_bytes()
    assert f"Copied raw neural net from {source} to {out}" in capsys.readouterr().err
    assert copy.execute(["--scale=0.5", "--learning-rate=0.25", "--edits=rename-node old-name=a new-name=first",
                         source, str(out)]) == 0
    old, new = read_nnet(source), read_nnet(str(out))
    assert np.array_equal(new.component("a").parameters()["linear_params"],
                          old.component("a").parameters()["linear_params"] * np.float32(0.5))
    assert new.component("c").learning_rate == 0.125      # type: ignore[attr-defined]
    assert "first" in new.node_names
    capsys.readouterr()
    assert copy.execute(["--edits=no-such-edit", source, str(tmp_path / "none")]) == 255
    assert "Directive 'no-such-edit' is not currently supported" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


def test_am_copy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, out = str(FOLDER / "am-priors.mdl"), tmp_path / "out"
    assert am_copy.execute([source, str(out)]) == 0
    assert out.read_bytes() == (FOLDER / "am-priors.mdl").read_bytes()
    assert am_copy.execute(["--raw=true", source, str(out)]) == 0
    assert f"Copied neural net from {source} to raw format as {out}" in capsys.readouterr().err
    assert read_nnet(str(out)).config_lines() == read_nnet(source).config_lines()
    assert am_copy.execute([f"--set-raw-nnet={FOLDER / 'affine/nnet.raw'}", source, str(out)]) == 0
    assert "dimension mismatch" in capsys.readouterr().err
    assert read_model(str(out)).priors.size == 0


def test_am_init_from_a_model_or_a_tree(tmp_path: Path) -> None:
    raw, out = str(tmp_path / "raw"), str(tmp_path / "out")
    read_nnet(str(FOLDER / "am.mdl")).write(raw)
    assert am_init.execute([str(FOLDER / "am-priors.mdl"), raw, out]) == 0
    assert Path(out).read_bytes() == (FOLDER / "am.mdl").read_bytes()
    assert am_init.execute([str(FOLDER / "tree"), str(FOLDER / "topo"), raw, out]) == 0
    made, kaldis = read_model(out).transition_model, read_model(str(FOLDER / "am.mdl")).transition_model
    assert np.array_equal(made.tuples, kaldis.tuples)
    assert made.num_pdfs == kaldis.num_pdfs


def test_adjusting_priors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    counts, out = tmp_path / "counts", tmp_path / "out"
    counts.write_text(" [ 1 2 3 4 5 6 7 8 9 10 ]\n")
    assert am_adjust_priors.execute([str(FOLDER / "am.mdl"), str(counts), str(out)]) == 0
    assert "Model did not previously have priors attached." in capsys.readouterr().err
    priors = np.arange(1, 11, dtype=np.float32) / np.float32(55)
    assert np.array_equal(read_model(str(out)).priors, priors)
    counts.write_text(" [ 1 1 1 1 1 1 1 1 1 2 ]\n")
    assert am_adjust_priors.execute([str(out), str(counts), str(tmp_path / "2")]) == 0
    p, q = np.arange(1, 11) / 55, np.array([1] * 9 + [2]) / 11
    err = capsys.readouterr().err
    assert f"K-L divergence from old to new is {np.sum(p * np.log(p / q)):.6g}" in err
    assert "largest absolute difference was for pdf 0, 0.0181818 -> 0.0909091" in err
    for text, message in ((" [ 1 2 ]\n", "has 2 elements"), (" [ 0 0 0 0 0 0 0 0 0 0 ]\n", "expected a positive")):
        counts.write_text(text)
        assert am_adjust_priors.execute([str(out), str(counts), str(tmp_path / "3")]) == 255
        assert message in capsys.readouterr().err
