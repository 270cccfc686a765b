"""nnet3py/drivers/trees.py: a tree and converted alignments, by real programs; and the commands for other features."""
from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from egs_source import NAMES, length
from job_recorder import Recorder
from preparation_cases import NUM_PHONES, make_data

from nnet3py.cli.main import load
from nnet3py.drivers.chain_training import ChainTraining
from nnet3py.drivers.egs.data_folder import AliFolder
from nnet3py.drivers.options import ChainOptions
from nnet3py.drivers.staged_options import TreeOptions
from nnet3py.drivers.trees import build_tree
from nnet3py.errors import FormatError, UsageError
from nnet3py.formats.holders import INT_VECTOR
from nnet3py.hmm.alignment import phone_starts
from nnet3py.hmm.tree import ContextDependency
from nnet3py.io.object_files import read_object
from nnet3py.io.tables import SequentialReader

LEFT_BIPHONE = "--context-width=2 --central-position=1"
NUM_LEAVES = 64


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_data(tmp_path_factory.mktemp("source"))


def options(source: Path, **changed: Any) -> TreeOptions:
    return TreeOptions(**{"feat_dir": str(source / "data"), "lang": str(source / "lang"),
                          "ali_dir": str(source / "ali"), "num_leaves": NUM_LEAVES, "frame_subsampling_factor": 3,
                          "context_opts": LEFT_BIPHONE, **changed})


def test_a_left_biphone_tree_by_the_command(source: Path, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    words = [f"--feat-dir={source}/data", f"--lang={source}/lang", "--ali-dir", f"{source}/ali", f"--dir={tree}",
             "--frame-subsampling-factor=3", f"--context-opts={LEFT_BIPHONE}", f"--num-leaves={NUM_LEAVES}"]
    assert load("nnet3-build-tree").execute(words) == 0
    made = AliFolder(tree)
    built = read_object(made.tree, ContextDependency.read)
    assert (made.num_jobs, built.context_width, built.central_position) == (2, 2, 1)
    assert NUM_PHONES <= built.num_pdfs <= NUM_LEAVES        # each phone has one at least
    with SequentialReader(made.all_rspecifier, INT_VECTOR) as table:
        converted = {key: np.asarray(ids) for key, ids in table}
    assert sorted(converted) == NAMES
    for number, name in enumerate(NAMES):
        assert len(converted[name]) == (length(number) + 2) // 3
        assert len(phone_starts(made.transition_model, converted[name])[0]) == 4, name
    assert (tree / "phones.txt").read_text() == (source / "lang/phones.txt").read_text()
    assert not list(tree.glob("*treeacc")) and (tree / "1.occs").is_file()
    ChainTraining(ChainOptions(dir=str(tmp_path / "chain"), tree_dir=str(tree), ali_dir=str(source / "ali")),
                  Recorder())._check_tree_dir()


def recorded(source: Path, folder: Path, **changed: Any) -> list[str]:
    recorder = Recorder()
    (folder / "tree").mkdir()
    (folder / "tree" / "1.mdl").touch()                     # what the jobs would make, and steps look for
    for name in ("treeacc", "mono.mdl"):
        (folder / "tree" / name).touch()
    shutil.copyfile(source / "ali" / "tree", folder / "tree" / "tree")
    build_tree(options(source, dir=str(folder / "tree"), **changed), recorder)
    return recorder.ran


def test_feat_are_those_of_the_alignments(source: Path, tmp_path: Path) -> None:
    ali = tmp_path / "ali"
    shutil.copytree(source / "ali", ali)
    for name in ("final.mat", "trans.1", "trans.2"):
        (ali / name).touch()
    (ali / "splice_opts").write_text("--left-context=3\n")
    (ali / "cmvn_opts").write_text("--norm-vars=true\n")
    commands = recorded(source, tmp_path, ali_dir=str(ali), alignment_subsampling_factor=1, repeat_frames=True)
    (acc,) = (command for command in commands if "acc-tree-stats" in command and "trans.2" in command)
    part = tmp_path / "tree" / "split" / "2"
    assert (f"apply-cmvn --norm-vars=true --utt2spk=ark:{part}/utt2spk scp:{part}/cmvn.scp scp:{part}/feats.scp ark:- "
            f"| splice-feats --left-context=3 ark:- ark:- | transform-feats {ali}/final.mat ark:- ark:- | "
            f"transform-feats --utt2spk=ark:{part}/utt2spk ark,s,cs:{ali}/trans.2 ark:- ark:- | "
            "subsample-feats --n=3 ark:- ark:- |") in acc
    assert "--ci-phones=1 " in acc and "convert-ali --frame-subsampling-factor=1 " in acc
    assert sum("convert-ali --repeat-frames=true" in command for command in commands) == 2
    assert (tmp_path / "tree" / "final.mat").is_file() and (tmp_path / "tree" / "cmvn_opts").is_file()


def test_what_does_not_fit_is_refused(source: Path, tmp_path: Path) -> None:
    for changed, message in (({"num_leaves": 0}, "--num-leaves=0: expected how many"),
                             ({"lang": ""}, "--lang was not given"),
                             ({"frame_subsampling_factor": 0}, "--frame-subsampling-factor=0"),
                             ({"alignment_subsampling_factor": 0}, "--alignment-subsampling-factor=0"),
                             ({"dir": "a b"}, "--dir a b has a character")):
        with pytest.raises(UsageError, match=message):
            build_tree(options(source, **{"dir": str(tmp_path / "no"), **changed}), Recorder())
    with pytest.raises(FormatError, match="it has no topo"):
        build_tree(options(source, dir=str(tmp_path / "no"), lang=str(source / "ali")), Recorder())
    ali = tmp_path / "ali"
    shutil.copytree(source / "ali", ali)
    (ali / "trans.1").touch()
    with pytest.raises(FormatError, match="there is trans.1, but no trans.2"):
        build_tree(options(source, dir=str(tmp_path / "no"), ali_dir=str(ali)), Recorder())
    (ali / "phones.txt").write_text("<eps> 0\nother 1\n")
    with pytest.raises(FormatError, match="the phones are others"):
        build_tree(options(source, dir=str(tmp_path / "no"), ali_dir=str(ali)), Recorder())
    assert not (tmp_path / "no").exists()
