"""Chain trainings from start to end, also of several languages, and what they refuse."""
from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from driver_chain_cases import CHAIN, CONTEXT, NUM_PDFS, WIDTH, write_chain_configs, write_chain_egs, write_tree_dir
from egs_source import DIM, NAMES, make_source
from job_recorder import Recorder

import nnet3py
from nnet3py.acoustic_model import AcousticModel
from nnet3py.cli.main import load
from nnet3py.decoding.graph import read_fst_file
from nnet3py.drivers.chain_training import ChainTraining, check_examples, read_languages, train_chain
from nnet3py.drivers.egs_folder import EgsFolder
from nnet3py.drivers.executor import Job
from nnet3py.drivers.options import ChainOptions
from nnet3py.egs.chain_example import read_chain_egs
from nnet3py.errors import FormatError, Nnet3Error, UsageError
from nnet3py.formats.holders import FLOAT_VECTOR, INT_VECTOR
from nnet3py.io.tables import SequentialReader, write_table
from nnet3py.report.training_logs import read_compute_prob_log


def logs(folder: Path) -> set[str]:
    return {file.name for file in (folder / "log").iterdir()}


def test_from_alignments_to_the_final_model(here: Path) -> None:
    (here / "source").mkdir()
    make_source(here / "source")
    exp = here / "exp"
    write_chain_configs(exp, DIM, lda=True)
    status = load("train-chain").execute([
        "--dir=exp", "--feat-dir=source/data", "--tree-dir=source/ali", "--ali-dir=source/ali", "--use-gpu=no",
        "--feat.cmvn-opts=--norm-means=false", "--egs.chunk-width", "15,9", "--egs.chunk-left-context=2",
        "--egs.opts=--nj 1 --num-egs-diagnostic 3", "--chain.leaky-hmm-coefficient=0.1", "--chain.xent-regularize=0.1",
        "--chain.l2-regularize=0.001", "--chain.lm-opts=--num-extra-lm-states=10 --no-prune-ngram-order=2",
        "--trainer.num-epochs=0.67", "--trainer.num-chunk-per-minibatch=4,2,1", "--num-threads=2",
        "--trainer.optimization.num-jobs-final=1", "--cleanup=false", "--trainer.dropout-schedule=0,0.2,0"])
    assert status == 0
    model = nnet3py.read_model(str(exp / "final.mdl"))
    assert isinstance(model, AcousticModel) and len(model.priors) == 0
    assert model.nnet.output_dim("output") == model.nnet.output_dim("output-xent") == NUM_PDFS
    assert {file.name for file in exp.iterdir()} >= {
        "0.trans_mdl", "phone_lm.fst", "den.fst", "normalization.fst", "tree", "lda.mat", "0.mdl", "1.mdl", "2.mdl",
        "num_jobs", "accuracy.report"}
    assert (exp / "frame_subsampling_factor").read_text() == "3\n" and (exp / "num_iters").read_text() == "2\n"
    egs = EgsFolder(exp / "egs")
    assert (egs.left_context, egs.right_context, egs.frames_per_eg) == (2 + 2 + 1, 2 + 1, "15,9")
    assert logs(exp) >= {"make_phone_lm.log", "make_den_fst.log", "get_lda_stats.1.log", "train.1.1.log",
                         "compute_prob_valid.1.log", "progress.1.log", "combine.log", "compute_prob_valid.final.log"}
    report = (exp / "accuracy.report").read_text().splitlines()
    assert [line.split("\t")[0] for line in report[1:3]] == ["0", "1"] and float(report[1].split("\t")[3]) < 0.0


def options(root: Path, **values: object) -> ChainOptions:
    """Of a training on the golden examples; everything there but what is to be made."""
    return ChainOptions(**{                                                                       # type: ignore
        "dir": str(root / "exp"), "egs_dir": str(root / "egs"), "tree_dir": str(root / "tree"), "use_gpu": "no",
        "phone_lm": str(CHAIN / "phone_lm.fst"), "chunk_width": WIDTH, "num_threads": 2, "num_jobs_final": 1,
        "num_epochs": 0.34, "minibatch_size": "4,2,1", "leaky_hmm_coefficient": 0.1, **values})


@pytest.fixture
def prepared(tmp_path: Path) -> Path:
    write_chain_configs(tmp_path / "exp")
    write_chain_egs(tmp_path / "egs")
    write_tree_dir(tmp_path / "tree")
    return tmp_path


