"""Trees from alignments, and flat starts: commands, files, resumption, refused inputs."""
from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from driver_chain_cases import write_chain_configs
from egs_source import DIM, NAMES, length, make_source
from io_samples import read_table
from job_recorder import Recorder
from preparation_cases import NUM_PHONES, make_data

import nnet3py
from nnet3py.acoustic_model import AcousticModel
from nnet3py.cli.main import load
from nnet3py.drivers.chain_training import ChainTraining, train_chain
from nnet3py.drivers.data_folder import AliFolder
from nnet3py.drivers.egs_folder import EgsFolder
from nnet3py.drivers.make_chain_egs import make_chain_egs
from nnet3py.drivers.options import ChainEgsOptions, ChainOptions
from nnet3py.drivers.staged_options import FlatStartOptions, TreeOptions
from nnet3py.drivers.trees import FlatStart, build_tree
from nnet3py.egs.chain_example import read_chain_egs
from nnet3py.errors import FormatError, UsageError
from nnet3py.formats.holders import INT_VECTOR
from nnet3py.hmm.alignment import phone_starts
from nnet3py.hmm.tree import ContextDependency
from nnet3py.io.object_files import read_object

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
    converted = {key: np.asarray(ids) for key, ids in read_table(made.all_rspecifier, INT_VECTOR).items()}
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
                             ({"dir": "a b"}, "--dir a b has the character")):
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


WORDS = ("one", "two", "three")
NO_MEANS = "--norm-means=false"


@pytest.fixture
def e2e_data(here: Path) -> Path:
    """A working folder with ``data`` (transcripts, too) and ``lang``."""
    make_source(here)
    random = np.random.default_rng(0)
    lines = [f"{name} {' '.join(WORDS[i] for i in random.integers(0, 3, 2))}\n" for name in NAMES]
    lines[3] = lines[3].rstrip("\n") + " unheard\n"
    (here / "data" / "text").write_text("".join(lines))
    (here / "lexicon").write_text("one a b\ntwo b c\nthree c a\n<unk> c\n")
    assert load("prepare-lang").execute(["--unknown-word=<unk>", "lexicon", "lang"]) == 0
    return here


@pytest.mark.slow
def test_from_words_to_a_model(e2e_data: Path) -> None:
    pytest.importorskip("kaldifst", reason="graphs are made with kaldifst")
    shutil.copy("lexicon", "lang/phones/align_lexicon.txt")
    assert load("prepare-e2e").execute(["--feat-dir=data", "--lang=lang", "--dir=tree", "--nj=2", "--type=biphone",
                                        "--lm-opts=--num-extra-lm-states=10"]) == 0
    assert {file.name for file in Path("tree").iterdir()} >= {
        "tree", "final.mdl", "0.mdl", "0.trans_mdl", "phone_lm.fst", "fst.1.scp", "fst.2.scp", "num_jobs",
        "phones.txt"}
    assert sum(len(Path(f"tree/fst.{n}.scp").read_text().splitlines()) for n in (1, 2)) == len(NAMES)
    found = read_object("tree/tree", ContextDependency.read).num_pdfs
    exp = e2e_data / "exp"
    write_chain_configs(exp, DIM)
    config = exp / "configs" / "final.config"
    config.write_text(config.read_text().replace("=56", f"={found}"))
    options = ["--dir=exp", "--feat-dir=data", "--tree-dir=tree", "--e2e=true", "--use-gpu=no",
               f"--feat.cmvn-opts={NO_MEANS}", "--egs.opts=--nj 1 --num-egs-diagnostic 3",
               "--chain.leaky-hmm-coefficient=0.1", "--chain.xent-regularize=0.1", "--trainer.num-epochs=0.67",
               "--trainer.num-chunk-per-minibatch=4,2,1", "--num-threads=2",
               "--trainer.optimization.num-jobs-final=1", "--cleanup=false"]
    assert load("train-chain").execute(options) == 0
    model = nnet3py.read_model("exp/final.mdl")
    assert isinstance(model, AcousticModel) and model.nnet.output_dim("output") == found
    egs = EgsFolder("exp/egs")
    assert egs.frames_per_eg == "-1" and Path("exp/phone_lm.fst").read_bytes() == Path("tree/phone_lm.fst").read_bytes()
    lengths = {len(eg.outputs[0].indexes) * 3 for _, eg in read_chain_egs(f"ark:{egs.archive(1)}")}
    assert lengths <= {36, 45, 54, 63} and len(lengths) > 1            # 40 to 63 frames, none changed by more than 4
    assert "--minibatch-size=1:64" in Path("exp/log/combine.log").read_text()
    assert load("train-chain").execute([*options, "--ali-dir=ali"]) == 255


