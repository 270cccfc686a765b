"""xconfig-to-configs: the folder it fills, networks to build on, edits, and its option manners."""
from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from paths import DATA

from nnet3py.cli.nnet.networks import xconfig_to_configs
from nnet3py.cli.process.options import attach_values, option
from nnet3py.network.model_file import read_nnet

NETWORKS = ["blstm", "cnn-tdnn", "lstm", "tdnn", "tdnnf", "xvector"]
SMALL = "input name=input dim=4\nrelu-layer name=a dim=3 input=Append(-1,0,2)\noutput-layer name=output dim=2\n"


@pytest.fixture(autouse=True)
def _folder(here):
    Path("small.xconfig").write_text(SMALL)


def without_comments(path: Path) -> str:
    return "".join(line for line in path.read_text().splitlines(keepends=True) if line.strip() and line[0] != "#")


@pytest.mark.parametrize("name", NETWORKS)
def test_the_folder_is_kaldis(name):
    source = DATA / "xconfig" / name
    shutil.copy(DATA / "xconfig" / "lda.mat", ".")
    assert xconfig_to_configs.execute(["--xconfig-file", str(source / "network.xconfig"), "--config-dir=exp/c"]) == 0
    written = {path.name for path in Path("exp/c").iterdir()}
    recorded = {path.name for path in source.iterdir()} - {"network.xconfig"}
    assert written - recorded == {"xconfig", "ref.raw"} | ({"init.raw"} if "init.config" in recorded else set())
    for file in recorded:
        assert without_comments(Path("exp/c") / file) == (source / file).read_text(), file
    assert without_comments(Path("exp/c/xconfig")) == (source / "network.xconfig").read_text()
    if name == "tdnnf":
        assert Path("idct.mat").read_bytes() == (DATA / "xconfig" / "idct.mat").read_bytes()


def test_files_say_what_they_are():
    assert xconfig_to_configs.execute(["--xconfig-file=small.xconfig", "--config-dir=c"]) == 0
    for name in ("xconfig", "xconfig.expanded.1", "xconfig.expanded.2", "ref.config", "final.config"):
        lines = Path("c", name).read_text().splitlines()
        assert lines[1] == "# xconfig-to-configs --xconfig-file=small.xconfig --config-dir=c"
        assert [line[:1] for line in lines[:3]] == ["#"] * 3
        if name.endswith("config") and name != "xconfig":
            assert lines[3] == "" and lines[4] == "input-node name=input dim=4"


def test_an_older_init_config_goes():
    Path("c").mkdir()
    Path("c/init.config").write_text("no longer true")
    assert xconfig_to_configs.execute(["--xconfig-file=small.xconfig", "--config-dir=c"]) == 0
    assert not Path("c/init.config").exists()


def test_layers_on_an_existing_model():
    assert xconfig_to_configs.execute(["--xconfig-file=small.xconfig", "--config-dir=c"]) == 0
    Path("more.xconfig").write_text("tanh-layer name=b dim=5 input=a.relu@-4\noutput-layer name=output dim=7\n")
    assert xconfig_to_configs.execute(["--xconfig-file", "more.xconfig", "--config-dir", "d", "--existing-model",
                                       "c/ref.raw"]) == 0
    assert "input-node" not in Path("d/final.config").read_text()
    assert Path("d/vars").read_text() == "model_left_context=5\nmodel_right_context=0\n"
    nnet = read_nnet("d/ref.raw")
    assert (nnet.input_dim("input"), nnet.output_dim("output")) == (4, 7)


def test_edits_change_the_context_only():
    Path("two.xconfig").write_text(f"{SMALL}output name=far input=a@9")
    Path("named.xconfig").write_text(SMALL.replace("name=output", "name=main"))
    for name, edits in (("two", "remove-output-nodes name=far"),
                        ("named", "rename-node old-name=main new-name=output")):
        assert xconfig_to_configs.execute([f"--xconfig-file={name}.xconfig", "--config-dir=c", "--nnet-edits",
                                           edits]) == 0
        assert Path("c/vars").read_text() == "model_left_context=1\nmodel_right_context=2\n"
    assert read_nnet("c/ref.raw").output_dim("main") == 2


@pytest.mark.parametrize(("words", "message"), [
    ([], "--xconfig-file is required"),
    (["--xconfig-file=small.xconfig"], "--config-dir is required"),
    (["--xconfig-file=missing", "--config-dir=c"], "missing"),
    (["--xconfig-file=wrong.xconfig", "--config-dir=c"], "relu-layer has no option dmi=.*wrong.xconfig, line 2"),
    (["--xconfig-file=other.xconfig", "--config-dir=c"], "an output called 'output'.*output name=output"),
    (["--xconfig-file=matrix.xconfig", "--config-dir=c"], "more than the whole network's 0 and 0.*delay="),
    (["--xconfig-file=bad-options.xconfig", "--config-dir=c"], "making a network of c/ref.config.*no-such-key"),
    (["--xconfg-file=x"], "did you mean --xconfig-file"),
])
def test_what_goes_wrong_is_one_line(words, message, capsys):
    Path("wrong.xconfig").write_text("input name=input dim=4\nrelu-layer name=a dmi=3\n")
    Path("other.xconfig").write_text(SMALL.replace("name=output", "name=out"))
    Path("bad-options.xconfig").write_text(SMALL.replace("dim=3", 'dim=3 ng-affine-options="no-such-key=1"'))
    Path("matrix.xconfig").write_text(
        "input name=input dim=4\nfixed-affine-layer name=lda input=Append(input, input@3) affine-transform-file=x\n"
        "output-layer name=output dim=2 input=input\n")
    assert xconfig_to_configs.execute(words) != 0
    errors = [line for line in capsys.readouterr().err.splitlines() if line.startswith("ERROR")]
    assert len(errors) == 1 and re.search(message, errors[0]), errors


def test_values_after_a_blank():
    declared = [option("dir", str, "", ""), option("flag", bool, False, ""), option("max.jobs", int, 1, "")]
    assert attach_values(declared, ["--dir", "a b", "--flag", "true", "--max.jobs", "-3", "in"]) == \
        ["--dir=a b", "--flag=true", "--max.jobs=-3", "in"]
    assert attach_values(declared, ["--flag", "in", "--flag", "--dir=x", "y"]) == \
        ["--flag", "in", "--flag", "--dir=x", "y"]
    assert attach_values(declared, ["--other", "x", "--dir", "--flag", "--", "--dir"]) == \
        ["--other", "x", "--dir", "--flag", "--", "--dir"]
    assert attach_values(declared, ["--dir", "x", "y"]) == ["--dir=x", "y"]
    assert attach_values(declared, ["--dir", "--a=b --c=d", "--dir", "--flag"]) == \
        ["--dir=--a=b --c=d", "--dir", "--flag"]