@pytest.mark.slow
def test_with_examples_and_a_phone_language_model(prepared: Path) -> None:
    train_chain(options(prepared, do_final_combination=False, backstitch_scale=0.1, max_models_combine=1))
    exp = prepared / "exp"
    assert (exp / "phone_lm.fst").read_bytes() == (CHAIN / "phone_lm.fst").read_bytes()
    assert read_fst_file(str(exp / "den.fst")).num_states == 111
    assert (exp / "final.mdl").resolve() == exp / "2.mdl" and "combine.log" not in logs(exp)
    assert "--backstitch-training-scale=0.0066" in (exp / "log" / "train.1.1.log").read_text()


@pytest.mark.slow
def test_against_another_model(prepared: Path) -> None:
    """The posteriors of a model with a wider context, for which examples must have room."""
    network = (prepared / "exp" / "configs" / "final.config").read_text()
    teacher = nnet3py.Nnet.from_config(network.replace("Offset(input, 2)", "Offset(input, 5)"), seed=1)
    teacher.write(str(prepared / "teacher.raw"))
    given = {"lwf_model": str(prepared / "teacher.raw"), "lwf_scale": 0.5, "do_final_combination": False}
    assert ChainTraining(options(prepared, **given)).egs_contexts()[:2] == (2 + 1, 5 + 1)
    train_chain(options(prepared, **given))
    log = (prepared / "exp" / "log" / "train.0.1.log").read_text()
    assert "Added posteriors to " in log and "--lwf-scale=0.5" in log
    teacher = nnet3py.Nnet.from_config(network.replace("=56", "=57"), seed=1)
    teacher.write(str(prepared / "teacher.raw"))
    with pytest.raises(UsageError, match=r"teacher\.raw has 57 outputs, the tree in .*/tree 56 pdfs"):
        refused(prepared, stage=-100, **given)


@pytest.mark.slow
def test_with_data_without_transcripts(here: Path) -> None:
    """Lattices of one path, so that all frames are sure; half of what they weigh, and twice in an epoch."""
    make_source(here)
    write_chain_configs(here / "exp", DIM)
    (here / "lat").mkdir()
    shutil.copy("ali/final.mdl", "lat/final.mdl")
    assert load("convert-ali").execute(["--frame-subsampling-factor=3", "ali/final.mdl", "ali/final.mdl", "ali/tree",
                                        "ark:gunzip -c ali/ali.*.gz |", "ark:sub.ali"]) == 0
    write_table("ark:words", INT_VECTOR, ((name, np.array([1], np.int32)) for name in NAMES))
    assert load("linear-to-nbest").execute(["ark:sub.ali", "ark:words", "", "", "ark:| gzip -c > lat/lat.1.gz"]) == 0
    status = load("train-chain").execute([
        "--dir=exp", "--feat-dir=data", "--tree-dir=ali", "--ali-dir=ali", "--use-gpu=no", "--semisup.feat-dir=data",
        "--semisup.lat-dir=lat", "--semisup.weight=0.5", "--semisup.num-copies=2",
        "--semisup.num-copies-sup=3",
        "--feat.cmvn-opts=--norm-means=false", "--egs.chunk-width=15", "--egs.opts=--nj 1 --num-egs-diagnostic 3",
        "--chain.leaky-hmm-coefficient=0.1",
        "--trainer.num-epochs=0.2", "--trainer.num-chunk-per-minibatch=4,2,1", "--num-threads=2", "--cleanup=false",
        "--trainer.optimization.num-jobs-final=1", "--trainer.optimization.do-final-combination=false"])
    assert status == 0 and (here / "exp" / "final.mdl").exists()
    weights = dict(SequentialReader("scp:exp/weights/weights.scp", FLOAT_VECTOR))
    assert set(weights) == set(NAMES) and all((vector == 0.5).all() for vector in weights.values())
    egs = EgsFolder("exp/egs")
    assert egs.is_multitask and egs.num_archives == 5
    unsupervised = dict(read_chain_egs("ark:exp/egs_unsup/cegs.1.ark"))
    assert unsupervised and all(float(np.max(eg.outputs[0].deriv_weights)) <= 0.5 for eg in unsupervised.values())
    log = (here / "exp" / "log" / "train.0.1.log").read_text()
    assert "scp:exp/egs/cegs.1.scp" in log
    making = (here / "exp" / "egs_unsup" / "log" / "lattice_copy.1.log").read_text()
    assert "lattice-prune --acoustic-scale=0.1 --beam=4" in making


