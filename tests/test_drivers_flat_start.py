"""nnet3py/drivers/trees.py, and train-chain --e2e: from words to a chain model, without alignments."""
from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from driver_chain_cases import write_chain_configs
from egs_source import DIM, NAMES, make_source
from job_recorder import Recorder

import nnet3py
from nnet3py.acoustic_model import AcousticModel
from nnet3py.cli.main import load
from nnet3py.drivers.chain_languages import train_chain
from nnet3py.drivers.egs.egs_folder import EgsFolder
from nnet3py.drivers.egs.make_chain_egs import make_chain_egs
from nnet3py.drivers.egs.options import ChainEgsOptions
from nnet3py.drivers.options import ChainOptions
from nnet3py.drivers.staged_options import FlatStartOptions
from nnet3py.drivers.trees import FlatStart
from nnet3py.egs.chain_example import read_chain_egs
from nnet3py.errors import FormatError, UsageError
from nnet3py.hmm.tree import ContextDependency
from nnet3py.io.object_files import read_object

WORDS = ("one", "two", "three")
NO_MEANS = "--norm-means=false"


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with ``data`` (transcripts, too) and ``lang``."""
    monkeypatch.chdir(tmp_path)
    make_source(tmp_path)
    random = np.random.default_rng(0)
    lines = [f"{name} {' '.join(WORDS[i] for i in random.integers(0, 3, 2))}\n" for name in NAMES]
    lines[3] = lines[3].rstrip("\n") + " unheard\n"
    (tmp_path / "data" / "text").write_text("".join(lines))
    (tmp_path / "lexicon").write_text("one a b\ntwo b c\nthree c a\n<unk> c\n")
    assert load("prepare-lang").execute(["--unknown-word=<unk>", "lexicon", "lang"]) == 0
    return tmp_path


@pytest.mark.slow
def test_from_words_to_a_model(source: Path) -> None:
    pytest.importorskip("kaldifst", reason="graphs are made with kaldifst")
    shutil.copy("lexicon", "lang/phones/align_lexicon.txt")
    assert load("prepare-e2e").execute(["--feat-dir=data", "--lang=lang", "--dir=tree", "--nj=2", "--type=biphone",
                                        "--lm-opts=--num-extra-lm-states=10"]) == 0
    assert {file.name for file in Path("tree").iterdir()} >= {
        "tree", "final.mdl", "0.mdl", "0.trans_mdl", "phone_lm.fst", "fst.1.scp", "fst.2.scp", "num_jobs",
        "phones.txt"}
    assert sum(len(Path(f"tree/fst.{n}.scp").read_text().splitlines()) for n in (1, 2)) == len(NAMES)
    found = read_object("tree/tree", ContextDependency.read).num_pdfs
    exp = source / "exp"
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


def test_the_commands(source: Path) -> None:
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


def test_examples_of_given_lengths(source: Path) -> None:
    """Of allowed_lengths.txt; else a length a utterance is not far from."""
    chain, egs, tree = source / "chain", source / "egs", source / "tree"
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
            (source / "data" / "allowed_lengths.txt").write_text(lengths)
        recorder = Recorder()
        make_chain_egs("data", chain, tree, egs, ChainEgsOptions(frames_per_eg="-1", cmvn_opts=NO_MEANS, nj=1),
                       recorder)
        made += [command for command in recorder.ran if command.startswith("nnet3-chain-e2e-get-egs")]
    assert "--num-frames=36,45,54,63 " in made[0] and f" scp:{egs}/split/valid/fst.scp {chain}/0.trans_mdl " in made[0]
    assert f"{chain}/normalization.fst" in made[0] and "normalization.fst" not in made[2]
    assert "--num-frames=39,51,63 " in made[3]
    with pytest.raises(UsageError, match="no lattices, no weights"):
        make_chain_egs("data", chain, tree, egs, ChainEgsOptions(frames_per_eg="-1", constrained=False), Recorder())


def test_what_cannot_be(source: Path) -> None:
    for values, what in (({"type": "triphone"}, "expected mono or biphone"), ({"edge_silprob": 2.0}, "a probability"),
                         ({"ci_silence": True}, "is for --type=biphone"), ({"lang": ""}, "--lang was not given")):
        with pytest.raises(UsageError, match=what):
            FlatStart(FlatStartOptions(**{"feat_dir": "data", "lang": "lang", "dir": "tree", **values}))  # type: ignore
    (source / "data" / "text").unlink()
    with pytest.raises(FormatError, match="there is no text"):
        FlatStart(FlatStartOptions(feat_dir="data", lang="lang", dir="tree"), Recorder()).run()
    (source / "tree").mkdir()
    for name, target in (("tree", "tree"), ("0.trans_mdl", "final.mdl")):
        shutil.copy(Path(__file__).parent / "data" / "chain" / name, source / "tree" / target)
    write_chain_configs(source / "exp", DIM)
    given = {"dir": "exp", "feat_dir": "data", "tree_dir": "tree", "e2e": True, "use_gpu": "no"}
    with pytest.raises(UsageError, match=r"there is no tree/phone_lm\.fst"):
        train_chain(ChainOptions(**given), Recorder())
    shutil.rmtree(source / "exp")
    write_chain_configs(source / "exp", DIM, lda=True)
    with pytest.raises(UsageError, match=r"has init\.config"):
        train_chain(ChainOptions(**given), Recorder())
