"""Small files that nothing is wrong with, and every command with each of its inputs, for the tests of wrong input."""
from __future__ import annotations

import functools
import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from paths import DATA

from nnet3py.cli.main import load
from nnet3py.io.holders import FLOAT_MATRIX, INT_VECTOR, POSTERIOR
from nnet3py.io.posteriors import posterior_of_alignment
from nnet3py.io.tables import TableWriter

LENGTHS = {"u0": 30, "u1": 41, "u2": 25}
CONFIG = """input-node name=input dim=4
component name=a type=NaturalGradientAffineComponent input-dim=12 output-dim=8
component-node name=a component=a input=Append(Offset(input,-1), input, Offset(input,1))
component name=r type=RectifiedLinearComponent dim=8
component-node name=r component=r input=a
component name=bn type=BatchNormComponent dim=8
component-node name=bn component=bn input=r
component name=o type=NaturalGradientAffineComponent input-dim=8 output-dim=6
component-node name=o component=o input=bn
component name=ls type=LogSoftmaxComponent dim=6
component-node name=ls component=ls input=o
output-node name=output input=ls
"""
GET_EGS = ("--num-pdfs=6", "--num-frames=8", "--left-context=1", "--right-context=1")
DIRECT = ("--minibatch-size=1:4", "--feats=ark:feats", "--targets=ark:ali")

# Every command with each of its inputs in turn: the word that holds KIND:FILE in <> gets something else there.
INPUTS = [
    ("nnet3-init", "<config:config>", "out"), ("nnet3-init", "<raw:raw>", "config", "out"),
    ("nnet3-init", "raw", "<config:config>", "out"), ("nnet3-info", "<raw:raw>"), ("nnet3-copy", "<raw:raw>", "out"),
    ("nnet3-copy", "--nnet-config=<config:config>", "raw", "out"), ("nnet3-compile", "--frames=2", "<raw:raw>"),
    ("nnet3-am-init", "<trans:trans.mdl>", "raw", "out"), ("nnet3-am-init", "trans.mdl", "<raw:raw>", "out"),
    ("nnet3-am-init", "<tree:tree>", "topo", "raw", "out"), ("nnet3-am-init", "tree", "<topo:topo>", "raw", "out"),
    ("nnet3-am-info", "<mdl:mdl>"), ("nnet3-am-copy", "<mdl:mdl>", "out"),
    ("nnet3-am-copy", "--set-raw-nnet=<raw:raw>", "mdl", "out"),
    ("nnet3-am-adjust-priors", "<mdl:mdl>", "vec", "out"), ("nnet3-am-adjust-priors", "mdl", "<vec:vec>", "out"),
    ("nnet3-average", "<raw:raw>", "raw", "out"), ("nnet3-average", "raw", "<raw:raw>", "out"),
    ("nnet3-train", "<raw:raw>", "ark:megs", "out"), ("nnet3-train", "raw", "ark:<egs:megs>", "out"),
    ("nnet3-train", "--feats=ark:<feats:feats>", "--targets=ark:ali", "raw", "out"),
    ("nnet3-train", "--feats=ark:feats", "--targets=ark:<ali:ali>", "raw", "out"),
    ("nnet3-compute-prob", "<raw:raw>", "ark:megs"), ("nnet3-compute-prob", "raw", "ark:<egs:megs>"),
    ("nnet3-compute", "<raw:raw>", "ark:feats", "ark:out"), ("nnet3-compute", "raw", "ark:<feats:feats>", "ark:out"),
    ("nnet3-get-egs", *GET_EGS, "ark:<feats:feats>", "ark:post", "ark:out"),
    ("nnet3-get-egs", *GET_EGS, "ark:feats", "ark:<post:post>", "ark:out"),
    ("nnet3-copy-egs", "ark:<egs:egs>", "ark:out"), ("nnet3-copy-egs", "--frame=0", "ark:<egs:egs>", "ark:out"),
    ("nnet3-merge-egs", "--minibatch-size=1:4", "ark:<egs:egs>", "ark:out"),
    ("nnet3-shuffle-egs", "ark:<egs:egs>", "ark:out"), ("nnet3-subset-egs", "ark:<egs:egs>", "ark:out"),
    ("nnet3-shuffle-egs", "--buffer-size=2", "ark:<egs:egs>", "ark:out"),
    ("copy-feats", "ark:<feats:feats>", "ark:out"), ("copy-feats", "--compress=true", "ark:<feats:feats>", "ark:out"),
    ("feat-to-dim", "ark:<feats:feats>", "ark,t:out"), ("feat-to-len", "ark:<feats:feats>", "ark,t:out"),
    ("copy-int-vector", "ark:<ali:ali>", "ark:out"), ("ali-to-post", "ark:<ali:ali>", "ark:out"),
    ("copy-matrix", "ark:<feats:feats>", "ark:out"),
]
FILES = {"config": ["config"], "raw": ["raw", "raw.txt"], "mdl": ["mdl"], "trans": ["trans.mdl"], "tree": ["tree"],
         "topo": ["topo"], "vec": ["vec"], "egs": ["egs", "uegs", "megs", "egs.txt"],
         "feats": ["feats", "cfeats", "feats.txt"], "ali": ["ali"], "post": ["post"]}