class Refusing(Recorder):
    """Runs nothing: a job is one too many."""

    def run(self, jobs: Sequence[Job]) -> None:
        raise AssertionError(f"jobs were run: {[job.command for job in jobs]}")


def refused(root: Path, **values: object) -> None:
    train_chain(options(root, **values), executor=Refusing())


def test_a_network_that_does_not_fit_is_refused_at_once(prepared: Path) -> None:
    network = nnet3py.Nnet.from_config(
        (prepared / "exp" / "configs" / "final.config").read_text().replace("=56", "=57"), seed=0)
    network.write(str(prepared / "exp" / "configs" / "ref.raw"))
    with pytest.raises(UsageError, match=r"has 57 outputs at 'output', the tree in .*/tree 56 pdfs"):
        refused(prepared)
    network = nnet3py.Nnet.from_config((prepared / "exp" / "configs" / "final.config").read_text().replace(
        "output-xent", "other"), seed=0)
    network.write(str(prepared / "exp" / "configs" / "ref.raw"))
    with pytest.raises(UsageError, match=r"--chain\.xent-regularize=0\.1, but .*ref\.raw has no output-xent"):
        refused(prepared, xent_regularize=0.1, stage=-100)


def test_examples_of_another_rate_or_tree_are_refused(prepared: Path) -> None:
    egs = EgsFolder(prepared / "egs")
    check_examples(egs, 3, NUM_PDFS)
    with pytest.raises(Nnet3Error, match=r"an output every 3 frames .* but --chain\.frame-subsampling-factor=1"):
        check_examples(egs, 1, NUM_PDFS)
    with pytest.raises(Nnet3Error, match="are of 56 pdfs .* the tree has 55"):
        check_examples(egs, 3, 55)


def test_contexts_have_room_for_frame_shifts(prepared: Path) -> None:
    made = ChainTraining(options(prepared, chunk_left_context=3, chunk_left_context_initial=0, chunk_right_context=1))
    assert made.egs_contexts() == (2 + 3 + 1, 2 + 1 + 1, 2 + 0 + 1, -1)
    assert CONTEXT >= 2 + 1
    (prepared / "egs" / "info" / "frames_per_eg").write_text("-1\n")
    assert made.chunk_width == "-1"            # whole utterances, whatever the option says


def test_other_examples_for_the_graphs_are_missing(prepared: Path) -> None:
    with pytest.raises(UsageError, match=r"has no 0\.trans_mdl"):
        refused(prepared, stage=0)
    (prepared / "tree" / "final.mdl").unlink()
    with pytest.raises(FormatError, match=r"but it has no final\.mdl"):
        refused(prepared, stage=0)


def test_alignments_with_other_phones_are_refused(prepared: Path) -> None:
    (prepared / "tree" / "phones.txt").write_text("<eps> 0\nA 1\n#0 2\n")
    (prepared / "ali").mkdir()
    (prepared / "ali" / "phones.txt").write_text("<eps> 0\nB 1\n")
    with pytest.raises(FormatError, match="the phones are others than those in"):
        refused(prepared, ali_dir=str(prepared / "ali"))


def test_another_tree_ends_a_training_that_was_begun(prepared: Path) -> None:
    with pytest.raises(AssertionError, match=r"phone_lm\.fst"):
        refused(prepared)
    (prepared / "exp" / "1.mdl").write_text("a model")
    (prepared / "tree" / "tree").write_bytes((CHAIN / "tree").read_bytes() + b" ")
    with pytest.raises(UsageError, match="begun with other options: tree was"):
        refused(prepared)


@pytest.mark.parametrize("values, what", [
    ({"tree_dir": None}, "no tree was given"), ({"egs_dir": None}, "neither examples, lattices nor alignments"),
    ({"lat_dir": "l", "ali_dir": "a"}, "both --lat-dir and --ali-dir"),
    ({"lwf_model": "a.mdl"}, "expected a model with a scale"), ({"lwf_scale": 1.0}, "expected a model with a scale"),
    ({"semisup_feat_dir": "data"}, "needs --semisup.feat-dir and --semisup.lat-dir"),
    ({"semisup_lm_repeats": "0"}, "expected two numbers"),
    ({"e2e": True, "ali_dir": "a"}, "trains without alignments"), ({"chunk_width": "0"}, "--egs.chunk-width=0"),
    ({"tree_dir": "a b"}, "a meaning for the shell")])
def test_options_that_cannot_be(prepared: Path, values: dict, what: str) -> None:
    with pytest.raises(UsageError, match=what):
        refused(prepared, **values)


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
