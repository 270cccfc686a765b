"""The plan, and the whole training in small."""
from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from egs_source import DIM, NAMES, make_source
from job_recorder import Recorder

from nnet3py.acoustic_model import AcousticModel, read_model
from nnet3py.cli.main import load
from nnet3py.drivers.discriminative_training import DiscriminativeTraining, make_denlats
from nnet3py.drivers.staged_options import DiscriminativeTrainingOptions, LatticesOptions
from nnet3py.errors import FormatError, UsageError
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.io.object_files import read_object
from nnet3py.network.nnet import Nnet

WORDS = ("one", "two", "three")
CONFIG = """
input-node name=input dim={dim}
component name=affine type=NaturalGradientAffineComponent input-dim={spliced} output-dim={pdfs} param-stddev=0.3
component name=softmax type=LogSoftmaxComponent dim={pdfs}
component-node name=affine component=affine input=Append(Offset(input, -2), input, Offset(input, 1))
component-node name=softmax component=softmax input=affine
output-node name=output input=softmax
"""


@pytest.fixture
def source(here: Path) -> Path:
    """A working folder with ``data``, ``lang`` and a random model in ``src``."""
    make_source(here)
    random = np.random.default_rng(0)
    (here / "data" / "text").write_text("".join(
        f"{name} {' '.join(WORDS[i] for i in random.integers(0, 3, 2))}\n" for name in NAMES))
    (here / "lexicon").write_text("one a b\ntwo b c\nthree c a\n<unk> c\n")
    assert load("prepare-lang").execute(["--chain=false", "--unknown-word=<unk>", "lexicon", "lang"]) == 0
    Path("src").mkdir()
    assert load("gmm-init-mono").execute(["lang/topo", str(DIM), "src/0.mdl", "src/tree"]) == 0
    write_model(with_priors=True)
    shutil.copy("lang/phones.txt", "src")
    Path("src/cmvn_opts").write_text("--norm-means=false\n")
    return here


def write_model(with_priors: bool) -> None:
    transitions = read_object("src/0.mdl", TransitionModel.read)
    pdfs = transitions.num_pdfs
    priors = np.full(pdfs if with_priors else 0, 1 / pdfs, np.float32)
    nnet = Nnet.from_config(CONFIG.format(dim=DIM, spliced=3 * DIM, pdfs=pdfs), seed=1)
    AcousticModel(transitions, nnet, priors).write("src/final.mdl")


def training(**options: object) -> DiscriminativeTraining:
    values = {"feat_dir": "data", "lang": "lang", "src_dir": "src", "dir": "exp", **options}
    result = DiscriminativeTraining(DiscriminativeTrainingOptions(**values))
    result.begin()
    return result


def commands(work: DiscriminativeTraining, step: str, stage: int | None = None) -> list[str]:
    return [job.command for found in work.steps() if found.name == step and stage in (None, found.stage)
            for job in found.jobs]


def test_the_plan(source: Path) -> None:
    work = training(num_epochs=2, num_jobs=2, frames_per_iter=150, nj=2)
    assert work.num_archives >= 3 and work.num_jobs == 2
    held_out = {utterance for subset in work.subsets.values() for utterance in subset}
    assert not set(work.subsets["valid"]) & {utterance for part in work.parts for utterance in part} and held_out
    align, decode = commands(work, "align"), commands(work, "decode")
    assert len(align) == len(decode) == 4 and all("--acoustic-scale=0.1 " in command for command in align + decode)
    cutting = commands(work, "egs")
    assert all("--left-context=2 --right-context=1 " in command for command in cutting)
    training_jobs = commands(work, "train")
    archives = [re.search(r"degs\.(\d+)\.ark", command).group(1) for command in training_jobs
                if command.startswith("nnet3-discriminative-train")]
    assert archives[:4] == ["1", "2", "3", "1" if work.num_archives == 3 else "4"]
    iterations = {step.stage for step in work.steps() if step.name == "train"}
    assert len(iterations) == round(2 * work.num_archives / 2) and len(archives) == 2 * len(iterations)
    assert all("--optimization.min-deriv-time=-2 --optimization.max-deriv-time-relative=1 " in command
               for command in training_jobs if command.startswith("nnet3-discriminative-train"))
    assert [step.name for step in work.steps() if step.name.startswith("priors")] == ["priors1", "priors2"]


def test_chain_models_have_scales_of_one_and_no_priors(source: Path) -> None:
    write_model(with_priors=False)
    Path("src/frame_subsampling_factor").write_text("3\n")
    work = training(use_frame_shift=True, num_epochs=1, num_jobs=1)
    assert "--acoustic-scale=1 " in commands(work, "align")[0] and "--self-loop-scale=1 " in commands(work, "graph")[0]
    assert all("--left-context=3 --right-context=2 " in command for command in commands(work, "egs"))
    assert not [step for step in work.steps() if step.name.startswith("priors")]
    shifts = [re.search(r"--frame-shift=(\d)", command).group(1) for command in commands(work, "train")
              if command.startswith("nnet3-discriminative-train")]
    assert len(shifts) == 3 * work.num_archives and set(shifts) == {"0", "1", "2"}


