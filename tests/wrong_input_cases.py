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
from sequence_samples import discriminative, singles

from nnet3py.cli.main import load
from nnet3py.egs.chain_example import CHAIN_EXAMPLE
from nnet3py.egs.discriminative_example import DISCRIMINATIVE_EXAMPLE
from nnet3py.formats.holders import FLOAT_MATRIX, FLOAT_VECTOR, INT_VECTOR, POSTERIOR
from nnet3py.formats.posteriors import posterior_of_alignment
from nnet3py.io.tables import write_table

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
XVECTOR_CONFIG = """input-node name=input dim=4
component name=e type=StatisticsExtractionComponent input-dim=4 input-period=1 output-period=1
component-node name=e component=e input=input
component name=p type=StatisticsPoolingComponent input-dim=9 input-period=1 left-context=0 right-context=100
component-node name=p component=p input=e
output-node name=output input=Round(p, 1)
"""
GET_EGS = ("--num-pdfs=6", "--num-frames=8", "--left-context=1", "--right-context=1")
DIRECT = ("--minibatch-size=1:4", "--feats=ark:feats", "--targets=ark:ali")

# Tables in which a command looks keys up: it may never come to their end, and then does not know that a pipe failed.
LOOKED_UP = [
    ("paste-feats", "ark:feats", "ark:<feats:feats>", "ark:out"),
    ("append-vector-to-feats", "ark:feats", "ark:<vecs:vecs>", "ark:out"),
    ("compute-cmvn-stats", "--spk2utt=ark:spk2utt", "ark:<feats:feats>", "ark:out"),
    ("compute-cmvn-stats", "--weights=ark:<vecs:vecs>", "ark:feats", "ark:out"),
    ("nnet3-get-egs-dense-targets", "--num-frames=8", "ark:feats", "ark:<feats:feats>", "ark:out"),
    ("nnet3-get-egs-simple", "input=ark:feats", "output=ark:<feats:feats>", "ark:out"),
    ("apply-cmvn", "ark:<stats:stats>", "ark:feats", "ark:out"),
    ("apply-cmvn-online", "--spk2utt=ark:spk2utt", "gstats", "ark:<feats:feats>", "ark:out"),
    ("matrix-sum", "ark:feats", "ark:<feats:feats>", "ark:out"),
    ("vector-sum", "ark:vecs", "ark:<vecs:vecs>", "ark:out"),
    ("acc-lda", "trans.mdl", "ark:feats", "ark:<tpost:tpost>", "out"),
]
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
    ("nnet3-compute-batch", "<raw:raw>", "ark:feats", "ark:out"),
    ("nnet3-compute-batch", "raw", "ark:<feats:feats>", "ark:out"),
    ("nnet3-compute-from-egs", "<raw:raw>", "ark:megs", "ark:out"),
    ("nnet3-compute-from-egs", "raw", "ark:<egs:megs>", "ark:out"),
    ("nnet3-acc-lda-stats", "<raw:raw>", "ark:megs", "out"), ("nnet3-acc-lda-stats", "raw", "ark:<egs:megs>", "out"),
    ("nnet3-show-progress", "<raw:raw>", "raw"), ("nnet3-show-progress", "raw", "<raw:raw>", "ark:megs"),
    ("nnet3-show-progress", "raw", "raw", "ark:<egs:megs>"),
    ("nnet3-combine", "<raw:raw>", "ark:megs", "out"), ("nnet3-combine", "raw", "<raw:raw>", "ark:megs", "out"),
    ("nnet3-combine", "raw", "ark:<egs:megs>", "out"),
    ("nnet3-am-train-transitions", "--set-priors=false", "<mdl:mdl>", "ark:tids", "out"),
    ("nnet3-am-train-transitions", "--set-priors=false", "mdl", "ark:<tids:tids>", "out"),
    ("nnet3-get-egs", *GET_EGS, "ark:<feats:feats>", "ark:post", "ark:out"),
    ("nnet3-get-egs", *GET_EGS, "ark:feats", "ark:<post:post>", "ark:out"),
    ("nnet3-copy-egs", "ark:<egs:egs>", "ark:out"), ("nnet3-copy-egs", "--frame=0", "ark:<egs:egs>", "ark:out"),
    ("nnet3-merge-egs", "--minibatch-size=1:4", "ark:<egs:egs>", "ark:out"),
    ("nnet3-shuffle-egs", "ark:<egs:egs>", "ark:out"), ("nnet3-subset-egs", "ark:<egs:egs>", "ark:out"),
    ("nnet3-shuffle-egs", "--buffer-size=2", "ark:<egs:egs>", "ark:out"),
    ("nnet3-get-egs-dense-targets", "--num-frames=8", "ark:<feats:feats>", "ark:feats", "ark:out"),
    ("nnet3-get-egs-simple", "input=ark:<feats:feats>", "output=ark:feats", "ark:out"),
    ("nnet3-xvector-get-egs", "--num-pdfs=3", "<ranges:ranges>", "ark:feats", "ark:out"),
    ("nnet3-xvector-get-egs", "--num-pdfs=3", "ranges", "ark:<feats:feats>", "ark:out"),
    ("nnet3-egs-augment-image", "--horizontal-shift=0.5", "ark:<eg:egs>", "ark:out"),
    ("nnet3-chain-copy-egs", "ark:<ceg:cegs>", "ark:out"),
    ("nnet3-chain-copy-egs", "--frame-shift=1", "--left-context=2", "ark:<ceg:cegs>", "ark:out"),
    ("nnet3-chain-merge-egs", "--minibatch-size=1:2", "ark:<ceg:cegs>", "ark:out"),
    ("nnet3-chain-shuffle-egs", "ark:<ceg:cegs>", "ark:out"), ("nnet3-chain-subset-egs", "ark:<ceg:cegs>", "ark:out"),
    ("nnet3-discriminative-copy-egs", "--frame-shift=1", "ark:<deg:degs>", "ark:out"),
    ("nnet3-discriminative-merge-egs", "--minibatch-size=1:2", "ark:<deg:degs>", "ark:out"),
    ("nnet3-discriminative-shuffle-egs", "ark:<deg:degs>", "ark:out"),
    ("nnet3-discriminative-subset-egs", "ark:<deg:degs>", "ark:out"),
    ("nnet3-xvector-compute", "--min-chunk-size=1", "<raw:xraw>", "ark:feats", "ark:out"),
    ("nnet3-xvector-compute", "--min-chunk-size=1", "xraw", "ark:<feats:feats>", "ark:out"),
    ("nnet3-xvector-compute-batched", "--chunk-size=20", "<raw:xraw>", "ark:feats", "ark:out"),
    ("nnet3-xvector-compute-batched", "--chunk-size=20", "xraw", "ark:<feats:feats>", "ark:out"),
    ("copy-feats", "ark:<feats:feats>", "ark:out"), ("copy-feats", "--compress=true", "ark:<feats:feats>", "ark:out"),
    ("feat-to-dim", "ark:<feats:feats>", "ark,t:out"), ("feat-to-len", "ark:<feats:feats>", "ark,t:out"),
    ("copy-int-vector", "ark:<ali:ali>", "ark:out"), ("ali-to-post", "ark:<ali:ali>", "ark:out"),
    ("copy-matrix", "ark:<feats:feats>", "ark:out"),
    ("copy-vector", "ark:<vecs:vecs>", "ark:out"), ("copy-vector", "<vec:vec>", "out"),
    ("vector-scale", "--scale=2", "ark:<vecs:vecs>", "ark:out"), ("matrix-dim", "ark:<feats:feats>"),
    ("matrix-dim", "<mat:mat>"), ("matrix-sum", "ark:<feats:feats>", "ark:feats", "ark:out"),
    ("matrix-sum", "ark:<feats:feats>", "out"), ("matrix-sum", "mat", "<mat:mat>", "out"),
    ("matrix-sum-rows", "ark:<feats:feats>", "ark:out"), ("vector-sum", "ark:<vecs:vecs>", "out"),
    ("vector-sum", "vec", "<vec:vec>", "out"),
    ("compute-cmvn-stats", "ark:<feats:feats>", "ark:out"), ("compute-cmvn-stats", "ark:<feats:feats>", "out"),
    ("modify-cmvn-stats", "0:2", "ark:<stats:stats>", "ark:out"),
    ("modify-cmvn-stats", "--convert-to-mean-and-var", "ark:<stats:stats>", "ark:out"),
    ("apply-cmvn", "--norm-vars", "gstats", "ark:<feats:feats>", "ark:out"),
    ("apply-cmvn", "<gstats:gstats>", "ark:feats", "ark:out"),
    ("apply-cmvn", "--norm-means=false", "gstats", "ark:<feats:feats>", "ark:out"),
    ("apply-cmvn-online", "gstats", "ark:<feats:feats>", "ark:out"),
    ("apply-cmvn-online", "<gstats:gstats>", "ark:feats", "ark:out"),
    ("splice-feats", "ark:<feats:feats>", "ark:out"), ("add-deltas", "ark:<feats:feats>", "ark:out"),
    ("select-feats", "0,3-1", "ark:<feats:feats>", "ark:out"), ("subset-feats", "ark:<feats:feats>", "ark:out"),
    ("subsample-feats", "--n=3", "ark:<feats:feats>", "ark:out"), ("shift-feats", "--shift=2", "<mat:mat>", "out"),
    ("shift-feats", "--shift=-1", "ark:<feats:feats>", "ark:out"),
    ("paste-feats", "ark:<feats:feats>", "ark:feats", "ark:out"), ("paste-feats", "mat", "<mat:mat>", "out"),
    ("append-vector-to-feats", "ark:<feats:feats>", "ark:vecs", "ark:out"),
    ("transform-feats", "mat", "ark:<feats:feats>", "ark:out"),
    ("transform-feats", "<mat:mat>", "ark:feats", "ark:out"),
    ("ali-to-pdf", "<trans:trans.mdl>", "ark:tids", "ark:out"),
    ("ali-to-pdf", "trans.mdl", "ark:<tids:tids>", "ark:out"),
    ("ali-to-phones", "<trans:trans.mdl>", "ark:tids", "ark:out"),
    ("ali-to-phones", "--write-lengths", "trans.mdl", "ark:<tids:tids>", "ark:out"),
    ("ali-to-phones", "--ctm-output", "trans.mdl", "ark:<tids:tids>", "out"),
    ("copy-post", "--scale=2", "ark:<post:post>", "ark:out"), ("post-to-smat", "--dim=6", "ark:<post:post>", "ark:out"),
    ("post-to-tacc", "<trans:trans.mdl>", "ark:tpost", "out"),
    ("post-to-tacc", "--per-pdf", "trans.mdl", "ark:<tpost:tpost>", "out"),
    ("copy-transition-model", "<trans:trans.mdl>", "out"), ("show-transitions", "phones", "<trans:trans.mdl>"),
    ("show-transitions", "<phones:phones>", "trans.mdl"), ("show-transitions", "phones", "trans.mdl", "<vec:vec>"),
    ("am-info", "<trans:trans.mdl>"), ("tree-info", "<tree:tree>"),
    ("acc-lda", "<trans:trans.mdl>", "ark:feats", "ark:tpost", "out"),
    ("acc-lda", "trans.mdl", "ark:<feats:feats>", "ark:tpost", "out"),
    ("sum-lda-accs", "out", "lda", "<lda:lda>"), ("est-lda", "--dim=2", "out", "<lda:lda>"),
    ("nnet-get-feature-transform", "--dim=3", "out", "<lda:lda>"),
    *LOOKED_UP,
]
FILES = {"config": ["config"], "raw": ["raw", "raw.txt"], "mdl": ["mdl"], "trans": ["trans.mdl"], "tree": ["tree"],
         "topo": ["topo"], "vec": ["vec"], "egs": ["egs", "uegs", "megs", "egs.txt"],
         "feats": ["feats", "cfeats", "feats.txt"], "ali": ["ali"], "post": ["post"],
         "eg": ["egs"], "ceg": ["cegs", "cegs.txt"], "deg": ["degs"],      # eg: those that are not merged
         **{name: [name] for name in ("vecs", "stats", "gstats", "mat", "lda", "tids", "tpost", "phones", "ranges")}}
