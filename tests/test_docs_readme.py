"""README.md: its Python, as it is written, computes what nnet3-compute writes, of networks as training leaves them."""
from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pages
import pytest
from paths import ROOT

import nnet3py
from nnet3py.formats.holders import FLOAT_MATRIX
from nnet3py.io.tables import TableWriter

README = (ROOT / "README.md").read_text(encoding="utf-8")
LARGEST_DIFFERENCE = 1e-4        # of outputs of about 1, computed in chunks of other sizes in float32
CONFIG = """
input-node name=input dim=4
component name=tdnn1.affine type=NaturalGradientAffineComponent input-dim=12 output-dim=8
component name=tdnn1.norm type=BatchNormComponent dim=8
component name=tdnn2.affine type=NaturalGradientAffineComponent input-dim=16 output-dim=8
component name=tdnn2.relu type=RectifiedLinearComponent dim=8
component name=tdnn2.drop type=DropoutComponent dim=8 dropout-proportion=0.4
component name=final type=AffineComponent input-dim=8 output-dim=5
component-node name=tdnn1.affine component=tdnn1.affine input=Append(Offset(input, -1), input, Offset(input, 1))
component-node name=tdnn1.norm component=tdnn1.norm input=tdnn1.affine
component-node name=tdnn2.affine component=tdnn2.affine input=Append(Offset(tdnn1.norm, -3), Offset(tdnn1.norm, 3))
component-node name=tdnn2.relu component=tdnn2.relu input=tdnn2.affine
component-node name=tdnn2.drop component=tdnn2.drop input=tdnn2.relu
component-node name=final component=final input=tdnn2.drop
output-node name=output input=final
"""


def blocks() -> list[str]:
    return [text for _, text in pages.blocks(README, "python")]


@pytest.fixture(scope="module", params=[1, 3], ids=["", "chain"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """final.mdl with statistics of batch norm but in training mode, feats.scp, and what nnet3-compute makes of them."""
    path = tmp_path_factory.mktemp("readme")
    nnet, rng = nnet3py.Nnet.from_config(CONFIG), np.random.default_rng(0)
    norm = nnet.component("tdnn1.norm")
    norm.count[:], norm.sum[:], norm.sumsq[:] = 100, rng.standard_normal(8) * 100, rng.random(8) * 400 + 400
    nnet.write(path / "final.mdl")
    if request.param != 1:
        (path / "frame_subsampling_factor").write_text(f"{request.param}\n", encoding="utf-8")
    with TableWriter(f"ark,scp:{path / 'feats.ark'},{path / 'feats.scp'}", FLOAT_MATRIX) as writer:
        for key, frames in (("one", 75), ("two", 33)):
            writer.write(key, rng.standard_normal((frames, 4), dtype=np.float32))
    subprocess.run([ROOT / "bin" / "nnet3-compute", f"--frame-subsampling-factor={request.param}", "--use-gpu=no",
                    path / "final.mdl", f"scp:{path / 'feats.scp'}", f"ark:{path / 'output.ark'}"],
                   env={**os.environ, "NNET3PY_PYTHON": sys.executable}, capture_output=True, check=True)
    return path


def test_the_python_of_the_page(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    expected = dict(nnet3py.read_matrices("ark:output.ark"))
    feats = dict(nnet3py.read_matrices("scp:feats.scp"))
    outputs: dict[str, np.ndarray] = {}
    compute, names = nnet3py.compute, {}

    def recorded(model, given, **options):
        found = compute(model, given, **options)
        if not options:
            outputs["one" if len(given) == 75 else "two"] = found
        return found

    monkeypatch.setattr(nnet3py, "compute", recorded)
    whole, stream = blocks()
    exec(compile(whole, "README.md", "exec"), names)
    assert set(outputs) == set(expected) and names["hidden"].shape[1] == 8 and (names["hidden"] >= 0).all()
    pieces: list[np.ndarray] = []

    def arriving() -> Iterator[np.ndarray]:
        for piece in np.array_split(feats["one"], 9):
            yield piece
            pieces.append(names["output"])

    names["arriving"] = arriving()
    exec(compile(stream, "README.md", "exec"), names)
    outputs["stream"], expected["stream"] = np.concatenate([*pieces, names["rest"]]), expected["one"]
    for key, output in outputs.items():
        assert output.shape == expected[key].shape
        assert np.abs(output - expected[key]).max() < LARGEST_DIFFERENCE * np.abs(expected[key]).max()


def test_the_shell_commands_run_after_the_demo(tmp_path: Path) -> None:
    """What make demo leaves, of a few utterances; and the commands of the page, as they are written."""
    digits, quick = ROOT / "egs" / "digits", tmp_path / "egs" / "digits" / "exp" / "quick"
    for folder in (quick / "tdnn", quick / "egs", quick.parent.parent / "data" / "test"):
        folder.mkdir(parents=True)
    (tmp_path / "bin").symlink_to(ROOT / "bin")
    make = f"""
        nnet3-init --srand=1 {digits}/conf/tdnn.config {quick}/tdnn/final.raw
        subset-feats --n=8 ark:{digits}/data/test/feats.ark ark:{tmp_path}/egs/digits/data/test/feats.ark
        nnet3-get-egs --num-pdfs=28 --left-context=12 --right-context=12 --num-frames=8 \\
          ark:{tmp_path}/egs/digits/data/test/feats.ark 'ark:ali-to-post ark,t:{digits}/data/test/ali.txt ark:- |' \\
          ark:{quick}/egs/train.ark
    """
    page = next(code for _, code in pages.blocks(README, "sh") if "nnet3-inspect" in code)
    pages.shell(make, tmp_path)
    printed = pages.shell(page, tmp_path)
    assert "num-parameters: 177180" in printed and "for computing" in printed
    assert (quick / "more.raw").stat().st_size > 500_000


def test_each_claim_of_the_first_screen_has_a_link() -> None:
    """Up to the commands: the first paragraph says four things, and each item of the list one."""
    first = README.partition("## The commands")[0]
    opening = first.split("\n\n")[1]
    assert all(f"]({page}" in opening for page in ("docs/models.md", "docs/commands.md", "docs/coming-from-kaldi.md",
                                                   "docs/compiler.md", "nnet3py/engine/README.md", "docs/gpu.md"))
    items = re.findall(r"^- (.*?)(?=^- |\n\n)", first, re.MULTILINE | re.DOTALL)
    assert len(items) >= 7
    assert not [item for item in items if "](" not in item]
    rows = re.findall(r"^\| \[.*", first, re.MULTILINE)
    assert len(rows) >= 5 and all("RESULTS.md" in row for row in rows)