def test_the_commands(e2e_data: Path) -> None:
    recorder = Recorder()
    Path("tree").mkdir()
    Path("tree/0.mdl").touch()
    FlatStart(FlatStartOptions(feat_dir="data", lang="lang", dir="tree", nj=2, type="biphone", ci_silence=True,
                               srand=3), recorder).run()
    assert recorder.ran[0].startswith("gmm-init-biphone --ci-phones=1 --shared-phones=lang/phones/sets.int lang/topo "
                                      "10 tree/0.mdl tree/tree && copy-transition-model tree/0.mdl tree/0.trans_mdl")
    assert recorder.ran[1].startswith(
        "text-to-phones --phones=lang/phones.txt --srand=3 --silence-phone=SIL --edge-silprob=0.8 "
        "--between-silprob=0.1 '--unknown-word=<unk>' tree/lexicon.txt data/text ark:- | "
        "chain-est-phone-lm --num-extra-lm-states=2000 ark:- tree/phone_lm.fst")
    assert recorder.ran[3].startswith(
        "compile-train-graphs --transition-scale=0.0 --self-loop-scale=0.0 "
        "--read-disambig-syms=lang/phones/disambig.int tree/tree tree/0.mdl lang/L.fst ark,t:tree/split/2/text "
        "ark,scp:tree/fst.2.ark,tree/fst.2.scp")
    words = dict(line.split() for line in Path("lang/words.txt").read_text().splitlines())
    assert Path("tree/split/1/text").read_text().splitlines()[3].split()[-1] == words["<unk>"]


def test_examples_of_given_lengths(e2e_data: Path) -> None:
    """Of allowed_lengths.txt; else a length a utterance is not far from."""
    chain, egs, tree = e2e_data / "chain", e2e_data / "egs", e2e_data / "tree"
    for folder in (chain, egs, tree):
        folder.mkdir()
    for name in ("tree", "0.trans_mdl", "normalization.fst"):
        shutil.copy(Path(__file__).parent / "data" / "chain" / name, chain)
    with pytest.raises(FormatError, match=r"has no fst\.1\.scp"):
        make_chain_egs("data", chain, tree, egs, ChainEgsOptions(frames_per_eg="-1", cmvn_opts=NO_MEANS), Recorder())
    (tree / "fst.1.scp").write_text("".join(f"{name} fst.1.ark:7\n" for name in NAMES))
    (egs / "utt2num_frames").write_text("".join(f"{name} {40 + number}\n" for number, name in enumerate(NAMES)))
    made = []
    for lengths in ("", "39\n51\n63\n"):
        if lengths:
            (e2e_data / "data" / "allowed_lengths.txt").write_text(lengths)
        recorder = Recorder()
        make_chain_egs("data", chain, tree, egs, ChainEgsOptions(frames_per_eg="-1", cmvn_opts=NO_MEANS, nj=1),
                       recorder)
        made += [command for command in recorder.ran if command.startswith("nnet3-chain-e2e-get-egs")]
    assert "--num-frames=36,45,54,63 " in made[0] and f" scp:{egs}/split/valid/fst.scp {chain}/0.trans_mdl " in made[0]
    assert f"{chain}/normalization.fst" in made[0] and "normalization.fst" not in made[2]
    assert "--num-frames=39,51,63 " in made[3]
    with pytest.raises(UsageError, match="no lattices, no weights"):
        make_chain_egs("data", chain, tree, egs, ChainEgsOptions(frames_per_eg="-1", constrained=False), Recorder())


def test_what_cannot_be(e2e_data: Path) -> None:
    for values, what in (({"type": "triphone"}, "expected mono or biphone"),
                         ({"ci_silence": True}, "is for --type=biphone"), ({"lang": ""}, "--lang was not given")):
        with pytest.raises(UsageError, match=what):
            FlatStart(FlatStartOptions(**{"feat_dir": "data", "lang": "lang", "dir": "tree", **values}))  # type: ignore
    (e2e_data / "data" / "text").unlink()
    with pytest.raises(FormatError, match="there is no text"):
        FlatStart(FlatStartOptions(feat_dir="data", lang="lang", dir="tree"), Recorder()).run()
    (e2e_data / "tree").mkdir()
    for name, target in (("tree", "tree"), ("0.trans_mdl", "final.mdl")):
        shutil.copy(Path(__file__).parent / "data" / "chain" / name, e2e_data / "tree" / target)
    write_chain_configs(e2e_data / "exp", DIM)
    given = {"dir": "exp", "feat_dir": "data", "tree_dir": "tree", "e2e": True, "use_gpu": "no"}
    with pytest.raises(UsageError, match=r"there is no tree/phone_lm\.fst"):
        train_chain(ChainOptions(**given), Recorder())
    shutil.rmtree(e2e_data / "exp")
    write_chain_configs(e2e_data / "exp", DIM, lda=True)
    with pytest.raises(UsageError, match=r"has init\.config"):
        train_chain(ChainOptions(**given), Recorder())