ALSO_GOOD = {"raw": ["mdl"], "trans": ["mdl"]}     # a model's file holds a network and a transition model, too
PLACE = re.compile(r"<(\w+):[\w.]+>")
SIZES = (2**31 - 1, 2**30, 2**28, 100000, -1, -2**31)


def kind_of(words: tuple[str, ...]) -> str:
    """The kind of file that a line of INPUTS leaves open."""
    found = PLACE.search(" ".join(words))
    assert found is not None
    return found[1]


def filled(words: tuple[str, ...], name: str) -> list[str]:
    """A line of INPUTS with ``name`` in the open place."""
    return [PLACE.sub(lambda _: name, word) for word in words]


def write(name: str, holder: Any, items: dict[str, Any]) -> None:
    with TableWriter(f"ark:{name}", holder) as writer:
        for key, value in items.items():
            writer.write(key, value)


@functools.cache
def good_files() -> dict[str, bytes]:
    """Name and content of files that nothing is wrong with."""
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            _make_good_files()
            return {path.name: path.read_bytes() for path in Path(folder).iterdir()}
        finally:
            os.chdir(before)


def make_folder(target: Path) -> Path:
    """Make a folder with the good files, an older ``out``, a folder and an empty file; returns ``target``."""
    (target / "dir").mkdir(parents=True)
    for name, data in {**good_files(), "out": b"before", "empty": b""}.items():
        (target / name).write_bytes(data)
    return target


def _make_good_files() -> None:
    rng = np.random.default_rng(0)
    labels = {key: rng.integers(0, 6, length).astype(np.int32) for key, length in LENGTHS.items()}
    write("feats", FLOAT_MATRIX,
          {key: rng.standard_normal((n, 4)).astype(np.float32) for key, n in LENGTHS.items()})
    write("ali", INT_VECTOR, labels)
    write("post", POSTERIOR, {key: posterior_of_alignment(label) for key, label in labels.items()})
    Path("config").write_text(CONFIG)
    Path("vec").write_text(" [ 1 2 3 4 5 6 ]\n")
    for name in ("tree", "topo", "trans.mdl"):
        shutil.copy(DATA / "network" / name, name)
    for words in (
            ("nnet3-init", "config", "raw"), ("nnet3-copy", "--binary=false", "raw", "raw.txt"),
            ("nnet3-am-init", "trans.mdl", "raw", "mdl"), ("copy-feats", "--compress=true", "ark:feats", "ark:cfeats"),
            ("copy-feats", "ark:feats", "ark,t:feats.txt"),
            ("nnet3-get-egs", *GET_EGS, "ark:feats", "ark:post", "ark:egs"),
            ("nnet3-get-egs", "--compress=false", *GET_EGS, "ark:feats", "ark:post", "ark:uegs"),
            ("nnet3-copy-egs", "ark:egs", "ark,t:egs.txt"),
            ("nnet3-merge-egs", "--minibatch-size=4", "ark:uegs", "ark:megs")):
        assert load(words[0]).execute(words[1:]) == 0