def test_wrong_folders_and_options(source: Path) -> None:
    with pytest.raises(UsageError, match="--trainer.criterion=map"):
        training(criterion="map")
    with pytest.raises(UsageError, match="use-frame-shift"):
        training(use_frame_shift=True)
    with pytest.raises(FormatError, match="HCLG.fst"):
        training(graph_dir="src")
    Path("src/tree").unlink()
    with pytest.raises(FormatError, match="expected a folder with tree"):
        training()


def test_jobs_run_in_order_and_again_where_they_stood(source: Path) -> None:
    """With a recorder in the place of processes: what one begins with, another has made before."""
    recorder = Recorder()
    options = DiscriminativeTrainingOptions(feat_dir="data", lang="lang", src_dir="src", dir="exp", num_epochs=1,
                                            exit_stage=0)
    DiscriminativeTraining(options, recorder).run()
    order = [next(place for place, command in enumerate(recorder.ran) if program in command)
             for program in ("nnet3-align-compiled", "make-graph", "nnet3-latgen-faster",
                             "nnet3-discriminative-get-egs", "nnet3-discriminative-shuffle-egs")]
    assert order == sorted(order)
    again = Recorder()
    DiscriminativeTraining(options, again).run()
    assert not again.ran
    lines = Path("exp/split/1/text").read_text().splitlines()
    assert lines and all(word.isdigit() for line in lines for word in line.split()[1:])


def test_lattices_alone(source: Path) -> None:
    """The same jobs for all of the data, and their number in the end."""
    recorder = Recorder()
    make_denlats(LatticesOptions(feat_dir="data", lang="lang", src_dir="src", dir="lats", nj=2), recorder)
    assert [command.split()[0] for command in recorder.ran] == ["make-graph", "nnet3-latgen-faster",
                                                                "nnet3-latgen-faster"]
    assert Path("lats/num_jobs").read_text() == "2\n"
    lines = [line for n in (1, 2) for line in Path(f"lats/split/{n}/feats.scp").read_text().splitlines()]
    utterances = [line.split()[0] for line in lines]
    assert sorted(utterances) == sorted(NAMES)


@pytest.mark.slow
@pytest.mark.parametrize("criterion", ["smbr", "mmi"])
def test_a_whole_training(source: Path, criterion: str) -> None:
    pytest.importorskip("kaldifst", reason="graphs are made with kaldifst")
    options = ["--feat-dir=data", "--lang=lang", "--src-dir=src", "--dir=exp", "--nj=1", "--egs.frames-per-eg=20",
               "--egs.frames-overlap-per-eg=4", "--trainer.num-epochs=1", "--trainer.num-jobs=2",
               "--egs.frames-per-iter=300", f"--trainer.criterion={criterion}", "--trainer.learning-rate=0.001",
               "--trainer.minibatch-size=8", "--denlats.beam=6", "--denlats.lattice-beam=1"]
    command = load("train-discriminative")
    assert command.execute(options) == 0
    final, adjusted = read_model("exp/final.mdl"), read_model("exp/epoch1_adj.mdl")
    assert np.array_equal(final.priors, adjusted.priors) and not np.allclose(final.priors, 1 / len(final.priors))
    before = read_model("src/final.mdl")
    assert not np.array_equal(before.nnet.components[0].vectorize(), final.nnet.components[0].vectorize())
    logs = [path.read_text() for path in Path("exp/log").glob("compute_objf_valid.*.log")]
    assert len(logs) >= 2 and all(f"Overall {criterion} objective for 'output' is " in text for text in logs)
    time = Path("exp/final.mdl").stat().st_mtime_ns
    assert command.execute(options) == 0 and Path("exp/final.mdl").stat().st_mtime_ns == time      # nothing was left


@pytest.mark.slow
def test_a_chain_model_with_frame_shifts(source: Path) -> None:
    pytest.importorskip("kaldifst", reason="graphs are made with kaldifst")
    write_model(with_priors=False)
    Path("src/frame_subsampling_factor").write_text("3\n")
    assert load("train-discriminative").execute(
        ["--feat-dir=data", "--lang=lang", "--src-dir=src", "--dir=exp", "--nj=1", "--egs.frames-per-eg=21",
         "--egs.frames-overlap-per-eg=3", "--trainer.num-epochs=1", "--trainer.num-jobs=1",
         "--trainer.use-frame-shift=true", "--trainer.learning-rate=0.0001", "--trainer.l2-regularize=0.0001",
         "--trainer.minibatch-size=8", "--denlats.beam=6", "--denlats.lattice-beam=1"]) == 0
    assert not len(read_model("exp/final.mdl").priors) and not list(Path("exp").glob("*_adj.mdl"))
    assert sorted(path.name for path in Path("exp/log").glob("train.*.log")) == ["train.0.1.log", "train.1.1.log",
                                                                                "train.2.1.log"]
    before, after = (read_model(path).nnet.components[0].vectorize() for path in ("src/final.mdl", "exp/final.mdl"))
    assert not np.array_equal(before, after)