# A model's file holds a network and a transition model, too; and numbers do not say what they are.
ALSO_GOOD = {"raw": ["mdl"], "trans": ["mdl"], "feats": ["stats"], "mat": ["vec", "gstats"],
             "ali": ["tids", "phones", "ranges"], "tids": ["ali", "phones"], "post": ["tpost"], "tpost": ["post"],
             "eg": ["egs", "egs.txt"], "egs": ["egs"]}
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
    write_table(f"ark:{name}", holder, items)


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
    write("vecs", FLOAT_VECTOR, {key: rng.standard_normal(n).astype(np.float32) for key, n in LENGTHS.items()})
    ids = {key: np.repeat(rng.integers(1, 20, n), 2)[:n].astype(np.int32) for key, n in LENGTHS.items()}
    write("tids", INT_VECTOR, ids)
    write("tpost", POSTERIOR, {key: posterior_of_alignment(value) for key, value in ids.items()})
    Path("spk2utt").write_text("s0 u0 u2\ns1 u1\n")
    Path("phones").write_text("".join(f"phone{number} {number}\n" for number in range(30)))
    Path("mat.txt").write_text("[ 1 0 0 0 1\n 0 1 0 0 2\n 0 2 1 0 0\n 0 0 0 1 0 ]\n")
    write("cegs", CHAIN_EXAMPLE, {f"u{i}": eg for i, eg in enumerate(singles()[:4])})
    write("degs", DISCRIMINATIVE_EXAMPLE, {f"u{i}": discriminative() for i in range(4)})
    Path("ranges").write_text("".join(f"u{i} 0 0 {3 * i} 10 {i}\n" for i in range(3)))
    Path("config").write_text(CONFIG)
    Path("xconfig").write_text(XVECTOR_CONFIG)
    Path("vec").write_text(" [ 1 2 3 4 5 6 ]\n")
    for name in ("tree", "topo", "trans.mdl"):
        shutil.copy(DATA / "network" / name, name)
    for words in (
            ("nnet3-init", "config", "raw"), ("nnet3-init", "xconfig", "xraw"),
            ("nnet3-chain-copy-egs", "ark:cegs", "ark,t:cegs.txt"), ("nnet3-copy", "--binary=false", "raw", "raw.txt"),
            ("nnet3-am-init", "trans.mdl", "raw", "mdl"), ("copy-feats", "--compress=true", "ark:feats", "ark:cfeats"),
            ("copy-feats", "ark:feats", "ark,t:feats.txt"),
            ("nnet3-get-egs", *GET_EGS, "ark:feats", "ark:post", "ark:egs"),
            ("nnet3-get-egs", "--compress=false", *GET_EGS, "ark:feats", "ark:post", "ark:uegs"),
            ("nnet3-copy-egs", "ark:egs", "ark,t:egs.txt"), ("copy-matrix", "mat.txt", "mat"),
            ("compute-cmvn-stats", "ark:feats", "ark:stats"), ("compute-cmvn-stats", "ark:feats", "gstats"),
            ("acc-lda", "trans.mdl", "ark:feats", "ark:tpost", "lda"),
            ("nnet3-merge-egs", "--minibatch-size=4", "ark:uegs", "ark:megs")):
        assert load(words[0]).execute(words[1:]) == 0
