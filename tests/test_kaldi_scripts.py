"""Kaldi's own scripts, unmodified, with our launchers alone on PATH; they lie beside the checkout, or are not tried."""
from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from digits_cases import RECIPE, write_kaldi_dirs
from paths import ROOT

from nnet3py.acoustic_model import AcousticModel
from nnet3py.formats.holders import INT_VECTOR
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.io.object_files import read_object
from nnet3py.io.tables import SequentialReader
from nnet3py.network.nnet import Nnet

SCRIPTS = ROOT.parent / "shared" / "kaldi-scripts"
UTTERANCES = {"train": 4, "test": 4}
JOBS = 1             # their first utterances are of one speaker, and Kaldi splits by speakers
NO_NORMALISATION = "--norm-means=false --norm-vars=false"
CONFIG = """
input-node name=input dim=40
component name=affine type=AffineComponent input-dim=40 output-dim=28
component name=softmax type=LogSoftmaxComponent dim=28
component-node name=affine component=affine input=input
component-node name=softmax component=softmax input=affine
output-node name=output input=softmax
"""


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A work folder: scripts, path.sh, data, a model with random parameters, a lang folder."""
    if not (SCRIPTS / "steps").is_dir():
        pytest.skip("Kaldi's scripts are not here")
    pytest.importorskip("kaldifst", reason="graphs are made with kaldifst")
    folder = tmp_path_factory.mktemp("work")
    for name in ("steps", "utils"):
        copy_scripts(SCRIPTS / name, folder / name)
    (folder / "path.sh").write_text(f"export LC_ALL=C\nexport PATH={folder}/utils:{ROOT}/bin:/usr/bin:/bin\n")
    write_kaldi_dirs(folder / "kaldi", UTTERANCES, JOBS)
    model = folder / "exp" / "tdnn"
    model.mkdir(parents=True)
    transitions = read_object(str(folder / "kaldi" / "ali_train" / "final.mdl"), TransitionModel.read)
    AcousticModel(transitions, Nnet.from_config(CONFIG, seed=1), np.full(28, 1 / 28, np.float32)).write(
        str(model / "final.mdl"))
    shutil.copy(folder / "kaldi" / "ali_train" / "tree", model)
    shutil.copy(folder / "kaldi" / "lang" / "phones.txt", model)
    (model / "cmvn_opts").write_text(f"{NO_NORMALISATION}\n")
    run(folder, "make-graph", "--phones=kaldi/lang/phones.txt", "--silence-phone=SIL", "--write-lang=lang",
        RECIPE / "data" / "lexicon.txt", "loop", model / "tree", model / "final.mdl", model / "graph")
    (folder / "lang" / "oov.int").write_text("1\n")
    return folder


def copy_scripts(source: Path, target: Path) -> None:
    """Copy scripts, which can then be run; a file that holds nothing but another's name is the link that it was."""
    shutil.copytree(source, target, symlinks=True)
    for path in sorted(target.rglob("*")):
        path.parent.chmod(0o755)
        if path.is_symlink() or not path.is_file():
            continue
        path.chmod(0o755)
        content = path.read_bytes()
        if len(content) < 100 and b"\n" not in content and (path.parent / content.decode()).exists():
            path.unlink()
            path.symlink_to(content.decode())


def run(work: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([str(word) for word in words], cwd=work, capture_output=True, text=True, timeout=200, env={
        **os.environ, "PATH": f"{ROOT / 'bin'}:/usr/bin:/bin", "NNET3PY_PYTHON": sys.executable,
        "NNET3PY_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def test_align(work: Path) -> None:
    """With its defaults: it waits for a GPU where there is one, and computes on the CPU where there is none."""
    done = run(work, "steps/nnet3/align.sh", "--nj", str(JOBS), "--cmd", "run.pl", "kaldi/data/test", "lang",
               "exp/tdnn", "exp/ali")
    assert "align.sh: done aligning data." in done.stdout
    lengths = dict(line.split() for line in (work / "kaldi/data/test/utt2num_frames").read_text().splitlines())
    found: dict[str, int] = {}
    for job in range(1, JOBS + 1):
        with SequentialReader(f"ark:gunzip -c {work}/exp/ali/ali.{job}.gz |", INT_VECTOR) as alignments:
            found |= {key: len(alignment) for key, alignment in alignments}
    assert found == {key: int(length) for key, length in lengths.items()}


def test_training_graphs_with_the_scales_of_end_to_end_training(work: Path) -> None:
    """steps/nnet3/chain/e2e/prepare_e2e.sh calls the program so."""
    command = ("compile-train-graphs --transition-scale=0.0 --self-loop-scale=0.0 --read-disambig-syms=lang/phones/"
               "disambig.int exp/tdnn/tree exp/tdnn/final.mdl lang/L.fst 'ark:utils/sym2int.pl --map-oov 1 -f 2- "
               "lang/words.txt < kaldi/data/test/text |' ark,scp:fst.ark,fst.scp")
    assert f"succeeded for {UTTERANCES['test']} graphs, failed for 0" in run(work, "bash", "-c", command).stderr
