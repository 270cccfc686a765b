"""nnet3py/drivers/chain_training.py: one network for several languages, from alignments to a model of each."""
from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from driver_chain_cases import CHAIN, NUM_PDFS, write_chain_configs
from egs_source import DIM, make_source
from job_recorder import Recorder

import nnet3py
from nnet3py.acoustic_model import AcousticModel
from nnet3py.cli.main import load
from nnet3py.drivers.chain_training import read_languages, train_chain
from nnet3py.drivers.egs_folder import EgsFolder
from nnet3py.drivers.options import ChainOptions
from nnet3py.egs.chain_example import read_chain_egs
from nnet3py.errors import FormatError, UsageError
from nnet3py.report.training_logs import read_compute_prob_log

LINE = "feat-dir=data tree-dir=ali ali-dir=ali"


def write_network(folder: Path, names: tuple[str, ...] = ("en", "de")) -> str:
    """configs/ with outputs for each language, and none besides; the config."""
    write_chain_configs(folder, DIM)
    config = folder / "configs" / "final.config"
    shared, outputs = config.read_text().split("component name=affine2", 1)
    outputs = f"component name=affine2{outputs}"
    text = shared + "".join(
        outputs.replace("affine2", f"{name}2").replace("affine3", f"{name}3").replace("softmax", f"{name}-softmax")
        .replace("name=output-xent", f"name=output-{name}-xent").replace("name=output ", f"name=output-{name} ")
        for name in names)
    config.write_text(text)
    return text


@pytest.fixture
def source(here: Path) -> Path:
    return make_source(here)


@pytest.mark.slow
def test_two_languages(source: Path) -> None:
    text = write_network(source / "exp")
    nnet3py.Nnet.from_config(text, seed=0).write("exp/configs/ref.raw")
    Path("languages").write_text(f"en {LINE} weight=0.5\n# the other\nde {LINE} copies=2\n")
    words = ["--dir=exp", "--languages=languages", "--use-gpu=no", "--feat.cmvn-opts=--norm-means=false",
             "--egs.chunk-width=15", "--egs.opts=--nj 1 --num-egs-diagnostic 3", "--chain.leaky-hmm-coefficient=0.1",
             "--chain.xent-regularize=0.1", "--trainer.num-epochs=0.4", "--trainer.num-chunk-per-minibatch=4,2,1",
             "--num-threads=2", "--cleanup=false", "--trainer.optimization.num-jobs-final=1"]
    assert load("train-chain").execute(words) == 0
    for name in ("en", "de"):
        model = nnet3py.read_model(f"exp/{name}/final.mdl")
        assert isinstance(model, AcousticModel) and model.nnet.output_dim("output") == NUM_PDFS
        assert [node for node in model.nnet.node_names if node.startswith("output")] == ["output"]
        assert Path(f"exp/den_fsts/{name}.den.fst").exists()
        report = Path(f"exp/accuracy.output-{name}.report").read_text().splitlines()
        assert report[1].startswith("0\t") and float(report[1].split("\t")[3]) < 0.0
    egs = EgsFolder("exp/egs")
    assert egs.num_archives == 3 and egs.is_multitask
    keys = [key for number in (1, 2, 3) for key, _ in read_chain_egs(egs.training_rspecifier(number))]
    english = sum(key.endswith("?lang=en") for key in keys)
    assert 0 < english and len(keys) == 3 * english
    values = read_compute_prob_log(Path("exp/log/compute_prob_valid.final.log"))
    assert {output for output, _ in values} >= {"output-en", "output-de"}
    command = Path("exp/log/train.0.1.log").read_text()
    assert "--multilingual-eg=true" in command and "--weights=ark:exp/egs/cegs.weight.1.ark" in command
    assert load("train-chain").execute(words) == 0                   # there is nothing left to do
    Path("languages").write_text(f"en {LINE} weight=0.5\nde {LINE} copies=3\n")
    assert load("train-chain").execute(words) == 255                 # begun with another list


def test_the_list(source: Path) -> None:
    Path("languages").write_text(f"\nen {LINE}\nfr feat-dir=a tree-dir=b lat-dir=c weight=0.5 copies=3\n")
    first, second = read_languages("languages")
    assert (first.name, first.ali_dir, first.weight, first.copies) == ("en", "ali", 1.0, 1)
    assert (second.lat_dir, second.weight, second.copies) == ("c", 0.5, 3)
    for line, what in (("en-us", "expected a new name"), ("en tree-dir=a", "needs feat-dir="), ("", "found none"),
                       (f"en {LINE} lat-dir=x", "either ali-dir= or lat-dir="), (f"en {LINE} weight=x", "a number for"),
                       (f"en {LINE} speed=3", "expected KEY=VALUE"),
                       (f"en {LINE}\nen {LINE}", "line 2: expected a new")):
        Path("languages").write_text(f"{line}\n")
        with pytest.raises(FormatError, match=what):
            read_languages("languages")
    with pytest.raises(FormatError, match="No such file"):
        read_languages("nowhere")


def test_what_cannot_be(source: Path) -> None:
    text = write_network(source / "exp", ("en",))
    nnet3py.Nnet.from_config(text, seed=0).write("exp/configs/ref.raw")
    Path("languages").write_text(f"en {LINE}\nde {LINE}\n")
    with pytest.raises(UsageError, match=r"ref\.raw has no node 'output-de'"):
        train_chain(ChainOptions(dir="exp", languages="languages", use_gpu="no"), Recorder())
    with pytest.raises(UsageError, match="--languages and --tree-dir cannot both be given"):
        train_chain(ChainOptions(dir="exp", languages="languages", tree_dir=str(CHAIN)), Recorder())
    shutil.rmtree("ali")
    with pytest.raises(FormatError, match="it has no tree"):
        train_chain(ChainOptions(dir="exp", languages="languages", use_gpu="no"), Recorder())
